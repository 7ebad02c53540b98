"""The steps of one process, in columns of a size that does not grow with the log."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from moectl.logs.columns import ABSENT

# Rows that are kept of one process in full; beyond, every second, fourth, ... step is.
MOST_ROWS = 1 << 18
# Columns and attempts beyond these are not kept: a file of a stranger may have any number.
_MOST_COLUMNS = 40
_MOST_ATTEMPTS = 4096


@dataclass(slots=True)
class Attempt:
    """One start of a process, as its steps tell.

    Attributes:
        first: its first step.
        last: its last one.
        first_line: line of the first.
        last_line: line of the last.
        began: time of the first line of the start, nan where none says.
        first_time: time of the first step's line.
        last_time: time of the last step's line.
        steps: how many lines of steps there are.
        missing: steps that no line tells of.
        repeated: lines of a step that was told before.
        start: which start of the log it belongs to, -1 where the log tells of none.
    """

    first: int
    last: int
    first_line: int
    last_line: int
    began: float = float("nan")
    first_time: float = float("nan")
    last_time: float = float("nan")
    steps: int = 0
    missing: int = 0
    repeated: int = 0
    start: int = -1


@dataclass(frozen=True, slots=True)
class Batch:
    """Steps of one process that have the same columns, in the order of their lines.

    Attributes:
        names: the columns.
        steps: the steps.
        lines: the number of each line.
        times: when each line was written, s, or nan.
        values: a sequence a column, of numbers or of their texts.
    """

    names: tuple[str, ...]
    steps: Sequence[int]
    lines: Sequence[int]
    times: Sequence[float]
    values: Sequence[Sequence[float] | Sequence[bytes]]


@dataclass(slots=True)
class Table:
    """The steps of a process.

    Attributes:
        most: rows that are kept at most.
        only: the columns that are kept; empty for all.
        stride: only steps that it divides are kept.
        steps: the step of each row.
        lines: the line of each row.
        times: the time of each row, s, or nan.
        attempt: which attempt each row belongs to.
        columns: values by name; ABSENT where a step said nothing.
        attempts: the starts.
        count: lines of steps in all, those that are not kept included.
    """

    most: int = MOST_ROWS
    only: frozenset[str] = frozenset()
    stride: int = 1
    steps: array[int] = field(default_factory=lambda: array("q"))
    lines: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    attempt: array[int] = field(default_factory=lambda: array("i"))
    columns: dict[str, array[float]] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    count: int = 0

    _pending: tuple[float, int] | None = None

    def begin(self, time: float, start: int) -> None:
        """Say that the process starts anew: what comes is another attempt."""
        self._pending = (time, start)

    def extend(self, batch: Batch) -> None:
        """Add steps."""
        if not batch.steps:
            return
        for part in self._parts(batch):
            before = self.attempts[-1].last
            self._count(part)
            self._keep(_distinct(part, before))

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """Yield the steps in pieces that lie in one attempt each, and begin the attempts."""
        steps, begun = batch.steps, 0
        if not self.attempts or (self._pending is not None and len(self.attempts) < _MOST_ATTEMPTS):
            self._open(batch, 0)
        last = self.attempts[-1].last
        if steps[0] > last and all(map(int.__lt__, steps, steps[1:])):
            yield batch
            return
        for at, step in enumerate(steps):
            if step < last and len(self.attempts) < _MOST_ATTEMPTS:
                if at > begun:
                    yield _cut(batch, begun, at)
                self._open(batch, at)
                begun = at
            last = step
        yield _cut(batch, begun, len(steps))

    def _open(self, batch: Batch, at: int) -> None:
        time, start = self._pending or (float("nan"), -1)
        self._pending = None
        step, line = batch.steps[at], batch.lines[at]
        made = Attempt(step, step - 1, line, line, time, batch.times[at], start=start)
        self.attempts.append(made)

    def _count(self, batch: Batch) -> None:
        attempt, steps = self.attempts[-1], batch.steps
        count = len(steps)
        distinct = count if steps[0] > attempt.last else 0
        if steps[-1] - attempt.last != count or not distinct:
            distinct = (
                len(set(steps) - {attempt.last}) if steps[0] <= attempt.last else len(set(steps))
            )
        attempt.missing += max(0, steps[-1] - attempt.last) - distinct
        attempt.repeated += count - distinct
        attempt.steps += count
        attempt.last, attempt.last_line = steps[-1], batch.lines[-1]
        attempt.last_time = batch.times[-1]
        self.count += count

    def _keep(self, batch: Batch) -> None:
        if self.stride > 1 and batch.steps:
            batch = _thinned(batch, self.stride)
        before, added = len(self.steps), len(batch.steps)
        self.steps.extend(batch.steps)
        self.lines.extend(batch.lines)
        self.times.extend(batch.times)
        self.attempt.extend([len(self.attempts) - 1] * added)
        for name, values in zip(batch.names, batch.values, strict=True):
            column = self.columns.get(name)
            if column is None:
                if (self.only and name not in self.only) or len(self.columns) >= _MOST_COLUMNS:
                    continue
                column = self.columns[name] = array("d", [ABSENT]) * before
            if len(column) == before:  # a name that stands twice in a line counts once
                column.extend(map(float, values))
        for column in self.columns.values():
            if len(column) < before + added:
                column.extend([ABSENT] * (before + added - len(column)))
        self._fit()

    def _fit(self) -> None:
        while len(self.steps) > self.most:
            before = len(self.steps)
            self.thin(self.stride * 2)
            if len(self.steps) == before and self.stride > max(self.steps):
                self._hold(range(self.most))  # step 0 over and over

    def thin(self, stride: int) -> None:
        """Keep only the steps that a larger stride divides."""
        self.stride = stride
        self._hold([at for at, step in enumerate(self.steps) if step % stride == 0])

    def _hold(self, kept: Sequence[int]) -> None:
        for name in ("steps", "lines", "times", "attempt"):
            held = getattr(self, name)
            setattr(self, name, _taken(held, kept))
        for name, column in self.columns.items():
            self.columns[name] = _taken(column, kept)

    def lighten(self, most: int, only: frozenset[str]) -> None:
        """Keep less from now on: fewer rows and only some columns."""
        self.most, self.only = most, only
        self.columns = {name: held for name, held in self.columns.items() if name in only}
        self._fit()


def _taken(held: array[Any], kept: Sequence[int]) -> array[Any]:
    """Return the rows of a column that are kept; evenly spaced ones are a slice of it."""
    if len(kept) > 2 and kept[-1] - kept[0] == (len(kept) - 1) * (kept[1] - kept[0]):
        step = kept[1] - kept[0]
        if list(kept) == list(range(kept[0], kept[-1] + 1, step)):
            return held[kept[0] : kept[-1] + 1 : step]
    return array(held.typecode, map(held.__getitem__, kept))


def _cut(batch: Batch, begin: int, end: int) -> Batch:
    if begin == 0 and end == len(batch.steps):
        return batch
    return Batch(
        batch.names,
        batch.steps[begin:end],
        batch.lines[begin:end],
        batch.times[begin:end],
        [values[begin:end] for values in batch.values],
    )


def _distinct(batch: Batch, before: int) -> Batch:
    """Return a batch without the lines of a step that the line before told already."""
    steps = batch.steps
    if steps[0] > before and all(map(int.__lt__, steps, steps[1:])):
        return batch
    kept = [at for at, step in enumerate(steps) if step > (steps[at - 1] if at else before)]
    return _picked(batch, kept)


def _thinned(batch: Batch, stride: int) -> Batch:
    """Return the steps of a batch that a stride divides."""
    steps = batch.steps
    if steps[-1] - steps[0] != len(steps) - 1:
        return _picked(batch, [at for at, step in enumerate(steps) if step % stride == 0])
    first = -steps[0] % stride  # no step is missing
    return Batch(
        batch.names,
        steps[first::stride],
        batch.lines[first::stride],
        batch.times[first::stride],
        [values[first::stride] for values in batch.values],
    )


def _picked(batch: Batch, kept: Sequence[int]) -> Batch:
    return Batch(
        batch.names,
        [batch.steps[at] for at in kept],
        [batch.lines[at] for at in kept],
        [batch.times[at] for at in kept],
        [[float(values[at]) for at in kept] for values in batch.values],
    )
