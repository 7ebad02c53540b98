"""Tells what kind of file a text is. Content decides; the name's extension is a hint."""

from __future__ import annotations

import re
from typing import Final

from moectl.settings.sources.belongs import belongs
from moectl.settings.sources.belongs import other_format as _format

KINDS: Final = (
    "run file",
    "MaxText config",
    "MaxText model file",
    "script",
    "manifest",
    "flags",
    "variables",
    "host list",
    "MaxText command",
    "cluster profile",
    "preset",
    "unknown",
)
TAKES_BYTES: Final = frozenset({"script", "MaxText command"})
"""What a shell reads, which takes bytes of any encoding."""
_SCRIPT_NAMES: Final = (".sh", ".bash", ".sbatch", ".slurm", ".batch", ".job")
_DOCUMENTS: Final = (".md", ".markdown", ".rst", ".adoc", ".html", ".ipynb", ".tex", ".csv")
_YAML_NAMES: Final = (".yml", ".yaml", ".json")
_SAMPLE: Final = 200_000
_LINES: Final = 2_000
_WIDTH: Final = 400
# Texts, compiled when they are first used: most files need few of them.
_INNER: Final = r"(?:^|[\s{,\[-])\"?([A-Za-z_][\w]*)\"?[ \t]*:(?=[\s]|$|[\"\[{])"
_SHEBANG: Final = r"#![^\n]*\b(?:ba|da|z|k|a)?sh\b"
_DIRECTIVE: Final = r"(?m)^#SBATCH\b"
_API: Final = r"(?m)^[-{ \t]*\"?(apiVersion|kind)\"?\s*:"
_KEY: Final = r"(?m)^(\"?)([A-Za-z_][\w.-]*)\1[ \t]*:(?:[ \t\r]|$)"
_FRAGMENT: Final = (
    r"(?m)^(?:env|envFrom|containers|initContainers|replicatedJobs|podTemplate)[ \t]*:"
)
_ASSIGNMENT: Final = (
    r"""(?s)(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]*=(?:'[^']*'|"(?:[^"\\]|\\.)*"|[^\s'"])*"""
)
_FLAG: Final = r"[\s'\"]*--[A-Za-z]"
_HOST: Final = r"[A-Za-z0-9][\w.-]*(?:\[[\d,-]+\][\w.-]*)*"
_HOSTS: Final = rf"{_HOST}(?:,{_HOST})*,?"
# Counts are bounded, so that no text makes the search slow.
_COMMAND: Final = (
    r"(?i)(?:^|[\s/])python[\d.]{0,8}\s{1,8}(?:-\S{1,80}\s{1,8}){0,6}?"
    r"(?:-m\s{1,8}[\w.]{0,80}maxtext|[\w./~${}-]{0,200}train\w{0,40}\.py)"
)
_SHELL_WORDS: Final = (
    r"(?m)^[ \t]*(?:srun|sbatch|export|if|for|while|case|function|source|cd|mkdir|echo|set|module|"
    r"enroot|docker|mpirun|apptainer|singularity|python[\d.]*|bash|unset)\b"
)
_OPERATORS: Final = r"&&|\|\||[;|&<>`]|\$\("


def detect(path: str, text: str) -> str:
    """Return the kind of a file, one of `KINDS`.

    Args:
        path: its name; "-" or empty when it has none.
        text: its content, without a byte order mark.
    """
    sample = text[:_SAMPLE]
    name = path.lower()
    directives = "#SBATCH" in sample and re.search(_DIRECTIVE, sample)
    if name.endswith(_DOCUMENTS):
        return "unknown"  # what stands in it is an example
    if sample.startswith("#!"):
        return "script" if directives or re.match(_SHEBANG, sample) else "unknown"
    if directives:
        return "script"
    bare = _without_comments(sample)
    if not bare:
        return _of_nothing(name)
    if name.endswith(_SCRIPT_NAMES):
        return "script"
    if name.endswith(".env") and "$(" not in bare:
        return "variables"
    if "--" in bare[:_WIDTH] and re.match(_FLAG, bare):
        return "flags"
    if name.endswith(_YAML_NAMES) or bare.startswith("{") or re.search(_KEY, bare):
        return _of_yaml(name, bare)
    if _is_assignments(bare):
        return "variables"
    return _of_words(bare)


def other_format(path: str, text: str) -> str:
    """Return which known format of another program a YAML file has; empty when none is known.

    Args:
        path: its name.
        text: its content.
    """
    return _format(_without_comments(text[:_SAMPLE])) if path.lower().endswith(_YAML_NAMES) else ""


def _of_nothing(name: str) -> str:
    if name.endswith(_SCRIPT_NAMES):
        return "script"
    return "variables" if name.endswith(".env") else "unknown"


def is_shell(text: str) -> bool:
    """Whether a script is one of a shell that is read: no other interpreter is named."""
    return not text.startswith("#!") or re.match(_SHEBANG, text[:_WIDTH]) is not None


def _without_comments(text: str) -> str:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return "\n".join(line for line in lines if line.strip())


def _is_assignments(bare: str) -> bool:
    """Whether nothing stands there but KEY=VALUE pairs, in lines or beside each other."""
    if "$(" in bare or "`" in bare:
        return False
    lines = bare.splitlines()
    if all(re.match(r"\s*[A-Za-z_][A-Za-z0-9_]*\s*=", line) for line in lines):
        # Lines of a docker file may say anything after the sign.
        return not any(re.search(_COMMAND, line) for line in lines) and not re.search(
            r"[;&|]\s*(?:export|srun|python)", bare
        )
    rest = re.sub(_ASSIGNMENT, "", bare.replace("\\\n", " "))
    return not rest.strip() and "=" in bare


def _of_words(bare: str) -> str:
    joined = bare.replace("\\\n", " ")
    lines = joined.splitlines()
    single = len(lines) == 1
    if re.search(_COMMAND, joined):
        return "MaxText command" if single and not re.search(_OPERATORS, joined) else "script"
    hosts = joined.strip()
    if single and ("," in hosts or "[" in hosts) and re.fullmatch(_HOSTS, hosts):
        return "host list"
    if re.search(_SHELL_WORDS, joined) or re.search(r"^\s*[A-Za-z_]\w*=", joined, re.MULTILINE):
        return "script"
    return "unknown"


def _of_yaml(name: str, bare: str) -> str:
    if bare.startswith("{"):
        inner = set(re.findall(_INNER, bare[:_SAMPLE]))
        return "manifest" if {"apiVersion", "kind"} <= inner else belongs(bare, name)
    if len(set(re.findall(_API, bare))) == 2 or re.search(_FRAGMENT, bare):
        return "manifest"
    keys = {key for _, key in re.findall(_KEY, bare)}
    if "kind" in keys and keys & {"spec", "metadata", "apiVersion"}:
        return "manifest"
    if "moectl_preset" in keys:
        return "preset"
    if "moectl" in keys:
        return "run file"
    if not keys and not name.endswith(_YAML_NAMES):
        return _of_words(bare)
    return belongs(bare, name)
