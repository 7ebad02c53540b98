"""Cuts and replaces known text as `${X#a}`, `${X%a}`, `${X//a/b}`, `${X:1:2}` and `tr` do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from moectl.settings.shell.source import cut
from moectl.settings.shell.syntax import Part, Word
from moectl.workload import Piece, Text

if TYPE_CHECKING:
    from moectl.settings.shell.interfaces import Expanding

CUTS = frozenset({"#", "##", "%", "%%"})
OPERATORS = CUTS | {"/", "//", ":"}

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
    literal = (
        (pattern.removeprefix("*") if front else pattern.removesuffix("*")) if star else pattern
    )
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
    if not found or not text.text.isascii():  # bytes or characters, as the locale says
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


def changed(expander: Expanding, text: Text | None, part: Part) -> Text | None:
    """Return what `${X//a/b}` and its like make of known text; None for anything else."""
    if text is None:
        return Text(())
    if not text.known or part.word is None or part.index in {"@", "*"}:
        return None
    if part.operator == ":":
        return sliced(text, expander.source.text[part.word.start : part.word.end])
    if part.operator in CUTS:
        pattern = _pattern(expander, part.word.parts, part.word.start)
        return None if pattern is None else trimmed(text, part.operator, pattern)
    halves = _halves(part.word, expander.source.text)
    if halves is None:
        return None
    pattern, new = (_pattern(expander, half, part.word.start) for half in halves)
    if pattern is None or new is None:
        return None
    return replaced(text, part.operator, pattern, new)


def _pattern(expander: Expanding, parts: Sequence[Part], start: int) -> str | None:
    """Return the characters of a pattern; None when some of them are not known."""
    if any(part.quoted and part.kind != "text" and part.text in "*?[" for part in parts):
        return None
    quoted = any(
        part.quoted and any(c in "*?[" for c in expander.source.text[part.start : part.end])
        for part in parts
    )
    text = expander.parts(parts, start)
    return text.text if text.known and not quoted else None


def _halves(word: Word, source: str) -> tuple[list[Part], list[Part]] | None:
    """Split the word of `${X/a/b}` at its slash; None for what is not plain."""
    left: list[Part] = []
    for number, part in enumerate(word.parts):
        quotes = part.start > word.start and source[part.start - 1] in "'\""
        at = source.find("/", part.start, part.end) if part.kind == "text" and not quotes else -1
        if at >= 0:
            before = replace(part, end=at)
            after = replace(part, start=at + 1)
            left += [before] if before.end > before.start else []
            right = [after] if after.end > after.start else []
            return left, [*right, *word.parts[number + 1 :]]
        left.append(part)
    return left, []
