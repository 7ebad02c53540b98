"""The step lines of a block of a log, parsed as many at once as have one form."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from moectl.logs.columns import by_line
from moectl.logs.maxtext import log_format, number
from moectl.logs.prefixes import LONGEST
from moectl.logs.stamps import PREFIX, moments, of_groups, stamp
from moectl.logs.table import Batch

# All that a step line, and no other line but an evaluation's, holds.
NEEDLE = b"completed "
_NUMBER = rb"([+-]?(?:\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,4})?|nan|inf))"
_STEP = re.compile(rb"\d{1,12}")
# Forms that are remembered; a log has one or two.
_MOST_FORMS = 64
# Names of fields that no table has and that are told.
_MOST_UNKNOWN = 20


@dataclass(slots=True)
class _Open:
    """A batch that is being gathered."""

    names: tuple[str, ...]
    steps: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[tuple[float, ...]] = field(default_factory=list)

    def closed(self) -> Batch:
        columns = list(zip(*self.values, strict=True)) if self.names else []
        return Batch(self.names, self.steps, self.lines, self.times, columns)


@dataclass(frozen=True, slots=True)
class _Form:
    """How some lines are written: their fields, all numbers, in order."""

    names: tuple[str, ...]
    message: re.Pattern[bytes]
    line: re.Pattern[bytes]
    bare: re.Pattern[bytes]


@dataclass(slots=True)
class StepParser:
    """Parses step lines of one release.

    Attributes:
        release: the MaxText release; "" is the newest known.
        damaged: lines that begin as a step's and do not go on as one, with their numbers.
        boundaries: steps whose lines said neither time nor rates, since a profile began or
            ended there.
        rampup: steps at which the batch still grew.
        unknown: names of fields that no table has.
    """

    release: str = ""
    damaged: list[int] = field(default_factory=list)
    damaged_count: int = 0
    boundaries: set[int] = field(default_factory=set)
    rampup: set[int] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    _forms: dict[tuple[bytes, ...], _Form] = field(default_factory=dict)
    _last: _Form | None = None
    _bare: bool = False

    def parse(self, block: bytes, first: int) -> Iterator[tuple[object, Batch]]:
        """Yield the steps of a block by who wrote them, in the order of the lines of each.

        Args:
            block: whole lines.
            first: number of the first of them.
        """
        told = block.count(NEEDLE)
        if not told:
            return
        if self._last is not None and told == block.count(b"\n"):
            bare = self._bare
            found = (self._last.bare if bare else self._last.line).findall(block)
            if len(found) == told:
                yield from self._dense(found, self._last.names, first, bare)
                return
        yield from self._sparse(block, first)

    def _dense(
        self, found: list[tuple[bytes, ...]], names: tuple[str, ...], first: int, bare: bool
    ) -> Iterator[tuple[object, Batch]]:
        """Yield the steps of lines that are all of one form, `bare` of any prefix or not."""
        groups = list(zip(*found, strict=True))
        if bare:
            untimed = array("d", [float("nan")]) * len(found)
            numbers = range(first, first + len(found))
            yield None, Batch(names, list(map(int, groups[0])), numbers, untimed, groups[1:])
            return
        who, times = _wrote(groups[:7])
        steps = list(map(int, groups[7]))
        values = groups[8:]
        lines = range(first, first + len(found))
        if len(who) == 1:
            yield who[0], Batch(names, steps, lines, times, values)
            return
        places: dict[object, list[int]] = {}
        for at, each in enumerate(who):
            places.setdefault(each, []).append(at)
        for each, held in places.items():
            yield (
                each,
                Batch(
                    names,
                    [steps[at] for at in held],
                    [lines[at] for at in held],
                    [times[at] for at in held],
                    [[column[at] for at in held] for column in values],
                ),
            )

    def _sparse(self, block: bytes, first: int) -> Iterator[tuple[object, Batch]]:
        """Yield the steps of a block, line by line."""
        batches: dict[object, _Open] = {}
        line, counted = first, 0
        at = block.find(NEEDLE)
        while at >= 0:
            begin = block.rfind(b"\n", 0, at) + 1
            end = block.find(b"\n", at)
            line += block.count(b"\n", counted, begin)
            counted = begin
            row = self._row(block[begin : min(end, begin + LONGEST)], at - begin, line)
            if row is not None:
                who, time, step, names, values = row
                batch = batches.get(who)
                if batch is None or batch.names != names:
                    if batch is not None:
                        yield who, batch.closed()
                    batch = batches[who] = _Open(names)
                batch.steps.append(step)
                batch.lines.append(line)
                batch.times.append(time)
                batch.values.append(values)
            at = block.find(NEEDLE, end)
        for who, batch in batches.items():
            yield who, batch.closed()

    def _row(
        self, line: bytes, at: int, number_of: int
    ) -> tuple[object, float, int, tuple[str, ...], tuple[float, ...]] | None:
        line = line.rstrip(b"\r")
        message, ahead = line[at:], line[:at]
        rampup = ahead.endswith(_marks(self.release)[0])
        if rampup:
            ahead = ahead[: -len(_marks(self.release)[0])]
        if not message.startswith(_marks(self.release)[1:]):
            return None
        wrote = stamp(ahead)
        if wrote is None:
            # Another process wrote into the line before, or the words stand in some text.
            if ahead.count(NEEDLE) or b"] " in ahead:
                self._spoilt(number_of)
            return None
        self._bare = not ahead and not rampup
        match = self._last.message.fullmatch(message) if self._last is not None else None
        if match is not None and self._last is not None:
            step, *said = match.groups()
            names, values = self._last.names, tuple(map(float, said))
        else:
            read = self._message(message, number_of)
            if read is None:
                return None
            step, names, values = read
        if rampup:
            self.rampup.add(int(step))
        return wrote[0], wrote[1], int(step), names, values

    def _message(
        self, message: bytes, number_of: int
    ) -> tuple[bytes, tuple[str, ...], tuple[float, ...]] | None:
        """Return step, columns and values of a message; what is cut off makes it none."""
        if message.count(NEEDLE) > 1:  # another process wrote into it
            self._spoilt(number_of)
            return None
        head, _, rest = message.partition(b": ")
        step, *parts = rest.split(b", ")
        if not _STEP.fullmatch(step):
            self._spoilt(number_of)
            return None
        if head == _marks(self.release)[2]:
            self.boundaries.add(int(step))
        known = by_line()
        names: list[str] = []
        values: list[float] = []
        plain = True
        for part in parts:
            name, colon, text = part.partition(b": ")
            column = known.get(name.decode("utf-8", "replace"))
            if column is None:
                plain = False
                if colon and len(self.unknown) < _MOST_UNKNOWN:
                    self.unknown.add(name.decode("utf-8", "replace")[:40])
                continue
            value = number(text.decode("utf-8", "replace"))
            short = column.decimals is not None and _short(text, column.decimals)
            if value is None or short:
                self._spoilt(number_of)
                return None
            names.append(column.name)
            values.append(value)
        if plain and len(self._forms) < _MOST_FORMS and head == _marks(self.release)[1]:
            self._remember(tuple(part.partition(b": ")[0] for part in parts), tuple(names))
        return step, tuple(names), tuple(values)

    def _remember(self, fields: tuple[bytes, ...], names: tuple[str, ...]) -> None:
        form = self._forms.get(fields)
        if form is None:
            known = by_line()
            text = re.escape(_marks(self.release)[1]) + rb": (\d{1,12})"
            for name in fields:
                decimals = known[name.decode()].decimals
                digits = _NUMBER if decimals is None else _fixed(decimals)
                text += b", " + re.escape(name) + b": " + digits
            form = _Form(
                names,
                re.compile(text),
                re.compile(b"^" + PREFIX + text + b"\r?$", re.M),
                re.compile(b"^" + text + b"\r?$", re.M),
            )
            self._forms[fields] = form
        self._last = form

    def _spoilt(self, line: int) -> None:
        self.damaged_count += 1
        if len(self.damaged) < _MOST_UNKNOWN:
            self.damaged.append(line)


@cache
def _marks(release: str) -> tuple[bytes, bytes, bytes]:
    """Return what stands before a step of the ramp-up, a step, and a profile's boundary."""
    form = log_format(release)
    return f"{form.rampup}, ".encode(), form.step.encode(), form.boundary.encode()


