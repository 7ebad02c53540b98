"""Tells where each character of a YAML scalar stands in its file (YAML 1.1, chapter 9).

The value of a scalar is not its text: quotes and escapes are taken off, lines are folded into
one, indentation is left out. The text is read again here, beside the value that PyYAML made of
it; where the two do not agree, all of the value is put at its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from moectl.settings.sources.templated import HOLE
from moectl.values import Origin
from moectl.workload import MARK, Piece

_ESCAPES: Final = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f",
    "r": "\r", "e": "\x1b", " ": " ", '"': '"', "\\": "\\", "/": "/", "N": "\x85", "_": "\xa0",
    "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_CODES: Final = {"x": 2, "u": 4, "U": 8}
_RUN: Final = {
    '"': re.compile(r'[^"\\]+'),
    "'": re.compile(r"[^']+"),
    "": re.compile(r"(?:(?![ \t]#).)+"),
}
_BLANKS: Final = " \t"
_FAR: Final = 200  # blank lines that may stand between two words of a folded text


def placed_scalar(
    value: str, style: str, lines: Sequence[str], line: int, column: int, origin: Origin
) -> list[Piece]:
    """Return a scalar as pieces, each in one line of the file.

    Args:
        value: what it means, `MARK` for placeholders of a template.
        style: "" for a plain one, else its quote or block indicator.
        lines: the lines of the file.
        line: the line it begins in, from 1: that of its quote, or of the text of a block.
        column: the column it begins in, from 1.
        origin: gives file and layer of the places.
    """
    if style in {"|", ">"}:
        found = [
            Piece(part, Origin(origin.layer, origin.file, at, where))
            for part, at, where in _block(value, style, line, lines)
        ]
        return found or [Piece("", Origin(origin.layer, origin.file, line, column))]
    first = Origin(origin.layer, origin.file, line, column + (1 if style else 0))
    here = lines[line - 1] if line <= len(lines) else ""
    start = column - 1 + (1 if style else 0)
    if here.startswith(value.replace(MARK, HOLE), start) and "\n" not in value:
        return [Piece(value, first)]
    found = [
        Piece(text.replace(HOLE, MARK), Origin(origin.layer, origin.file, at, where), raw)
        for text, at, where, raw in _flow(style, lines, line - 1, start, len(value))
    ]
    if "".join(piece.text for piece in found) != value:
        return [Piece(value, first)]
    return found


def _flow(
    style: str, lines: Sequence[str], number: int, start: int, length: int
) -> Iterator[tuple[str, int, int, str]]:
    """Yield text, line, column and raw text of the pieces of a quoted or plain scalar."""
    said = 0
    while number < len(lines) and said <= length:
        found, ended, joined = _line(style, lines[number], start)
        for whole, column, raw in found:
            text = whole if style else whole[: length - said]
            yield text, number + 1, column + 1, raw
            said += len(text)
        if ended or (not style and said >= length):
            return
        end = len(lines[number].rstrip())
        at, number, blank = number + 1, number + 1, 0
        while number < len(lines) and not lines[number].strip():
            number, blank = number + 1, blank + 1
        if blank:
            yield "\n" * blank, at, end + 1, ""
        elif not joined:
            yield " ", at, end + 1, ""
        said += blank or (not joined)
        if number < len(lines):
            start = len(lines[number]) - len(lines[number].lstrip(_BLANKS))


def _line(style: str, line: str, start: int) -> tuple[list[tuple[str, int, str]], bool, bool]:
    """Return the pieces of a line, whether the scalar ends there, and whether no blank follows."""
    found: list[tuple[str, int, str]] = []
    at = start
    while at < len(line):
        here = line[at]
        if style == "'" and here == "'":
            if line[at : at + 2] != "''":
                return found, True, False
            found.append(("'", at, "''"))
            at += 2
        elif style == '"' and here == '"':
            return found, True, False
        elif style == '"' and here == "\\":
            if at + 1 == len(line):
                return found, False, True
            size = _CODES.get(line[at + 1], 0)
            raw = line[at : at + 2 + size]
            found.append((_escaped(raw), at, raw))
            at += len(raw)
        else:
            run = _RUN[style].match(line, at)
            if run is None and not style:
                return found, True, False  # a comment
            text = run[0] if run else here
            at += len(text)
            if at == len(line):
                text = text.rstrip(_BLANKS)
            if text:
                found.append((text, at - len(text) if at < len(line) else _begin(line, text), ""))
    return found, False, False


def _begin(line: str, text: str) -> int:
    return len(line.rstrip(_BLANKS)) - len(text)


def _escaped(raw: str) -> str:
    if raw[1] in _CODES:
        try:
            return chr(int(raw[2:], 16))
        except (ValueError, OverflowError):
            return raw
    return _ESCAPES.get(raw[1], raw)


def _block(
    value: str, style: str, first: int, lines: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of a block scalar with line and column."""
    if style == "|":
        for number, part in enumerate(value.splitlines(keepends=True), first):
            line = lines[number - 1] if number <= len(lines) else ""
            at = line.find(part.rstrip("\n").replace(MARK, HOLE))
            yield part, number, max(at, 0) + 1
        return
    # A folded line goes on in the same line of the file, or begins the next one.
    parts = re.findall(r"[^ \n]+[ \n]*|[ \n]+", value)
    number, column = first, 0
    for part in parts:
        word = part.rstrip(" \n").replace(MARK, HOLE)
        at, line_number = -1, number
        while word and at < 0 and line_number <= min(len(lines), number + _FAR):
            at = lines[line_number - 1].find(word, column if line_number == number else 0)
            if at < 0:
                line_number += 1
        if at >= 0:
            number, column = line_number, at + len(word)
        yield part, number, max(at, 0) + 1
