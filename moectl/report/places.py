"""Where the numbers behind a figure stand: ranges of lines, a few files by name."""

from __future__ import annotations

from collections.abc import Iterable

from moectl.report.series import Series

_MOST = 4


def places(series: Series, rows: Iterable[int], *names: str) -> tuple[str, ...]:
    """Return where rows stand, as FILE:FIRST-LAST a file.

    Args:
        series: of the run.
        rows: its rows.
        names: the columns that are read; one that a sink has in full precision names it.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    if len(series.paths) == 1:  # most runs have one log, and it may be long
        lines = [series.lines[row] for row in rows]
        first, last = ({0: min(lines)}, {0: max(lines)}) if lines else ({}, {})
        rows = ()
    for row in rows:
        file, line = series.files[row], series.lines[row]
        first[file] = min(first.get(file, line), line)
        last[file] = max(last.get(file, line), line)
    found = [
        f"{series.paths[file]}:{begin}" + (f"-{last[file]}" if last[file] != begin else "")
        for file, begin in first.items()
    ]
    if len(found) > _MOST:
        found = [*found[: _MOST - 1], f"{len(found) - _MOST + 1} more files"]
    sinks = {series.precise[name] for name in names if series.precise.get(name)}
    return (*found, *(f"{sink} (full precision)" for sink in sorted(sinks)))