def _wrote(groups: list[tuple[bytes, ...]]) -> tuple[Sequence[object], Sequence[float]]:
    """Return who wrote some lines and when, by the groups of their prefixes.

    One who wrote all of them is told once.
    """
    rank, pod, date, date_seconds, day, day_seconds, thread = groups
    count = len(rank)
    same = all(group[0] == group[-1] and group.count(group[0]) == count for group in (rank, pod))
    if same and (rank[0] or pod[0] or thread.count(thread[0]) == count):
        who: Sequence[object] = [of_groups(*(group[0] for group in groups))[0]]
    else:
        who = [of_groups(*each)[0] for each in zip(*groups, strict=True)]
    if all(day):
        return who, moments(day, day_seconds)
    if not any(day) and all(date):
        return who, moments(date, date_seconds)
    if not any(day) and not any(date):
        return who, [float("nan")] * count
    return who, [of_groups(*each)[1] for each in zip(*groups, strict=True)]


def _fixed(decimals: int) -> bytes:
    return rb"(-?\d{1,320}\.\d{%d}|-?nan|-?inf)" % decimals


def _short(text: bytes, decimals: int) -> bool:
    """Whether a number lost its end: MaxText always writes so many decimals."""
    after = text.partition(b".")[2]
    return len(after) != decimals if text[-1:].isdigit() else False
