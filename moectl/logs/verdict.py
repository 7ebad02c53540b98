"""Why a job ended: the first rank that failed, the cause, and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moectl.logs.fatal import Said, cause, exception, rows
from moectl.logs.folders import WATCHDOG, Failure, beginning, first_failure, rank_log, rank_logs
from moectl.logs.prefixes import strip
from moectl.logs.preflight import preflight
from moectl.logs.tail import last_lines

# Bytes from the end of the log of the rank that failed first, and of every other one.
OF_FIRST, OF_OTHERS = 1 << 20, 1 << 14
_OWN = "moectl: "
# What launch.sbatch prints of a run that starts.
_USUAL = (
    "moectl: job ",
    "moectl: rank ",
    "moectl: srun ",
    "moectl: not every ",
    "moectl: no Python",
    "moectl: long run: ",
)
_STOPPED = 78
_OTHER_NODES = "leave those nodes out (cluster.directives: --exclude=...), or ask for spare ones"
_SIGNALS = {
    132: "an illegal instruction",
    134: "an abort",
    135: "a bus error",
    136: "an arithmetic fault",
    137: "SIGKILL, as the kernel sends it when host memory runs out, or somebody did",
    139: "a segmentation fault",
    143: "SIGTERM",
}
# SIGKILL and SIGTERM: what somebody else sends, as Slurm does at a time limit.
_FROM_OUTSIDE = frozenset({137, 143})


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a job ended.

    Attributes:
        cause: one clause.
        remedy: what to do; "" where nothing general can be said.
        retry: whether the same job may well work when started again; None when nothing tells.
        known: the row of the table of known texts; "" for none.
        rank: the process to look at, None when none is to blame.
        node: its node, "" where it is not known.
        exit_code: the job's, None when no process left one.
        text: the line that says so; "" for none.
        watchdog: whether the watchdog ended the job.
    """

    cause: str
    remedy: str = ""
    retry: bool | None = None
    known: str = ""
    rank: int | None = None
    node: str = ""
    exit_code: int | None = None
    text: str = ""
    watchdog: bool = False

    @property
    def config_error(self) -> bool:
        """Whether it is MaxText's configuration, so that every further start fails as well.

        Exit code 2 alone does not say so: the distributed start fails with it, too.
        """
        return self.known == "config-error"

    @property
    def signalled(self) -> bool:
        """Whether nothing is known but that a signal from outside ended a process."""
        return not (self.known or self.watchdog or self.text) and self.exit_code in _FROM_OUTSIDE


def verdict(folder: Path | None, batch: Path | None = None) -> Verdict | None:
    """Return why a job ended; None when nothing tells. Never raises.

    Args:
        folder: its folder of logs; None when it has none.
        batch: what its batch script printed, if that is known.
    """
    if folder is None:
        return _of_batch(batch)
    watched = _watched(folder)
    if watched is not None:
        return watched
    failure = first_failure(folder)
    refused = _refused(folder, failure)
    if refused is not None:
        return refused
    found = _of_ranks(folder, failure)
    if found is not None and found.known:
        return found
    printed = _of_batch(batch)
    if printed is not None and (printed.known or not rank_logs(folder)):
        return replace(printed, exit_code=failure.code if failure else None)
    return found


def _refused(folder: Path, failure: Failure | None) -> Verdict | None:
    """Return why a preflight ended a job, None when none did."""
    looked = preflight(folder)
    if looked is None or looked.passed or not looked.faults:
        return None
    first = looked.faults[0]
    alone = bool(first.nodes)
    return Verdict(
        f"the preflight {looked.said}",
        _OTHER_NODES if alone else "all processes have it in common: change the job",
        alone,
        rank=first.ranks[0] if first.ranks and alone else None,
        node=first.nodes[0] if alone else "",
        exit_code=failure.code if failure is not None else None,
    )


def _of_batch(batch: Path | None) -> Verdict | None:
    """Return what the output of a batch script tells: a known text, or why it stopped."""
    held = last_lines(batch, OF_OTHERS) if batch is not None else []
    said = cause(held)
    if said is not None:
        return _known(said, None, None)
    own = [line for line in held if line.startswith(_OWN) and not line.startswith(_USUAL)]
    return Verdict("the job stopped before MaxText started", text=own[-1].strip()) if own else None


def _of_ranks(folder: Path, failure: Failure | None) -> Verdict | None:
    first = rank_log(folder, failure.rank) if failure and failure.rank is not None else None
    held = last_lines(first, OF_FIRST) if first is not None else []
    own = cause(held)
    if own is not None and not own.known.victim:
        return _known(own, failure.rank if failure else None, failure)
    others: list[tuple[int, Said]] = []
    for rank, said in _others(folder, first):
        if not said.known.victim:
            return _known(said, rank, failure)
        others.append((rank, said))
    naming = next((each for each in others if each[1].task is not None), None)
    if naming is not None and (own is None or own.task is None):
        return _known(naming[1], naming[0], failure)
    if own is not None:
        return _known(own, failure.rank if failure else None, failure)
    if failure is not None:
        return _unknown(failure, held)
    return _known(others[0][1], others[0][0], None) if others else None


def _known(said: Said, rank: int | None, failure: Failure | None) -> Verdict:
    rank = said.task if said.task is not None else rank
    same = failure is not None and failure.rank == rank
    return Verdict(
        said.known.cause,
        said.known.remedy,
        said.known.retry,
        said.known.id,
        rank,
        failure.node if failure is not None and same else "",
        failure.code if failure is not None else None,
        strip(said.line).text,
    )


def _unknown(failure: Failure, held: list[str]) -> Verdict:
    """Return what can be said of a process that failed with no text that is known."""
    base = Verdict(
        "no known text says why",
        "read the end of its log",
        rank=failure.rank,
        node=failure.node,
        exit_code=failure.code,
    )
    own = [line for line in held if line.startswith(_OWN)]
    if failure.code == _STOPPED and own:
        stopped = "it stopped before MaxText started"
        return replace(base, cause=stopped, remedy="", text=own[-1].strip())
    last = exception(held)
    if last:
        kind = last.partition(":")[0].rpartition(".")[2]
        return replace(base, cause=f"MaxText ended with {kind}", remedy="", text=last)
    if failure.code in _SIGNALS:
        return replace(base, cause=f"the process was ended by {_SIGNALS[failure.code]}")
    return base


def _others(folder: Path, first: Path | None) -> Iterator[tuple[int, Said]]:
    for rank, path in rank_logs(folder).items():
        if path != first and (said := cause(last_lines(path, OF_OTHERS))) is not None:
            yield rank, said


def _watched(folder: Path) -> Verdict | None:
    """Return what the watchdog wrote, None when it wrote nothing that can be read."""
    try:
        record: Any = json.loads(beginning(folder / WATCHDOG, 1 << 26) or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None

    def text(name: str) -> str:
        return record[name] if isinstance(record.get(name), str) else ""

    def count(name: str) -> int | None:
        return record[name] if type(record.get(name)) is int else None

    retry = record.get("retry")
    known = text("known")
    return Verdict(
        f"{text('verdict')}; {text('cause')}".strip("; ") or "the watchdog ended it",
        text("remedy"),
        retry if isinstance(retry, bool) else None,
        known if any(row.id == known for row in rows()) else "",
        count("rank"),
        text("node"),
        count("code"),
        strip(text("text")).text,
        watchdog=True,
    )
