"""What the plots of a report show; how they are drawn is said elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Literal, TypeAlias

from moectl.logs.columns import columns
from moectl.report.figure import shown
from moectl.report.measure import Report
from moectl.report.series import Series

Mark: TypeAlias = Literal["line", "dots", "hollow", "dashed"]
# Points of a curve that are drawn: more are not told apart.
MOST_POINTS = 240
_PROCESSES = 48


@dataclass(frozen=True, slots=True)
class Point:
    """A point, and what it says when it is pointed at."""

    x: float
    y: float
    said: str = ""


@dataclass(frozen=True, slots=True)
class Curve:
    """Points that belong together.

    Attributes:
        label: what they are; "" has no place in the legend.
        points: in the order of x; one whose y is no number breaks the line.
        mark: how they are drawn.
        colour: number of its colour, None for its place among the curves.
    """

    label: str
    points: tuple[Point, ...]
    mark: Mark = "line"
    colour: int | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A lying bar.

    Attributes:
        label: what it is of.
        parts: lengths of its parts, of each series of the plot.
        said: what it says when it is pointed at.
    """

    label: str
    parts: tuple[float, ...]
    said: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot.

    Attributes:
        name: of its file.
        title: what it shows.
        x: label of the horizontal axis.
        y: label of the vertical axis.
        curves: what is drawn.
        note: a sentence below.
        doubling: whether the horizontal axis doubles at even distances.
        span: the lowest and highest y that are drawn; what lies beyond is marked at the edge.
            None for all.
        zero: whether the vertical axis begins at 0.
        names: labels of the horizontal positions, where they are no numbers.
        bars: lying bars, which are drawn in place of curves.
        parts: names of the parts of a bar.
    """

    name: str
    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    note: str = ""
    doubling: bool = False
    span: tuple[float, float] | None = None
    zero: bool = False
    names: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    parts: tuple[str, ...] = ()


def plots(report: Report) -> Iterator[Plot]:
    """Yield the plots of a report, of what it has numbers for."""
    series = report.series
    final = series.final()
    yield from _by_step(series, final, "loss", "Loss", ("loss", "main_model_loss", "mtp_loss"))
    yield from _by_step(series, final, "perplexity", "Perplexity", ("perplexity",))
    yield from _step_time(report)
    yield from _by_step(
        series,
        list(report.steady.rows),
        "throughput",
        "Throughput of steady steps",
        ("tokens_per_s",),
    )
    yield from _by_step(series, final, "balance-loss", "Load-balance loss", ("moe_lb_loss",))
    yield from _by_step(
        series, final, "load-ratio", "Load of the busiest expert over the mean",
        ("max_load_ratio", "max_load_ratio_mean"),
    )  # fmt: skip
    yield from _by_step(
        series, final, "receive", "Receive demand and capacity of a rank",
        ("recv_demand", "recv_capacity"), zero=True,
    )  # fmt: skip
    yield from _processes(report)
    yield from _profile(report)


def _by_step(
    series: Series,
    rows: Sequence[int],
    name: str,
    title: str,
    names: Sequence[str],
    *,
    zero: bool = False,
) -> Iterator[Plot]:
    """Yield one plot of columns over steps; none where all of them are empty or 0."""
    known = columns()
    curves = []
    strange = 0
    for each in names:
        said = series.said(each, rows)
        if not any(value for _, value in said):
            continue
        strange += sum(not isfinite(value) for _, value in said)
        points = _points(series, said)
        mark: Mark = "dashed" if each == "recv_capacity" else "line"
        curves.append(Curve(known[each].title, points, mark))
    if not curves or all(len(curve.points) < 2 for curve in curves):
        return
    unit = known[names[0]].unit
    title_of = known[names[0]].title
    label = (unit or title_of) if len(curves) > 1 else f"{title_of}{f', {unit}' if unit else ''}"
    note = f"{strange} steps have no finite value; the line breaks there." if strange else ""
    yield Plot(name, title, "step", label, tuple(curves), note, zero=zero)


def _points(series: Series, said: Sequence[tuple[int, float]]) -> tuple[Point, ...]:
    found: list[Point] = []
    before = -1
    for row, value in thinned(said):
        step, start = series.steps[row], series.starts[row]
        if found and step <= before:  # a later start, which did steps again
            found.append(Point(float(step), float("nan")))
        said_of_it = f"step {step}: {shown(value, 4)}, {series.place(row)}"
        if start and series.starts[0] != series.starts[-1]:
            said_of_it += f", start {start + 1}"
        found.append(Point(float(step), value if isfinite(value) else float("nan"), said_of_it))
        before = step
    return tuple(found)


def thinned(said: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> list[tuple[int, float]]:
    """Return so many of the values that the highest and lowest of each stretch are among them."""
    if len(said) <= most:
        return list(said)
    size = -(-len(said) * 2 // most)
    found: list[tuple[int, float]] = []
    for at in range(0, len(said), size):
        part = range(at, min(at + size, len(said)))
        held = [each for each in part if not isnan(said[each][1])]
        picked = (
            {part[0]}
            if not held
            else {
                min(held, key=lambda each: said[each][1]),
                max(held, key=lambda each: said[each][1]),
            }
        )
        found.extend(said[each] for each in sorted(picked))
    return found


def _step_time(report: Report) -> Iterator[Plot]:
    series, held = report.series, report.steady
    said = [(row, value) for row, value in series.said("seconds", held.rows) if isfinite(value)]
    left = series.said("seconds", sorted(held.dropped))
    others = [(row, value) for row, value in left if isfinite(value)]
    if len(said) + len(others) < 2:
        return
    curves = [Curve("steady", _points(series, said), "line")] if said else []
    if others:
        dropped = tuple(
            Point(
                float(series.steps[row]),
                value,
                f"step {series.steps[row]}: {shown(value)} s, not steady "
                f"({held.dropped[row]}), {series.place(row)}",
            )
            for row, value in thinned(others)
        )
        curves.append(Curve("not steady", dropped, "hollow"))
    span = None
    middle = report.value("step_time_s.median")
    if said and middle is not None:
        first, last = float(series.steps[said[0][0]]), float(series.steps[said[-1][0]])
        curves.append(Curve("median", (Point(first, middle), Point(last, middle)), "dashed", 2))
        values = [value for _, value in said]
        span = min(values) * 0.98, max(values) * 1.02
    rule = f"{held.rule[:1].upper()}{held.rule[1:]}."
    yield Plot("step-time", "Step time", "step", "seconds", tuple(curves), rule, span=span)


def _processes(report: Report) -> Iterator[Plot]:
    held = report.processes[:_PROCESSES]
    if len(held) < 2:
        return
    usual = tuple(
        Point(float(at), each.median, f"{each.name}: median {shown(each.median)} s, {each.file}")
        for at, each in enumerate(held)
    )
    high = tuple(
        Point(float(at), each.p95, f"{each.name}: 95th percentile {shown(each.p95)} s")
        for at, each in enumerate(held)
    )
    more = len(report.processes) - len(held)
    yield Plot(
        "processes",
        "Step time by process",
        "process, the slowest first",
        "seconds",
        (Curve("median", usual, "dots"), Curve("95th percentile", high, "hollow")),
        f"{more} faster processes are not drawn." if more else "",
        names=tuple(each.name for each in held),
    )


def _profile(report: Report) -> Iterator[Plot]:
    """Yield where the time of profiles went: a bar a class, parted by what compute hides."""
    window = report.value("profile.window_s")
    if not window:
        return
    head = "profile.classes."
    found = []
    for name, figure in report.figures.items():
        if not (name.startswith(head) and name.endswith(".busy_s")) or figure.value is None:
            continue
        bare = report.value(name.replace(".busy_s", ".exposed_s"))
        alone = figure.value if bare is None else bare
        said = f"{figure.title}: {figure.value / window:.1%} of the time, {figure.trace}"
        parts = (100 * alone / window, 100 * (figure.value - alone) / window)
        found.append(Bar(figure.title, parts, said))
    idle = report.figures["profile.idle_s"]
    share = (idle.value or 0.0) / window
    found.append(Bar("idle", (100 * share, 0.0), f"idle: {share:.1%} of the time, {idle.trace}"))
    yield Plot(
        "profile",
        "Where the profiled time went",
        "share of the profiled time, %",
        "",
        (),
        "Alone: computing, or moving data with nothing to hide it. Shares of classes overlap.",
        bars=tuple(found),
        parts=("alone", "hidden by compute"),
    )
