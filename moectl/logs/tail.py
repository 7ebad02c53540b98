"""How far a run is, by the ends of its logs. Big files are read from their end only."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from statistics import median

from moectl.logs.fatal import Said, cause
from moectl.logs.maxtext import Event, StepLine, lines, log_format, opened, read_line
from moectl.logs.prefixes import LONGEST

# Bytes from the end that are read: first this many, then more where they hold no step.
FIRST = 6 << 10
MOST = 1 << 22
_GROWTH = 16
# Steps whose median counts.
STEPS = 20


@dataclass(frozen=True, slots=True)
class LogState:
    """What the end of a log says.

    Attributes:
        last_step: the last step whose line is whole; None before the first.
        steps: how many steps the run takes, where the part that was read says it.
        seconds: median time of the last steps, in s; the first of a run, and those that a
            profile disturbs, do not count.
        tflops: median TFLOP/s a device.
        tokens_per_s: median tokens a second and device.
        loss: of the last step.
        stopped: MaxText's words when it ended before its last step, "" otherwise.
        last_line_at: when the file was last written, seconds since the epoch; None when there
            is no file.
        size: bytes of the file.
    """

    last_step: int | None = None
    steps: int | None = None
    seconds: float | None = None
    tflops: float | None = None
    tokens_per_s: float | None = None
    loss: float | None = None
    stopped: str = ""
    last_line_at: float | None = None
    size: int = 0

    def done(self, steps: int | None) -> bool:
        """Whether the last of so many steps was reached."""
        wanted = steps if steps is not None else self.steps
        return wanted is not None and self.last_step is not None and self.last_step >= wanted - 1


def tail_state(path: Path, release: str = "") -> LogState:
    """Return how far a process is, by its log; a log that cannot be read says nothing."""
    try:
        status = path.stat()
    except OSError:
        return LogState()
    if not S_ISREG(status.st_mode):  # a pipe would never end
        return LogState()
    state = LogState()
    for amount in _amounts(status.st_size):
        state = state_of(last_lines(path, amount), release)
        if state.last_step is not None:
            break
    return replace(state, last_line_at=status.st_mtime, size=status.st_size)


def _amounts(size: int) -> Iterable[int]:
    amount = FIRST
    while True:
        yield amount
        if amount >= min(size, MOST):
            return
        amount *= _GROWTH


def state_of(held: Iterable[str], release: str = "") -> LogState:
    """Return what lines say; one without its end is being written, and does not count."""
    last: StepLine | None = None
    steps: int | None = None
    stopped = ""
    recent: list[StepLine] = []
    unsteady = log_format(release).unsteady_steps
    begun: int | None = None
    fresh = True
    for line in held:
        said = read_line(line, release) if line.endswith("\n") else None
        if isinstance(said, StepLine):
            if fresh or (last is not None and said.step < last.step):
                begun, fresh = said.step, False
                recent.clear()
            last = said
            recent.append(said)
            del recent[:-STEPS]
        elif isinstance(said, Event):
            if said.kind == "steps" and said.value is not None and said.value > 0:
                steps, fresh, stopped = int(said.value), True, ""  # a process that starts
            elif said.kind == "stopped":  # the line of the last step comes after it
                stopped = said.text or said.kind
    steady = [step for step in recent if begun is None or step.step >= begun + unsteady]
    steady = [step for step in steady or recent if step.seconds is not None]
    return LogState(
        last.step if last else None,
        steps,
        _median(step.seconds for step in steady),
        _median(step.tflops for step in steady),
        _median(step.tokens_per_s for step in steady),
        last.loss if last else None,
        stopped,
    )


def _median(values: Iterable[float | None]) -> float | None:
    held = [value for value in values if value is not None and value == value]  # noqa: PLR0124 - nan
    return median(held) if held else None


def last_lines(
    path: Path, amount: int = FIRST, longest: int = LONGEST, errors: str = "replace"
) -> list[str]:
    """Return the whole lines in the last `amount` bytes of a log.

    A compressed log is read from its beginning, with flat memory. What cannot be read is not
    there.

    Args:
        path: the log.
        amount: bytes.
        longest: as of `lines`.
        errors: as of `lines`.
    """
    try:
        if not path.is_file():
            return []
        with path.open("rb") as stream:
            if stream.read(2) != b"\x1f\x8b":
                size = stream.seek(0, 2)
                stream.seek(max(0, size - amount))
                found = list(lines(stream, longest, errors))
                return found[1:] if size > amount and len(found) > 1 else found
        return _last_of_compressed(path, amount, longest, errors)
    except OSError:
        return []


def _last_of_compressed(path: Path, amount: int, longest: int, errors: str) -> list[str]:
    from collections import deque  # noqa: PLC0415

    kept: deque[str] = deque()
    held = 0
    try:
        with opened(path) as stream:
            for line in lines(stream, longest, errors):
                kept.append(line)
                held += len(line)
                while held > amount and len(kept) > 1:
                    held -= len(kept.popleft())
    except (EOFError, gzip.BadGzipFile, zlib.error, OSError):
        pass  # what came before the damage counts
    return list(kept)


def first_fatal(path: Path, amount: int = 1 << 18) -> Said | None:
    """Return the known fatal text that explains the end of a log, None without one."""
    return cause(last_lines(path, amount))
