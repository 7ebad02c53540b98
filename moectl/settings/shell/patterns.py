"""Cuts and replaces known text as `${X#a}`, `${X%a}`, `${X//a/b}`, `${X:1:2}` and `tr` do."""

from __future__ import annotations

import re

from moectl.settings.shell.source import cut
from moectl.workload import Piece, Text

_META = re.compile(r"[*?\[\\]|[?*+@!]\(")
_SLICE = re.compile(r"(\d{1,6})(?::(\d{1,6}))?")
_CLASSES = {"[:space:]": " \t\n\v\f\r", "[:blank:]": " \t", "\\n": "\n", "\\t": "\t"}
MAX_REPLACEMENTS = 2000


def trimmed(text: Text, operator: str, pattern: str) -> Text | None:
    """Return what `${X#pattern}` and its like leave; None for a pattern that is not followed.

    Args:
        text: known text.
        operator: "#", "##", "%" or "%%".
        pattern: literal characters with at most one `*`, at its open end.
    """
    whole = text.text
    star = "*" in pattern
    front = operator[0] == "#"
    literal = (pattern.removeprefix("*") if front else pattern.removesuffix("*")) if star else pattern
    if _META.search(literal):
        return None
    if not star:
        found = whole.startswith(literal) if front else whole.endswith(literal)
        length = len(literal) if found else 0
        return part(text, length, None) if front else part(text, 0, len(whole) - length)
    if not literal:
        return text if len(operator) == 1 else part(text, 0, 0)
    if front:
        at = whole.find(literal) if len(operator) == 1 else whole.rfind(literal)
        return text if at < 0 else part(text, at + len(literal), None)
    at = whole.rfind(literal) if len(operator) == 1 else whole.find(literal)
    return text if at < 0 else part(text, 0, at)


def replaced(text: Text, operator: str, pattern: str, new: str) -> Text | None:
    """Return what `${X/a/b}` (operator "/") and `${X//a/b}` make of known text, or None."""
    if not pattern or _META.search(pattern) or pattern[0] in "#%" or "&" in new or "\\" in new:
        return None
    pieces: list[Piece] = []
    at, count = 0, 0
    whole = text.text
    while (found := whole.find(pattern, at)) >= 0 and (count == 0 or operator == "//"):
        count += 1
        if count > MAX_REPLACEMENTS:
            return None
        pieces += cut(text.pieces, at, found)
        if new:
            pieces.append(Piece(new, text.at(found), pattern))
        at = found + len(pattern)
    pieces += cut(text.pieces, at, len(whole))
    return Text(tuple(pieces))


def sliced(text: Text, spoken: str) -> Text | None:
    """Return what `${X:1}` and `${X:1:2}` leave of known text, or None for other bounds."""
    found = _SLICE.fullmatch(spoken.strip())
    if not found:
        return None
    start = int(found[1])
    return part(text, start, start + int(found[2]) if found[2] else None)


def translated(text: Text, old: str, new: str) -> Text | None:
    """Return what `tr old new` makes of known text; None for sets of more than one character."""
    old, new = _CLASSES.get(old, old), _CLASSES.get(new, new)
    if len(old) != 1 or len(new) != 1:
        return None
    if old == new:
        return text
    return replaced(text, "//", old, new) if old not in "*?[\\#%" and new not in "&\\" else None


def part(text: Text, start: int, end: int | None) -> Text:
    """Return the characters from `start` to `end`; empty text keeps no place."""
    return Text(cut(text.pieces, start, len(text.text) if end is None else end))
