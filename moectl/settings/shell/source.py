"""Text that knows where each of its characters stands."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from moectl.values import Origin
from moectl.workload import MARK, Piece, Text

# Counts are bounded, so that no line makes a search slow. Go templates in the arguments of a
# program (`docker ps --format {{.Names}}`) are filled in by that program: they are unknown alike.
_FILLED = re.compile(r"\$?\{\{-?[ \t]{0,20}[A-Za-z_.$\"'(][^{}\n]{0,300}\}\}|\{%[^\n]{0,300}?%\}")
_STEERS = re.compile(
    r"[ \t]*(?:\{%.*%\}|\{#.*#\}|\{\{-?[ \t]*(?:/\*.*\*/|(?:if|else|end|range|with|define|block|"
    r"template)\b.*|\$\w+[ \t]*:?=.*)\}\})[ \t]*\n?"
)
_TOLD = re.compile(r"\{%[^\n]{0,300}?%\}|\{\{-?(?:[ \t]+\.|[ \t]*[A-Za-z_$(\"'])")
_LONGEST = 10_000


def is_template(text: str) -> bool:
    """Whether a script is to be filled in by Jinja, Helm or the like before it runs."""
    return _has_holes(text) and _TOLD.search(text) is not None


def _has_holes(text: str) -> bool:
    return ("{{" in text or "{%" in text) and _FILLED.search(text) is not None


def _of_template(line: str, start: Origin) -> list[Piece]:
    """Return the pieces of a line of a template, unknown where something is filled in."""
    if len(line) > _LONGEST:
        return [Piece(line, start)]
    if _STEERS.fullmatch(line):
        return [Piece("\n", start)] if line.endswith("\n") else []
    pieces: list[Piece] = []
    at = 0
    for found in _FILLED.finditer(line):
        pieces.append(Piece(line[at : found.start()], replace(start, column=at + 1)))
        pieces.append(Piece(MARK, replace(start, column=found.start() + 1), found.group()))
        at = found.end()
    pieces.append(Piece(line[at:], replace(start, column=at + 1)))
    return pieces


class Source:
    """A script to read: a file, or a text put together by another script.

    Attributes:
        text: its characters, with MARK for what is not known.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = [piece for piece in pieces if piece.text]
        self.text = "".join(piece.text for piece in self._pieces)
        lengths = (len(piece.text) for piece in self._pieces)
        self._starts = list(accumulate(lengths, initial=0))

    @classmethod
    def of_file(cls, text: str, path: str) -> Source:
        """Return a file's text; NUL, which no shell can pass on, becomes U+FFFD.

        What a template fills in is not known, and its own lines are left out.
        """
        lines = text.replace(MARK, "\ufffd").replace("\r\n", "\n").split("\n")
        last = len(lines)
        template = _has_holes(text)
        pieces: list[Piece] = []
        for number, line in enumerate(lines, 1):
            whole = line if number == last else f"{line}\n"
            if template and ("{{" in line or "{%" in line or "{#" in line):
                pieces += _of_template(whole, Origin(path, path, number, 1))
            else:
                pieces.append(Piece(whole, Origin(path, path, number, 1)))
        return cls(pieces)

    def origin(self, offset: int) -> Origin:
        """Return where the character at `offset` stands; past the end, where the last does."""
        if not self._pieces:
            return Origin("nowhere")
        index = min(bisect_right(self._starts, offset), len(self._pieces)) - 1
        piece = self._pieces[index]
        return _moved(piece, min(offset, len(self.text)) - self._starts[index]).origin

    def pieces(self, start: int, end: int) -> tuple[Piece, ...]:
        """Return the characters from `start` to `end`, every piece in one line."""
        found: list[Piece] = []
        index = bisect_right(self._starts, start) - 1
        while start < end and index < len(self._pieces):
            first = self._starts[index]
            stop = min(end, self._starts[index + 1])
            found.append(_cut(self._pieces[index], start - first, stop - first))
            start, index = stop, index + 1
        return tuple(found)


def cut(pieces: Iterable[Piece], start: int, end: int) -> tuple[Piece, ...]:
    """Return the characters of some pieces from `start` to `end`."""
    found: list[Piece] = []
    first = 0
    for piece in pieces:
        stop = first + len(piece.text)
        if first < end and start < stop:
            found.append(_cut(piece, max(0, start - first), min(end, stop) - first))
        first = stop
        if first >= end:
            break
    return tuple(found)


def unknown(origin: Origin, raw: str = "") -> Text:
    """Return a text nothing is known of."""
    return Text((Piece(MARK, origin, raw),))


def joined(texts: Iterable[Text]) -> Text:
    """Return texts with a blank between them, as `$*`, echo and ssh join theirs."""
    pieces: list[Piece] = []
    for text in texts:
        if pieces:
            pieces.append(Piece(" ", text.origin, " "))
        pieces.extend(text.pieces)
    return Text(tuple(pieces))


def _cut(piece: Piece, start: int, end: int) -> Piece:
    if start == 0 and end == len(piece.text):
        return piece
    return Piece(piece.text[start:end], _moved(piece, start).origin, piece.raw)


def _moved(piece: Piece, columns: int) -> Piece:
    if not columns or piece.raw or piece.origin.column is None:
        return piece
    place = piece.origin
    moved = Origin(place.layer, place.file, place.line, piece.origin.column + columns)
    return Piece(piece.text, moved, piece.raw)
