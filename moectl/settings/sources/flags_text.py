"""Reads a bare text of XLA flags: what would be the value of XLA_FLAGS, its lines kept apart."""

from __future__ import annotations

from typing import Final

from moectl.values import Origin
from moectl.workload import Piece, Text

LAYER: Final = "XLA_FLAGS"


def read_flags(text: str, path: str) -> Text:
    r"""Return the flags as one text in which every character knows its line.

    Lines that are comments are the file's own and no part of the value; so is a backslash at
    the end of a line.

    Args:
        text: the file's content, lines ended by \\n.
        path: its name.
    """
    pieces = []
    lines = text.rstrip("\n").split("\n")
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("#"):
            continue
        end = "\n" if number < len(lines) else ""
        said = line[:-1] + " " if line.endswith("\\") else line
        pieces.append(Piece(said + end, Origin(LAYER, path, number, 1)))
    return Text(tuple(pieces) or (Piece("", Origin(LAYER, path, 1, 1)),))
