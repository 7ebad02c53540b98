"""One run's steps out of all its files: its starts, the process that leads, the other ones.

Every process of a run writes a line a step. The lowest rank leads: its steps are the run's, and
those of the others tell how far apart the processes are. Where a later start does a step again,
the later one counts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan

from moectl.logs.columns import ABSENT
from moectl.logs.metrics_file import MetricsFile
from moectl.logs.reading import Reading, Start
from moectl.logs.stamps import elapsed
from moectl.logs.table import Attempt, Table
from moectl.logs.tensorboard import EventFile
from moectl.report.gather import Material
from moectl.report.sinks import fill, merge


@dataclass(frozen=True, slots=True)
class Piece:
    """The steps of one process in one of its starts.

    Attributes:
        file: the path of what it was read from.
        who: the process, as of `Reading.processes`.
        table: its table.
        number: its attempt in that table.
        attempt: the attempt.
        start: the start that the log tells of, None without one.
        order: place among all pieces, in the order of files and lines.
        first_time: when its log began, s, or nan.
        group: what its ranks were told apart in: a job's folder, or a file of several.
    """

    file: str
    who: object
    table: Table
    number: int
    attempt: Attempt
    start: Start | None
    order: int
    first_time: float
    group: str = ""

    def rows(self) -> range:
        """Return the rows of the table that are its own: those of an attempt lie together."""
        held = self.table.attempt
        begin = _lowest(held, self.number)
        return range(begin, _lowest(held, self.number + 1))


@dataclass(slots=True)
class Run:
    """One start of a run: pieces of processes that ran at the same time, the leader first."""

    pieces: list[Piece]

    @property
    def lead(self) -> Piece:
        """Return the process whose steps are the run's."""
        return self.pieces[0]

    @property
    def name(self) -> str:
        """Return the run's name, "" where its start is not in the log."""
        start = next((piece.start for piece in self.pieces if piece.start), None)
        return start.config.get("run_name", "") if start else ""


