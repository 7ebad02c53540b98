"""How far apart the processes of a run are."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from moectl.logs.columns import ABSENT
from moectl.logs.maxtext import log_format
from moectl.report.figure import Figure
from moectl.report.series import Piece, Run, Series
from moectl.report.statistics import median, quantile

# A process is a straggler when its median is that much above the median of all, and beyond
# what their spread explains (median absolute deviations; 1.4826 makes one a standard deviation).
_SHARE, _DEVIATIONS, _NORMAL = 0.02, 5.0, 1.4826
_NAMED = 8


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the last start.

    Attributes:
        name: its rank, or what else tells it apart.
        file: what it was read from.
        median: of its steady steps, s.
        p95: 95th percentile, s.
        steps: how many of them were read.
        first_line: line of its first step.
        last_line: line of its last one.
        straggler: whether it is slower than all of them explain.
    """

    name: str
    file: str
    median: float
    p95: float
    steps: int
    first_line: int
    last_line: int
    straggler: bool = False


def processes(series: Series, release: str = "") -> list[Process]:
    """Return the processes of the last start by their time, the slowest first."""
    if not series.runs:
        return []
    run = series.runs[-1]
    warm = log_format(release).unsteady_steps
    held = [
        Process(
            _name(piece, number),
            piece.file,
            median(seconds),
            quantile(seconds, 0.95),
            len(seconds),
            piece.attempt.first_line,
            piece.attempt.last_line,
        )
        for number, piece in enumerate(run.pieces)
        if (seconds := _seconds(piece, warm))
    ]
    limit = _limit([each.median for each in held])
    marked = [
        Process(
            each.name, each.file, each.median, each.p95, each.steps, each.first_line,
            each.last_line, each.median > limit,
        )
        for each in held
    ]  # fmt: skip
    return sorted(marked, key=lambda each: -each.median)


def _name(piece: Piece, number: int) -> str:
    if isinstance(piece.who, int):
        return f"rank {piece.who}"
    return piece.who if isinstance(piece.who, str) else f"process {number}"


def _seconds(piece: Piece, warm: int) -> list[float]:
    column = piece.table.columns.get("seconds", array("d"))
    rows = piece.rows() if column else range(0)
    first = piece.attempt.first + warm
    return [
        column[row]
        for row in rows
        if piece.table.steps[row] >= first and column[row] != ABSENT and isfinite(column[row])
    ]


def _limit(medians: list[float]) -> float:
    if len(medians) < 2:
        return float("inf")
    middle = median(medians)
    spread = median([abs(value - middle) for value in medians]) * _NORMAL
    return middle + max(_SHARE * middle, _DEVIATIONS * spread)


def spread(run: Run, warm: int) -> tuple[float, int] | None:
    """Return the median over steps of slowest minus fastest process, s, and of how many steps.

    None where fewer than two processes tell of any step.
    """
    low: dict[int, float] = {}
    high: dict[int, float] = {}
    seen: dict[int, int] = {}
    for piece in run.pieces:
        column = piece.table.columns.get("seconds")
        if column is None:
            continue
        for row in piece.rows():
            step, value = piece.table.steps[row], column[row]
            if step >= piece.attempt.first + warm and value != ABSENT and isfinite(value):
                low[step] = min(low.get(step, value), value)
                high[step] = max(high.get(step, value), value)
                seen[step] = seen.get(step, 0) + 1
    wide = [high[step] - low[step] for step, count in seen.items() if count > 1]
    return (median(wide), len(wide)) if wide else None


def stragglers(series: Series, held: list[Process], release: str = "") -> Iterator[Figure]:
    """Yield the figures of how far apart the processes are."""
    single = "one process's log was read; give those of all ranks"
    where = tuple(f"{each.file}:{each.first_line}-{each.last_line}" for each in held[:2])
    many = len(held) > 1
    excess = held[0].median / median([each.median for each in held]) - 1 if many else None
    if many and median([each.median for each in held]) == 0:
        excess = None
    yield Figure(
        "ranks.slowest_excess",
        "slowest process over the median one",
        excess,
        "",
        f"median step time of {held[0].name if held else ''} over the median of "
        f"{len(held)} processes, minus 1",
        where,
        single,
        digits=4,
    )
    wide = spread(series.runs[-1], log_format(release).unsteady_steps) if many else None
    yield Figure(
        "ranks.spread_s",
        "slowest minus fastest process of a step",
        wide[0] if wide else None,
        "s",
        f"median over {wide[1] if wide else 0} steps",
        where,
        single,
    )
    slow = [each for each in held if each.straggler]
    named = ", ".join(each.name for each in slow[:_NAMED])
    yield Figure(
        "ranks.stragglers",
        "stragglers",
        float(len(slow)) if many else None,
        "processes",
        f"processes whose median is more than {_SHARE:.0%} and {_DEVIATIONS:.0f} deviations above "
        f"the median of all{f': {named}' if named else ''}",
        tuple(f"{each.file}:{each.first_line}-{each.last_line}" for each in slow[:4]),
        single,
        digits=0,
    )
