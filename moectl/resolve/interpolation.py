"""What `${key}` stands for in MaxText's files: OmegaConf's interpolation, as far as it is plain.

Source: OmegaConf 2.4.0 (grammar of its interpolations; the release that MaxText 0.2.5 installs).
Nothing of the environment is read: what a resolver would make is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from moectl.workload import UNKNOWN

START = "${"
Look: TypeAlias = Callable[[str], Any]
_RESOLVERS = frozenset(
    f"oc.{name}"
    for name in ("env", "create", "decode", "deprecated", "dict.keys", "dict.values", "select")
)
_PART = r"[^\s{}:()\[\].'\"\\]+"
_NODE = re.compile(rf"(\.*)(?:({_PART})|\[({_PART})\])((?:\.{_PART}|\[{_PART}\])*)")
_REST = re.compile(rf"\.({_PART})|\[({_PART})\]")


class InterpolationError(ValueError):
    """OmegaConf cannot resolve it: one clause."""


class Absent(Exception):  # noqa: N818 - it is an answer
    """Nobody says the key that is looked up."""


def resolved(value: Any, look: Look) -> Any:
    """Return a value with its interpolations resolved.

    Args:
        value: as the file has it; lists and mappings are looked into.
        look: gives the value of a key of the top level, or raises Absent.

    Returns:
        The value; UNKNOWN where a resolver, or an unknown value, is part of it.

    Raises:
        InterpolationError: OmegaConf refuses it.
    """
    if isinstance(value, str):
        return _text(value, look, 0) if START in value else value
    if isinstance(value, list):
        made = [resolved(entry, look) for entry in value]
        return UNKNOWN if UNKNOWN in made else made
    if isinstance(value, Mapping):
        inside = {key: resolved(entry, look) for key, entry in value.items()}
        return UNKNOWN if UNKNOWN in inside.values() else inside
    return value


def _text(text: str, look: Look, depth: int) -> Any:
    if depth > 8:  # keys that refer to each other
        raise InterpolationError("refers to itself")
    parts: list[Any] = []
    at = 0
    while (start := text.find(START, at)) >= 0:
        slashes = len(text[at:start]) - len(text[at:start].rstrip("\\"))
        parts.append(text[at : start - slashes] + "\\" * (slashes // 2))
        if slashes % 2:
            parts.append(START)
            at = start + len(START)
            continue
        end = _end(text, start)
        parts.append(_node(text[start + len(START) : end], look, depth))
        at = end + 1
    parts.append(text[at:])
    found = [part for part in parts if part != ""]
    if UNKNOWN in found:
        return UNKNOWN
    return found[0] if len(found) == 1 else "".join(str(part) for part in found)


def _end(text: str, start: int) -> int:
    depth = 0
    at = start
    while at < len(text):
        if text.startswith(START, at):
            depth += 1
            at += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise InterpolationError(f"has no }} after {START}")


def _node(inside: str, look: Look, depth: int) -> Any:
    content = inside.strip(" \t")
    if START in content:
        made = _text(content, look, depth + 1)
        if made is UNKNOWN:
            return UNKNOWN
        content = str(made)
    name, colon, _ = content.partition(":")
    if colon:
        if name in _RESOLVERS:
            return UNKNOWN
        raise InterpolationError(f"calls {name}, which OmegaConf does not have")
    match = _NODE.fullmatch(content)
    if match is None:
        raise InterpolationError(f"cannot be read at ${{{content}}}")
    if len(match[1]) > 1:
        raise InterpolationError(f"leads above the file at ${{{content}}}")
    path = [match[2] or match[3], *(a or b for a, b in _REST.findall(match[4]))]
    try:
        value = look(path[0])
    except Absent:
        raise InterpolationError(f"refers to ${{{content}}}, which nobody says") from None
    for part in path[1:]:
        value = _inside(value, part, content)
    return _text(value, look, depth + 1) if isinstance(value, str) and START in value else value


def _inside(value: Any, part: str, content: str) -> Any:
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(value, Mapping) and part in value:
        return value[part]
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    raise InterpolationError(f"refers to ${{{content}}}, which nobody says")
