"""Reads #SBATCH lines as sbatch does; nothing in them is expanded.

As sbatch of Slurm 22.05 to 26.05 reads a script (src/sbatch/opt.c): lines count up to the
first one that is neither blank nor a comment; quotes group, a backslash escapes, and `#`
outside quotes begins a comment, also in the middle of a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from moectl.settings.shell.grammar import parse
from moectl.settings.shell.options import split_slurm
from moectl.settings.shell.source import Source
from moectl.workload import Option, Piece, Text

_WORD = "#SBATCH"
_NEAR = re.compile(r"[ \t]*#+[ \t]*SBATCH\b[ \t]*(?=-)", re.IGNORECASE)
_SPACE = " \t\v\f\r\n"


def directives(source: Source) -> tuple[Option, ...]:
    """Return the options of the #SBATCH lines that sbatch reads, in order."""
    return tuple(
        option
        for start, line, counts in _lines(source)
        if counts and line.startswith(_WORD)
        for option in _options(source, start + len(_WORD), line[len(_WORD) :])
    )


def stray(source: Source) -> list[Option]:
    """Return the options of lines that look like directives and that sbatch ignores.

    Those are lines after the first command, in another letter case, or with something before
    or inside the word; `##SBATCH`, the common way to switch one off, is not among them.
    """
    lines: list[tuple[int, str, int]] = []
    for start, line, counts in _lines(source):
        near = _NEAR.match(line)
        exact = line.startswith(_WORD)
        if near and not (exact and counts) and not near.group().lstrip().startswith("##"):
            lines.append((start, line, near.end()))
    if lines and "<<" in source.text:
        # A here-document is no part of the script: it may be a script of its own.
        documents = parse(source.text).documents
        lines = [row for row in lines if not any(a <= row[0] < b for a, b in documents)]
    return [
        option for start, line, end in lines for option in _options(source, start + end, line[end:])
    ]


def _lines(source: Source) -> Iterator[tuple[int, str, bool]]:
    """Yield every line with its offset, and whether no command stands before it."""
    start, counts = 0, True
    for line in source.text.split("\n"):
        text = line.lstrip(_SPACE)
        if text and not text.startswith("#"):
            counts = False
        yield start, line, counts
        start += len(line) + 1


def _options(source: Source, start: int, line: str) -> tuple[Option, ...]:
    words: list[Text] = []
    at = 0
    while found := _argument(source, start, line, at):
        pieces, at = found
        words.append(Text(pieces))
    if words and words[0].text.lower() in {"hetjob", "packjob"}:
        words = words[1:]
    return split_slurm("sbatch", words, directive=True).options


def _argument(
    source: Source, start: int, line: str, at: int
) -> tuple[tuple[Piece, ...], int] | None:
    """Read one argument from `at` on; None when none is left."""
    while at < len(line) and line[at] in _SPACE:
        at += 1
    pieces: list[Piece] = []
    quote, plain = "", at
    while at < len(line) and (quote or line[at] not in _SPACE):
        char = line[at]
        if char == "\\" and at + 1 < len(line):
            pieces += source.pieces(start + plain, start + at)
            origin = source.origin(start + at)
            pieces.append(Piece(line[at + 1], origin, line[at : at + 2]))
            at += 2
            plain = at
        elif char == quote or (not quote and char in "\"'"):
            pieces += source.pieces(start + plain, start + at)
            quote = "" if quote else char
            at += 1
            plain = at
        elif char == "#" and not quote:
            break
        else:
            at += 1
    pieces += source.pieces(start + plain, start + at)
    return (tuple(pieces), at) if pieces else None
