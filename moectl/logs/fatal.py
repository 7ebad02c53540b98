"""Known texts of logs that say why a run ended or hangs; the table is `fatal.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from moectl.facts.yaml_facts import read
from moectl.logs.prefixes import LONGEST

# MaxText echoes its configuration, in which any word may stand.
_ECHO = re.compile(r"\] Config param ")
_STEP = "] completed step: "
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?:: .*)?$")


@dataclass(frozen=True, slots=True)
class Known:
    """A row of the table.

    Attributes:
        id: its name.
        pattern: what it looks like.
        cause: what happened, one clause.
        remedy: what to do.
        retry: whether the same job may well work when started again.
        ends: whether the process ends by itself right after.
        victim: whether it tells of another process's failure.
        task: where it tells of another process, what that one's rank looks like; "" otherwise.
        again: whether a further job of a long run is started all the same.
        unless: rows that take precedence in the same log.
        source: who says so, with release.
    """

    id: str
    pattern: str
    cause: str
    remedy: str
    retry: bool
    ends: bool
    source: str
    victim: bool = False
    task: str = ""
    again: bool = False
    unless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Said:
    """A known text as it stands in a log."""

    known: Known
    line: str

    @property
    def task(self) -> int | None:
        """Return the rank of the other process that the line names, None when it names none."""
        match = re.search(self.known.task, self.line) if self.known.task else None
        return int(match[1]) if match else None


@cache
def rows() -> tuple[Known, ...]:
    """Return the table, in its order."""
    return tuple(
        Known(**{**row, "unless": tuple(row.get("unless", ()))})
        for row in read("fatal.yaml")["rows"]
    )


@cache
def _compiled() -> tuple[re.Pattern[str], tuple[tuple[Known, re.Pattern[str]], ...]]:
    whole = re.compile("|".join(f"(?:{row.pattern})" for row in rows()))
    return whole, tuple((row, re.compile(row.pattern)) for row in rows())


def known(line: str) -> Known | None:
    """Return what a line says by the table, None when it says nothing known. Never raises."""
    line = line[:LONGEST]
    if _STEP in line:  # most lines are such, and they say nothing else
        return None
    whole, each = _compiled()
    if not whole.search(line) or _ECHO.search(line):
        return None
    return next(row for row, pattern in each if pattern.search(line))


def cause(lines: Iterable[str]) -> Said | None:
    """Return why a process ended, by the lines of its log.

    The first that tells of its own failure counts, else the first that tells of another's; a
    text that ends the process weighs more than one that may be harmless, and of those that tell
    of another's, one that names it. None when nothing
    known stands there.
    """
    found = [Said(row, line) for line in lines if (row := known(line)) is not None]
    ids = {said.known.id for said in found}
    found = [said for said in found if not ids.intersection(said.known.unless)]
    return min(found, key=_weight, default=None)


def _weight(said: Said) -> tuple[bool, bool, bool]:
    return said.known.victim, said.known.victim and said.task is None, not said.known.ends


def exception(lines: Iterable[str]) -> str:
    """Return the last line that names an exception, as a traceback ends; "" without one."""
    last = ""
    for line in lines:
        text = line.rstrip()
        if len(text) < LONGEST and _EXCEPTION.match(text):
            last = text
    return last