@dataclass(slots=True)
class Series:
    """A run's steps, in the order they were done.

    Attributes:
        steps: the step of each row.
        starts: which start did it.
        files: index of the file that says it.
        lines: the line, or record, in that file.
        times: when it was written, s, or nan.
        columns: values by name; ABSENT where nothing was said.
        paths: the files.
        stride: only steps that it divides are here.
        count: lines of steps, those that are not here included.
        runs: the starts.
        precise: columns that come from a metrics sink, and which.
        notes: what is to be said of all this.
    """

    steps: array[int] = field(default_factory=lambda: array("q"))
    starts: array[int] = field(default_factory=lambda: array("i"))
    files: array[int] = field(default_factory=lambda: array("i"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    columns: dict[str, array[float]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    stride: int = 1
    count: int = 0
    runs: list[Run] = field(default_factory=list)
    precise: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def column(self, name: str) -> Sequence[float]:
        """Return a column; ABSENT everywhere where no step says it."""
        return self.columns.get(name) or array("d", [ABSENT]) * len(self.steps)

    def said(self, name: str, rows: Iterable[int]) -> list[tuple[int, float]]:
        """Return row and value where a column says something."""
        column = self.columns.get(name)
        if column is None:
            return []
        return [(row, column[row]) for row in rows if column[row] != ABSENT]

    def place(self, row: int) -> str:
        """Return where a row stands, as file:line."""
        return f"{self.paths[self.files[row]]}:{self.lines[row]}"

    def final(self) -> list[int]:
        """Return the rows that count, in the order of steps: a step done again counts once."""
        last = {step: row for row, step in enumerate(self.steps)}
        return [last[step] for step in sorted(last)]


def series(material: Material) -> Series:
    """Return the steps of a run.

    Where files hold several runs, by their names, the last one is returned and a note says so.
    """
    pieces = list(_pieces(material.logs))
    used: list[EventFile | MetricsFile] = []
    if not pieces:
        used = list(material.events or material.metrics)
        pieces = list(_pieces_of_sinks(used))
    runs = _runs(pieces)
    found = Series()
    names = [run.name for run in runs]
    known = [name for name in names if name]
    if len(set(known)) > 1:
        wanted = known[-1]
        begin = max(at for at, name in enumerate(names) if name not in {"", wanted}) + 1
        others, runs = runs[:begin], runs[begin:]
        first, last = others[0].lead, others[-1].lead
        found.notes.append(
            f"the files hold several runs; this is the last one, {wanted!r}, and what came before "
            f"({first.file}:{first.attempt.first_line} to {last.file}:{last.attempt.last_line}, "
            f"{sum(run.lead.attempt.steps for run in others)} steps) is left out"
        )
    found.runs = runs
    for number, run in enumerate(runs):
        _append(found, run.lead, number)
    if used:
        found.precise = dict.fromkeys(found.columns, "")
    sinks: list[EventFile | MetricsFile] = [*material.events, *material.metrics]
    for sink in sinks:
        if found.steps and not any(sink is each for each in used):
            merge(found, str(sink.path), sink.table)
    return found


def _pieces(logs: Sequence[Reading]) -> Iterator[Piece]:
    order = 0
    for log in logs:
        for who, table in log.processes.items():
            for number, attempt in enumerate(table.attempts):
                start = log.starts[attempt.start] if attempt.start >= 0 else None
                begun = log.first_time if number == 0 and attempt.start <= 0 else attempt.began
                group = str(log.path if log.rank is None else log.path.parent)
                yield Piece(str(log.path), who, table, number, attempt, start, order, begun, group)
                order += 1


def _runs(pieces: Iterable[Piece]) -> list[Run]:
    """Gather the pieces that ran at the same time; the starts in their order."""
    held = list(pieces)
    timed = all(not isnan(piece.attempt.first_time) for piece in held)
    if timed and held:
        begin = held[0].attempt.first_time
        held.sort(key=lambda piece: (elapsed(begin, piece.attempt.first_time), piece.order))
    runs: list[Run] = []
    ranked: dict[tuple[str, int], Run] = {}
    for piece in held:
        key = piece.group, piece.number
        run = ranked.get(key) if isinstance(piece.who, int) else None
        if run is not None and _beside(run, piece):
            run.pieces.append(piece)
        elif runs and _together(runs[-1], piece, timed):
            runs[-1].pieces.append(piece)
        else:
            runs.append(Run([piece]))
            if isinstance(piece.who, int):
                ranked.setdefault(key, runs[-1])
    for run in runs:
        run.pieces.sort(key=_leads)
    return runs


def _beside(run: Run, piece: Piece) -> bool:
    """Whether a rank is another one of a start, whatever its node's clock says."""
    first = run.pieces[0]
    return (
        all(piece.who != each.who for each in run.pieces)
        and piece.attempt.first <= first.attempt.last
        and piece.attempt.last >= first.attempt.first
    )


def _together(run: Run, piece: Piece, timed: bool) -> bool:
    if any(piece.file == each.file and piece.who == each.who for each in run.pieces):
        return False
    if timed:
        last = max(each.attempt.last_time for each in run.pieces)
        first = min(each.attempt.first_time for each in run.pieces)
        short = all(each.attempt.steps == 1 for each in (*run.pieces, piece))
        same = piece.attempt.first == run.pieces[0].attempt.first
        return piece.attempt.first_time <= last or (
            short and same and piece.attempt.first_time - first < 60
        )
    last_step = max(each.attempt.last for each in run.pieces)
    first_step = min(each.attempt.first for each in run.pieces)
    return piece.attempt.first <= last_step and piece.attempt.last >= first_step


def _leads(piece: Piece) -> tuple[bool, bool, int, int]:
    """Order the pieces of a start: full tables first, then ranks, then as they were read."""
    rank = piece.who if isinstance(piece.who, int) else 0
    return bool(piece.table.only), not isinstance(piece.who, int), rank, piece.order


def _append(found: Series, piece: Piece, number: int) -> None:
    rows, table, before = piece.rows(), piece.table, len(found.steps)
    begin, end = rows.start, rows.stop
    if piece.file not in found.paths:
        found.paths.append(piece.file)
    index = found.paths.index(piece.file)
    found.steps.extend(table.steps[begin:end])
    found.lines.extend(table.lines[begin:end])
    found.times.extend(table.times[begin:end])
    found.starts.extend([number] * len(rows))
    found.files.extend([index] * len(rows))
    for name, values in table.columns.items():
        if name not in found.columns:
            found.columns[name] = array("d", [ABSENT]) * before
        found.columns[name].extend(values[begin:end])
    fill(found)
    found.stride = max(found.stride, table.stride)
    found.count += piece.attempt.steps


def _pieces_of_sinks(sinks: Sequence[EventFile | MetricsFile]) -> Iterator[Piece]:
    order = 0
    for sink in sinks:
        for number, attempt in enumerate(sink.table.attempts):
            begun = attempt.first_time
            yield Piece(str(sink.path), 0, sink.table, number, attempt, None, order, begun)
            order += 1


def _lowest(held: array[int], number: int) -> int:
    from bisect import bisect_left  # noqa: PLC0415

    return bisect_left(held, number)
