"""Makes the report of a run out of all that was read of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moectl.logs.triage import Triage
from moectl.report.clock import StartRow, clock, gaps, starts
from moectl.report.context import Context, Wish, context
from moectl.report.figure import Figure
from moectl.report.gather import Material
from moectl.report.learning import balance, learning
from moectl.report.memory import memory
from moectl.report.places import places
from moectl.report.ranks import Process, processes, stragglers
from moectl.report.series import Series, series
from moectl.report.speed import speed
from moectl.report.steady import Steady, steady
from moectl.report.traced import Traced, profile


@dataclass(frozen=True, slots=True)
class Report:
    """A run in numbers.

    Attributes:
        name: what the run is called.
        figures: by name, in the order they are shown.
        series: its steps.
        steady: which of them tell how fast it is.
        context: what its figures are measured against.
        processes: of its last start, the slowest first.
        starts: its starts.
        sources: the files, and what each was read as.
        notes: what is to be said of the files and steps.
        traces: its profiles.
        failure: why it failed; None where nothing tells, or nobody looked.
    """

    name: str
    figures: dict[str, Figure]
    series: Series
    steady: Steady
    context: Context
    processes: list[Process]
    starts: list[StartRow]
    sources: list[tuple[str, str]]
    notes: list[str]
    traces: list[Traced]
    failure: Triage | None = None

    def value(self, name: str) -> float | None:
        """Return a figure's value, None where there is none."""
        return self.figures[name].value if name in self.figures else None


def report(material: Material, wish: Wish | None = None) -> Report:
    """Return the report of a run.

    Args:
        material: what was read.
        wish: what somebody says that the files do not.

    Raises:
        UnknownNameError: the hardware is in no catalogue.
    """
    found = series(material)
    known = context(material, found, wish or Wish())
    held = steady(found, material, known.config)
    ranks = processes(found, material.release)
    figures = [
        *_counts(found, held),
        *speed(found, held, known),
        *learning(found),
        *balance(found, material),
        *stragglers(found, ranks, material.release),
        *memory(material),
        *clock(found, held, material),
        *profile(material.traces),
    ]
    name = material.name or next((run.name for run in reversed(found.runs) if run.name), "")
    notes = [*material.notes, *found.notes, *gaps(found), *_spoilt(material), *_said(material)]
    if not found.steps:
        notes.insert(0, "no line tells of a step")
    return Report(
        name,
        {figure.name: figure for figure in figures},
        found,
        held,
        known,
        ranks,
        starts(found),
        _sources(material),
        notes,
        material.traces,
    )


def _counts(found: Series, held: Steady) -> Iterator[Figure]:
    rows = found.final()
    exact = found.stride == 1
    distinct = len(rows) if exact else found.count - sum(row.redone for row in starts(found))
    where = places(found, range(len(found.steps)))
    yield Figure("steps", "steps", float(distinct), "", "distinct steps", where, digits=0)
    for name, word, row in (("first_step", "first", 0), ("last_step", "last", -1)):
        step = float(found.steps[rows[row]]) if rows else None
        if rows and not exact:
            attempts = [run.lead.attempt for run in found.runs]
            ends = min(each.first for each in attempts), max(each.last for each in attempts)
            step = float(ends[row])
        where_one = places(found, [rows[row]]) if rows else ()
        yield Figure(
            name, f"{word} step", step, "", "its number", where_one, "there is none", digits=0
        )
    by_reason = ", ".join(f"{count} {reason}" for reason, count in held.count.items())
    yield Figure(
        "dropped_steps",
        "steps that are not steady",
        float(sum(held.count.values())),
        "",
        f"{held.rule}{f'; {by_reason}' if by_reason else ''}",
        places(found, held.dropped),
        digits=0,
    )


def _sources(material: Material) -> list[tuple[str, str]]:
    found = [(str(log.path), f"log, {log.count} lines of steps") for log in material.logs]
    found += [
        (str(each.path), f"metrics_file, {each.table.count} steps") for each in material.metrics
    ]
    found += [
        (str(each.path), f"TensorBoard events, {each.table.count} steps")
        for each in material.events
    ]
    found += [(each.path, f"profile, {len(each.devices)} devices") for each in material.traces]
    accounts = dict.fromkeys(each.place.rpartition(":")[0] for each in material.accounts)
    return [*found, *((path, "Slurm's accounts") for path in accounts)]


def _spoilt(material: Material) -> Iterator[str]:
    """Yield what could not be read."""
    for log in material.logs:
        parser = log.parser
        if parser.damaged_count:
            lines = ", ".join(map(str, parser.damaged[:5]))
            more = ", ..." if parser.damaged_count > 5 else ""
            yield (
                f"{log.path}: {parser.damaged_count} lines of steps are cut off or written into "
                f"by another process, and do not count: lines {lines}{more}"
            )
        if parser.unknown:
            names = ", ".join(sorted(parser.unknown)[:5])
            yield f"{log.path}: fields that no table knows are left out: {names}"
        if log.cut:
            yield f"{log.path}: its last line has no end and does not count"
        if log.blocks.damaged:
            yield f"{log.path}: the compressed file breaks off; what came before counts"
        if log.blocks.replaced:
            yield f"{log.path}: was replaced while it was read, and read anew"
        if log.dropped:
            yield f"{log.path}: more processes than are kept; the first ones count"
    for metrics in material.metrics:
        if metrics.damaged:
            yield f"{metrics.path}: {metrics.damaged} lines are no record of a step"
    for event in material.events:
        if event.damaged:
            yield f"{event.path}: a record is broken; what came before counts"


def _said(material: Material) -> Iterator[str]:
    """Yield what the run itself said about its end and its overflows."""
    for log in material.logs:
        for said in log.said:
            if said.kind in {"stopped", "not a number"}:
                yield f"{log.path}:{said.line}: {said.text}"
            elif said.kind == "overflow" and said.value is not None and said.second is not None:
                yield (
                    f"{log.path}:{said.line}: receive buffers overflowed at step "
                    f"{said.value:.0f}: demand {said.second:.0f} exceeds {said.text}"
                )
