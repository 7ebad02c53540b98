"""Text tables: columns as wide as their widest cell."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

# Longest units first: seconds in one, and its letter.
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


def columns(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Collection[int] = (),
    *,
    indent: str = "",
) -> Iterator[str]:
    """Yield the lines of a table.

    Args:
        head: titles, one a column; empty for a table without.
        rows: cells, as many as there are titles, safe for a terminal.
        right: columns whose cells stand at the right, numbered from 0.
        indent: what stands before every line.
    """
    lines = [*([head] if head else []), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            text.rjust(width) if index in right else text.ljust(width)
            for index, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield f"{indent}{'  '.join(cells)}".rstrip()


def age(seconds: float) -> str:
    """Return a length of time in its largest whole unit, e.g. "3h"."""
    for length, letter in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)}{letter}"
    return f"{int(seconds)}s"
