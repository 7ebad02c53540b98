"""Slurm's accounts of a job, as `sacct --parsable2 --duplicates` prints them into a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from moectl.logs.folders import beginning

_MOST_BYTES = 1 << 24
_JOB, _STATE, _START, _END = ("JobIDRaw", "JobID"), "State", "Start", "End"
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)", re.ASCII)
_ALLOCATION = re.compile(r"\d{1,19}(?:_\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Allocation:
    """One start of a job, by the accounts.

    Attributes:
        job: its id.
        state: the scheduler's own word.
        start: when it started, s since the epoch as if its clock were UTC; None before.
        end: when it ended; None before.
        place: where this stands.
    """

    job: str
    state: str
    start: float | None
    end: float | None
    place: str

    @property
    def seconds(self) -> float | None:
        """Return how long it ran, s; None while it runs or where times are not in order."""
        if self.start is None or self.end is None or self.end < self.start:
            return None
        return self.end - self.start


def moment(text: str) -> float | None:
    """Return a time of Slurm's, 2026-11-30T12:00:00, in s; None of any other text."""
    from datetime import UTC, datetime  # noqa: PLC0415 - only accounts need it

    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def looks_like(text: str) -> bool:
    """Whether a file that begins so holds accounts: its first line names their columns."""
    return _columns(text.partition("\n")[0]) is not None


def read_accounts(path: Path) -> tuple[Allocation, ...]:
    """Return the allocations in a file, steps of jobs left out; none of a file that has none."""
    first, *rest = beginning(path, _MOST_BYTES).split("\n")
    columns = _columns(first)
    return tuple(_rows(columns, rest, str(path))) if columns is not None else ()


def _columns(line: str) -> dict[str, int] | None:
    names = line.strip().split("|")
    held = {name: at for at, name in enumerate(names)}
    job = next((held[name] for name in _JOB if name in held), None)
    if job is None or _STATE not in held:
        return None
    return {**held, "job": job}


def _rows(columns: dict[str, int], lines: Iterable[str], path: str) -> Iterable[Allocation]:
    def cell(cells: list[str], name: str) -> str:
        at = columns.get(name)
        return cells[at].strip() if at is not None and at < len(cells) else ""

    for number, line in enumerate(lines, 2):
        cells = line.rstrip("\r").split("|")
        job = cell(cells, "job")
        if _ALLOCATION.fullmatch(job):
            times = moment(cell(cells, _START)), moment(cell(cells, _END))
            yield Allocation(job, cell(cells, _STATE), *times, f"{path}:{number}")
