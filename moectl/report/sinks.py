"""Adds what metrics sinks say to the steps of a log."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from moectl.logs.columns import ABSENT
from moectl.logs.table import Table

if TYPE_CHECKING:
    from moectl.report.series import Series

# A line's three decimals round by half a thousandth; a sink's float32 adds a little.
_ROUNDED = 0.00051
# What each process measures by itself.
_OF_A_PROCESS = frozenset({"seconds", "tflops", "tokens_per_s"})


def merge(found: Series, path: str, table: Table) -> None:
    """Add what a metrics sink says: full precision, and what no line has.

    All processes have the same losses, and each its own times: a sink of another process than
    the leader gives the former only.
    """
    rows: dict[int, list[int]] = {}
    for row, step in enumerate(found.steps):
        rows.setdefault(step, []).append(row)
    matched: list[tuple[int, int]] = []
    lacking: list[int] = []
    strange = 0
    for at, step in enumerate(table.steps):
        same = [row for row in rows.get(step, ()) if _same(found, row, table, at, "loss")]
        timed_same = [row for row in same if _same(found, row, table, at, "seconds")]
        if step not in rows:
            lacking.append(at)
        elif same:  # a step done again has several
            matched.append(((timed_same or same)[-1], at))
        else:
            strange += 1
    timed = sum(_same(found, row, table, at, "seconds") for row, at in matched)
    own = timed == len(matched)
    for name, values in table.columns.items():
        if not matched or (name in _OF_A_PROCESS and not own):
            continue
        if name not in found.columns:
            found.columns[name] = array("d", [ABSENT]) * len(found.steps)
        for row, at in matched:
            if values[at] != ABSENT:
                found.columns[name][row] = values[at]
        found.precise[name] = path
    if matched and not own:
        found.notes.append(
            f"{path}: another process than the leading one wrote its times; they are left out"
        )
    if strange:
        found.notes.append(
            f"{path}: the losses of {strange} of its steps differ from the log's; another start "
            "wrote them, and they are left out"
        )
    if lacking and own and not strange:
        _add_rows(found, path, table, lacking)


def _same(found: Series, row: int, table: Table, at: int, name: str) -> bool:
    column, other = found.columns.get(name), table.columns.get(name)
    return column is None or other is None or _agree(column[row], other[at])


def _add_rows(found: Series, path: str, table: Table, lacking: Sequence[int]) -> None:
    """Add steps that only a sink has, e.g. after a log that was cut off.

    Those of a stride that the log's table left out stay out.
    """
    kept = [at for at in lacking if table.steps[at] % found.stride == 0]
    if not kept:
        return
    if path not in found.paths:
        found.paths.append(path)
    index = found.paths.index(path)
    last_start = found.starts[-1]
    for at in kept:
        found.steps.append(table.steps[at])
        found.lines.append(table.lines[at])
        found.times.append(float("nan"))
        found.starts.append(last_start)
        found.files.append(index)
        for name, values in table.columns.items():
            if name not in found.columns:
                found.columns[name] = array("d", [ABSENT]) * (len(found.steps) - 1)
            found.columns[name].append(values[at])
        fill(found)
    found.count += len(kept)
    found.notes.append(f"{path}: {len(kept)} steps stand only there, in no log")


def _agree(said: float, precise: float) -> bool:
    """Whether a line's rounded number may be a sink's one."""
    if ABSENT in {said, precise} or (isnan(said) and isnan(precise)) or said == precise:
        return True
    return abs(said - precise) <= _ROUNDED + 1e-6 * abs(said)


def fill(found: Series) -> None:
    """Make all columns as long as there are steps."""
    for column in found.columns.values():
        column.extend([ABSENT] * (len(found.steps) - len(column)))
