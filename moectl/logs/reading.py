"""What a log holds, read in one pass and with a size that does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path

from moectl.logs.blocks import Blocks
from moectl.logs.columns import LineKind, line_kinds
from moectl.logs.maxtext import number
from moectl.logs.prefixes import LONGEST, strip
from moectl.logs.stamps import stamp
from moectl.logs.steps import NEEDLE, StepParser
from moectl.logs.table import MOST_ROWS, Batch, Table

# Rows of all processes but the first together, and the columns that are kept of them.
_MOST_OTHERS = 1 << 21
_OTHERS = frozenset({"seconds"})
_MOST_PROCESSES = 8192
_MOST_FULL = 4
# Events of a kind, starts and keys that are kept.
_MOST_EVENTS, _MOST_STARTS, _MOST_KEYS = 2000, 4096, 4000
# Bytes after the last echo of a configuration in which a process still starts.
_STARTING = 1 << 23
_CONFIG = "config"


@dataclass(frozen=True, slots=True)
class Said:
    """A line that says something other than a step.

    Attributes:
        kind: which, as in the table of lines.
        line: its number.
        who: the process, as of `Reading.processes`.
        value: its number, None when it has none.
        second: its second number.
        text: its text.
    """

    kind: str
    line: int
    who: object
    value: float | None = None
    second: float | None = None
    text: str = ""


@dataclass(slots=True)
class Start:
    """One start of a run, as the echo of its configuration shows.

    Attributes:
        line: line of the first key.
        time: when that was, s, or nan.
        who: the process whose echo is kept.
        config: key to value, as text.
        lines: key to the line that says it.
    """

    line: int
    time: float
    who: object
    config: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """A log, read to its present end; `update` reads what it gained.

    Attributes:
        path: the file.
        rank: the process that wrote all of it, None where it may hold several.
        release: the MaxText release that wrote it; "" is the newest known.
        processes: the steps of each process: by rank, by pod, by the number of its thread, or
            None where nothing tells who wrote.
        starts: the starts.
        said: other lines that count.
        first_time: time of the first line that has one, s, or nan.
        last_time: time of the last step, s, or nan.
        dropped: processes whose steps are not kept, since there are too many.
    """

    path: Path
    rank: int | None = None
    release: str = ""
    processes: dict[object, Table] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    first_time: float = float("nan")
    last_time: float = float("nan")
    dropped: int = 0
    parser: StepParser = field(default_factory=StepParser)
    blocks: Blocks = field(init=False)
    _until: int = _STARTING
    _bytes: int = 0
    _stepped: bool = False
    _rows: int = 0
    _counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parser.release = self.release
        self.blocks = Blocks(self.path)

    def update(self) -> int:
        """Read on to the end; return how many lines of steps came.

        Raises:
            OSError: the file cannot be read.
        """
        before = self.count
        for block, first in self.blocks.gained():
            if first_line_of_file := first == 1:
                self._open(block)
            self._block(block, first, first_line_of_file)
        return self.count - before

    @property
    def count(self) -> int:
        """Return how many lines of steps there are."""
        return sum(table.count for table in self.processes.values())

    @property
    def cut(self) -> bool:
        """Whether the file ends in a step's line that has no end, which does not count."""
        return NEEDLE in self.blocks.rest

    def _open(self, block: bytes) -> None:
        for line in block.split(b"\n", 50)[:50]:
            time = _time(line)
            if not isnan(time):
                self.first_time = time if isnan(self.first_time) else self.first_time
                return

    def _block(self, block: bytes, first: int, opening: bool) -> None:
        self._bytes += len(block)
        echo = _needle(_CONFIG) in block
        if echo or opening:
            self._until = self._bytes + _STARTING
        starting = self._bytes <= self._until
        for kind in line_kinds():
            if kind.name != _CONFIG and (starting or not kind.start) and kind.needle in block:
                self._lines(block, first, kind)
        if not echo:
            self._steps(block, first)
            return
        begin, line = 0, first
        for end, configured in _segments(block):
            part = block[begin:end]
            if configured:
                self._echo(part, line)
            else:
                self._steps(part, line)
            line += part.count(b"\n")
            begin = end

    def _steps(self, block: bytes, first: int) -> None:
        for who, batch in self.parser.parse(block, first):
            self._stepped = True
            self._add(self._who(who), batch)
            if not isnan(batch.times[-1]):
                self.last_time = batch.times[-1]

    def _add(self, who: object, batch: Batch) -> None:
        table = self.processes.get(who)
        if table is None:
            if len(self.processes) >= _MOST_PROCESSES:
                self.dropped += 1
                return
            table = self._table(who)
        before = len(table.steps)
        table.extend(batch)
        if table.only:
            self._rows += len(table.steps) - before
            if self._rows > _MOST_OTHERS:
                self._thin()

    def _table(self, who: object) -> Table:
        """Make the table of a process: full for the first one, for rank 0, and for a few others.

        Of processes without a rank nobody knows yet which ran beside the first one, and which is
        a later start of it.
        """
        full = [table for table in self.processes.values() if not table.only]
        table = Table() if not full else Table(most=MOST_ROWS // _MOST_FULL)
        if full and who == 0:
            for other in full:
                other.lighten(other.most, _OTHERS)
            table = Table()
        elif full and (isinstance(who, int) or len(full) >= _MOST_FULL):
            table.only = _OTHERS
            others = (each.stride for each in self.processes.values() if each.only)
            table.most, table.stride = _MOST_OTHERS, max(others, default=1)
        if self.starts:
            table.begin(self.starts[-1].time, len(self.starts) - 1)
        self.processes[who] = table
        return table

    def _thin(self) -> None:
        others = [table for table in self.processes.values() if table.only]
        stride = max(table.stride for table in others) * 2
        for table in others:
            table.thin(stride)
        self._rows = sum(len(table.steps) for table in others)
        if self._rows > _MOST_OTHERS:  # steps that no stride thins
            for table in others:
                table.lighten(_MOST_OTHERS // len(others), _OTHERS)
            self._rows = sum(len(table.steps) for table in others)

    def _who(self, who: object) -> object:
        return who if isinstance(who, int) or self.rank is None else self.rank

    def _echo(self, block: bytes, first: int) -> None:
        """Read the echo of a configuration: a start, or the same one of another process."""
        needle, pattern = _needle(_CONFIG), _kind(_CONFIG).pattern
        for at, begin, end, line in _found(block, first, needle):
            wrote = stamp(block[begin:at])
            match = pattern.fullmatch(_text(block[at:end]))
            if wrote is None or match is None:
                continue
            who, time = self._who(wrote[0]), wrote[1]
            if self._stepped or not self.starts:
                self._stepped = False
                if len(self.starts) < _MOST_STARTS:
                    self.starts.append(Start(line, time, who))
                for table in self.processes.values():
                    table.begin(time, len(self.starts) - 1)
            start = self.starts[-1]
            if who == start.who and len(start.config) < _MOST_KEYS:
                start.config[match["key"]] = match["text"]
                start.lines[match["key"]] = line

    def _lines(self, block: bytes, first: int, kind: LineKind) -> None:
        for _, begin, end, line in _found(block, first, kind.needle):
            count = self._counts[kind.name] = self._counts.get(kind.name, 0) + 1
            if count > _MOST_EVENTS:
                return
            stripped = strip(_text(block[begin:end]))
            match = kind.pattern.match(stripped.text)
            if match is None:
                continue
            said = match.groupdict()
            wrote = stripped.rank
            self.said.append(
                Said(
                    kind.name,
                    line,
                    self._who(wrote),
                    number(said.get("value") or ""),
                    number(said.get("second") or ""),
                    said.get("text") or "",
                )
            )


def _segments(block: bytes) -> Iterator[tuple[int, bool]]:
    """Yield the ends of the parts of a block that hold steps, and of those that hold an echo."""
    needle, begin = _needle(_CONFIG), 0
    while begin < len(block):
        at = block.find(needle, begin)
        if at < 0:
            yield len(block), False
            return
        echo = block.rfind(b"\n", 0, at) + 1
        if echo > begin:
            yield echo, False
        after = block.find(NEEDLE, at)
        begin = (
            len(block)
            if after < 0
            else max(block.rfind(b"\n", 0, after) + 1, block.find(b"\n", at) + 1)
        )
        yield begin, True


def _found(block: bytes, first: int, needle: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield where a needle stands, where its line begins and ends, and the line's number."""
    line, counted, at = first, 0, block.find(needle)
    while at >= 0:
        begin = block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at)
        line += block.count(b"\n", counted, begin)
        counted = begin
        yield at, begin, min(end, begin + LONGEST), line
        at = block.find(needle, end)


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\r").decode("utf-8", "replace")


def _time(line: bytes) -> float:
    """Return when a line was written, nan where it does not say."""
    for end in (line.find(b"] ") + 2, len(line)):
        wrote = stamp(line[:end]) if end > 1 else None
        if wrote is not None:
            return wrote[1]
    return float("nan")


def _kind(name: str) -> LineKind:
    return next(kind for kind in line_kinds() if kind.name == name)


def _needle(name: str) -> bytes:
    return _kind(name).needle
