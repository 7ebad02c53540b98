"""Where a run's time went: until its first step, in steps that counted, and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan

from moectl.logs.columns import ABSENT
from moectl.logs.stamps import elapsed
from moectl.report.figure import Figure
from moectl.report.gather import Material
from moectl.report.series import Series
from moectl.report.statistics import median
from moectl.report.steady import Steady

# A clock that goes back by less was only set right.
_BACK = 2.0
_NO_TIME = "the lines have no time of their own"


@dataclass(frozen=True, slots=True)
class StartRow:
    """One start of a run, as a table shows it.

    Attributes:
        number: from 1.
        first: its first step.
        last: its last one.
        steps: lines of steps.
        redone: steps of it that a later start did again.
        missing: steps that no line tells of.
        until_first: seconds until its first step's line, None where no time says it.
        seconds: from its beginning to its last step, None likewise.
        place: where its steps stand.
    """

    number: int
    first: int
    last: int
    steps: int
    redone: int
    missing: int
    until_first: float | None
    seconds: float | None
    place: str


def starts(series: Series) -> list[StartRow]:
    """Return the starts of a run in their order."""
    rows = []
    for number, run in enumerate(series.runs):
        piece, attempt = run.lead, run.lead.attempt
        later = [each.lead.attempt.first for each in series.runs[number + 1 :]]
        redone = max(0, attempt.last + 1 - min(later)) if later else 0
        begun = _begun(series, number)
        rows.append(
            StartRow(
                number + 1,
                attempt.first,
                attempt.last,
                attempt.steps,
                min(redone, attempt.steps),
                attempt.missing,
                _positive(begun, attempt.first_time),
                _positive(begun, attempt.last_time),
                f"{piece.file}:{attempt.first_line}-{attempt.last_line}",
            )
        )
    return rows


def _begun(series: Series, number: int) -> float:
    """Return when a start began: the first line that has a time, else its first step's."""
    piece = series.runs[number].lead
    return piece.attempt.first_time if isnan(piece.first_time) else piece.first_time


def _positive(begin: float, end: float) -> float | None:
    seconds = elapsed(begin, end)
    return seconds if seconds >= 0 else None  # nan is not


def jump(series: Series) -> int | None:
    """Return the first row before whose line the clock went back, None when it never did."""
    for row in range(1, len(series.steps)):
        if series.starts[row] == series.starts[row - 1] and (
            elapsed(series.times[row - 1], series.times[row]) < -_BACK
        ):
            return row
    return None


def clock(series: Series, held: Steady, material: Material) -> Iterator[Figure]:
    """Yield the figures of time."""
    rows = starts(series)
    first = rows[0].until_first if rows else None
    lead = series.runs[0].lead if series.runs else None
    told = lead is not None and not isnan(lead.first_time)
    yield Figure(
        "time_to_first_step_s",
        "time to the first step",
        first if told else None,
        "s",
        "from the first line of the first start to the line of its first step, which MaxText "
        "writes one step late",
        (f"{lead.file}:1-{lead.attempt.first_line}",) if lead else (),
        _NO_TIME if rows else "there is no step",
        digits=1,
    )
    yield goodput(series, held, material)
    pause = _pause(series)
    yield Figure(
        "longest_pause_s",
        "longest pause between two steps of a start",
        pause[0] if pause else None,
        "s",
        f"between the lines of steps {series.steps[pause[1] - 1]} and {series.steps[pause[1]]}"
        if pause
        else "",
        (series.place(pause[1]),) if pause else (),
        _NO_TIME,
        digits=1,
    )
    yield Figure(
        "restarts",
        "restarts",
        float(len(rows) - 1) if rows else None,
        "",
        "starts after the first: another echo of the configuration, or a step number that falls",
        tuple(row.place for row in rows[1:5]),
        "there is no step",
        digits=0,
    )
    yield Figure(
        "steps_redone",
        "steps done again after a restart",
        float(sum(row.redone for row in rows)) if rows else None,
        "steps",
        "steps of a start from the first step of the next one on",
        tuple(row.place for row in rows if row.redone)[:4],
        "there is no step",
        digits=0,
    )


def goodput(series: Series, held: Steady, material: Material) -> Figure:
    """Return the share of time that went into steps that counted."""
    values = [value for _, value in series.said("seconds", held.rows)]
    final = len(series.final()) * series.stride
    total, formula, places, why = _total(series, material)
    back = jump(series)
    if back is not None and not material.accounts:
        total, why = None, f"the clock goes back before {series.place(back)}"
    value = final * median(values) / total if values and total else None
    if value is not None and value > 1.05:
        value, why = None, "the times of the lines do not cover the steps"
    return Figure(
        "goodput",
        "goodput",
        min(value, 1.0) if value is not None else None,
        "",
        f"{final} steps that counted, at the median step time, over {formula}",
        places,
        why or "no step is steady",
        digits=4,
    )


def _total(series: Series, material: Material) -> tuple[float | None, str, tuple[str, ...], str]:
    """Return the time a run took, s; how it was found; where; and why there is none."""
    ran = [each for each in material.accounts if each.seconds]
    if ran:
        seconds = sum(each.seconds or 0.0 for each in ran)
        words = f"{seconds:,.0f} s of {len(ran)} allocations by Slurm's accounts"
        return seconds, words, tuple(each.place for each in ran[:4]), ""
    if not series.runs:
        return None, "", (), "there is no step"
    begin, end = _begun(series, 0), series.runs[-1].lead.attempt.last_time
    total = elapsed(begin, end)
    first, last = series.runs[0].lead, series.runs[-1].lead
    where = (f"{first.file}:1", f"{last.file}:{last.attempt.last_line}")
    if isnan(total):
        return None, "", (), _NO_TIME
    if total <= 0:
        return None, "", where, "the clock goes back between the first line and the last"
    return total, f"{total:,.1f} s from the first line to the last step", where, ""


def _pause(series: Series) -> tuple[float, int] | None:
    longest: tuple[float, int] | None = None
    for row in range(1, len(series.steps)):
        if series.starts[row] != series.starts[row - 1]:
            continue
        seconds = elapsed(series.times[row - 1], series.times[row])
        if seconds >= 0 and (longest is None or seconds > longest[0]):
            longest = seconds, row
    return longest


def gaps(series: Series) -> Iterator[str]:
    """Yield what is to be said about steps that are missing or told twice, and about clocks."""
    missing = sum(run.lead.attempt.missing for run in series.runs)
    repeated = sum(run.lead.attempt.repeated for run in series.runs)
    if missing:
        first = next(run.lead for run in series.runs if run.lead.attempt.missing)
        place = f"{first.file}:{first.attempt.first_line}-{first.attempt.last_line}"
        yield f"{missing} steps have no line between the first and the last one, in {place}"
    if repeated:
        yield (
            f"{repeated} lines tell of a step that the line before told already; several processes "
            "may write into one file without a mark, and the first line counts"
        )
    back = jump(series)
    if back is not None:
        yield f"{series.place(back)}: the clock goes back; times across it are not used"
    if series.stride > 1:
        yield (
            f"{series.count:,} lines of steps: every {series.stride}th step is read into figures "
            "and plots, the counts are whole"
        )
    nameless = sum(1 for value in series.column("seconds") if value == ABSENT)
    if nameless and nameless == len(series.steps):
        yield "no step says how long it took"
