"""Recognises YAML that is a template, and makes what can be read of it plain YAML.

A placeholder is not resolved: in a value it becomes an unknown piece, and a line of template
control (`{{- if }}`, `{% for %}`) is left out, all lines kept at their place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

HOLE: Final = "\u2400"
"""Stands for an unknown piece while the text is read as YAML; MARK itself YAML refuses."""

_CONTROL: Final = re.compile(
    r"^\s*(?:-\s+)?(?:\{\{-?\s*(?:/\*.*\*/|(?:if|else|end|range|with|define|block|template|include|toYaml|"
    r"tpl|fail|\$\w+\s*:?=)\b.*|\$\w+\s*:?=.*)\s*-?\}\}|\{%-?.*-?%\}|\{#.*#\})\s*$"
)
# Counts are bounded, so that no line makes a search slow.
_GO: Final = re.compile(r"\{\{.{0,300}?\}\}|\{%.{0,300}?%\}|\{#.{0,300}?#\}")
_ENV: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]{0,200}(?:[:?+=-][^}\n]{0,500})?\}")
_BARE_ENV: Final = re.compile(r"(?<=[:\s])\$[A-Za-z_][A-Za-z0-9_]{0,200}(?=\s|$)")
_BRACED: Final = re.compile(r"(?<=[\s:])\{[a-z_][a-z0-9_.]{0,100}\}(?=\s|$)")
_BLOCK: Final = re.compile(r"^(\s*).*[|>][+-]?\d*\s*(?:#.*)?$")
_SHORT: Final = 2_000
_TOOLS: Final = (
    (re.compile(r"\{\{[^}\n]{0,200}?(?:\.Values|\.Release|\.Chart|include\s)"), "a Helm template"),
    (re.compile(r"\{%|\{#"), "a Jinja template"),
    (re.compile(r"\{\{"), "a template"),
    (_ENV, "a file for envsubst"),
    (_BARE_ENV, "a file for envsubst"),
    (_BRACED, "a template of a Python program"),
)


@dataclass(frozen=True, slots=True)
class Plain:
    """A template made readable.

    Attributes:
        text: YAML with `HOLE` for every placeholder.
        tool: what kind of template it is; empty when it is none.
        line: line of the first placeholder, from 1; 0 when there is none.
        controls: the lines, from 1, that decide what else is rendered.
    """

    text: str
    tool: str = ""
    line: int = 0
    controls: tuple[int, ...] = ()


def make_plain(text: str, *, shell: bool = True) -> Plain:
    """Return the text with placeholders told apart, every line at its place.

    Shell text in a block scalar keeps its `${NAME}`: they belong to the shell that runs it.

    Args:
        text: the file's content.
        shell: whether `${NAME}` outside such text is a placeholder too; in a MaxText config it
            is OmegaConf's.
    """
    if not ("{{" in text or "{%" in text or "{#" in text or "$" in text or "{" in text):
        return Plain(text)
    lines: list[str] = []
    tool, first = "", 0
    controls: list[int] = []
    deep: int | None = None
    for number, line in enumerate(text.split("\n"), 1):
        indent = len(line) - len(line.lstrip())
        if deep is not None and line.strip() and indent <= deep:
            deep = None
        if line.lstrip().startswith("#"):
            lines.append(line)
            continue
        inside = deep is not None
        made, found, steers = _line(line, inside or not shell)
        if found and not first:
            first, tool = number, found
        elif found and found != tool and tool == "a template":
            tool = found
        if steers:
            controls.append(number)
        lines.append(made)
        if not inside and not steers and len(line) < _SHORT and _BLOCK.match(line):
            deep = indent
    return Plain("\n".join(lines), tool, first, tuple(controls))


def _line(line: str, inside: bool) -> tuple[str, str, bool]:
    """Return the line made plain, the tool it speaks for, and whether it steers."""
    if "{" not in line and "$" not in line:
        return line, "", False
    patterns = _TOOLS[:3] if inside else _TOOLS
    tool = next((name for pattern, name in patterns if pattern.search(line)), "")
    if not tool:
        return line, "", False
    made = _GO.sub(HOLE, line)
    only = not inside and not made.replace(HOLE, "").strip()
    if only or (len(line) < _SHORT and _CONTROL.match(line)):
        return "", tool, True
    if not inside:
        for pattern in (_ENV, _BARE_ENV, _BRACED):
            made = pattern.sub(HOLE, made)
    return made, tool, False
