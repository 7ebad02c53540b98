"""How runs are: what the scheduler says, and how far their logs are."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from moectl.actions.kubernetes import bringer
from moectl.actions.runs import Row, Table, backend_for, row, table
from moectl.launch.backend import Backend, JobState
from moectl.launch.settle import settle
from moectl.launch.store import Store
from moectl.logs.folders import (
    FIRST_FAILURE,
    WATCHDOG,
    JobFolder,
    batch_log,
    beginning,
    job_folders,
    rank_log,
)
from moectl.logs.tail import LogState, tail_state
from moectl.logs.verdict import Verdict, verdict
from moectl.settings.bundle_names import CONFIG

# Seconds between two looks; the delay grows from one to the other while nothing changes.
FIRST_LOOK, LAST_LOOK, GROWTH = 2.0, 30.0, 1.5
_STEPS = re.compile(r"^(steps|learning_rate_schedule_steps): *(-?\d{1,12}) *$", re.M | re.ASCII)
_CONFIG_BYTES = 1 << 18
# What the scheduler did to a job, and what to do. Its processes tell of the signal they got at
# most, which is no cause.
_BY_SCHEDULER = {
    "timeout": Verdict(
        "the job reached its time limit",
        "raise cluster.time, or go on with `moectl resume` where it saves checkpoints",
        retry=False,
    ),
    "node failure": Verdict(
        "a node of the job went down",
        "`moectl resume` starts it again",
        retry=True,
    ),
}


@dataclass(frozen=True, slots=True)
class Status:
    """A run as it is.

    Attributes:
        row: the run and its jobs.
        state: in a word or two what it does: that of its jobs, but "done" for one that ended
            well at its last step, and "stopped" for one that ended well before.
        steps: how many steps it takes, None where nothing says it.
        log: what the log of rank 0 says.
        folder: the logs of its newest start; None before the first.
        age: seconds since that log was written, None without one.
    """

    row: Row
    state: str
    steps: int | None
    log: LogState
    folder: JobFolder | None
    age: float | None

    def as_dict(self, now: float) -> dict[str, Any]:
        """Return the JSON form; a loss that is no number is told as text."""
        log = asdict(self.log)
        loss = log["loss"]
        if isinstance(loss, float) and (loss != loss or abs(loss) == float("inf")):  # noqa: PLR0124
            log["loss"] = str(loss)
        del log["size"], log["last_line_at"], log["steps"]
        return {
            **self.row.as_dict(now),
            "state": self.state,
            "step": log.pop("last_step"),
            "steps": self.steps,
            **log,
            "last_line_age": self.age,
            "logs": str(self.folder.path) if self.folder else None,
        }


@dataclass(frozen=True, slots=True)
class Details:
    """One run looked at closely.

    Attributes:
        status: the run.
        verdict: why its newest start ended, None while it runs well or when nothing tells.
        differences: what ran against the lock, a clause each.
        preflight: what a preflight said; empty where there was none.
    """

    status: Status
    verdict: Verdict | None
    differences: tuple[str, ...]
    preflight: str = ""

    def as_dict(self, now: float) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            **self.status.as_dict(now),
            "verdict": asdict(self.verdict) if self.verdict else None,
            "differences": list(self.differences),
            "preflight": self.preflight,
        }


@dataclass(frozen=True, slots=True)
class Statuses:
    """All runs, newest first, and what else the table of runs has to say, with the same states."""

    runs: tuple[Status, ...]
    table: Table


def statuses(store: Store, backend: Backend | None = None, now: float | None = None) -> Statuses:
    """Return how all runs are; the scheduler is asked once.

    Raises:
        LocalFilesError: the folder of records cannot be read.
    """
    found = table(store, backend)
    for each in found.rows:
        if each.live and each.jobs:
            bringer(each.record, store, backend)(each.record)
    moment = time.time() if now is None else now
    runs = tuple(status_of(each, moment) for each in found.rows)
    judged = tuple(replace(each.row, state=each.state) for each in runs)
    return Statuses(runs, replace(found, rows=judged))


def status(
    store: Store, said: str, backend: Backend | None = None, now: float | None = None
) -> tuple[Status, str]:
    """Return how one run is, and why the scheduler could not be asked, if so.

    Raises:
        MoectlError: there is no such run.
    """
    record = store.find(said)
    asked = backend or backend_for(record, store)
    survey = settle(store, asked, [record])
    seen = row(survey, survey.records[0], asked)
    bringer(record, store, asked)(seen.record)
    return status_of(seen, time.time() if now is None else now), survey.unreachable


def status_of(found: Row, now: float) -> Status:
    """Return a run with how far its logs are. Folders that are broken or gone say nothing."""
    bundle = Path(found.record.bundle)
    folders = job_folders(bundle, found.record.job_ids)
    folder = folders[-1] if folders else None
    log = tail_state(rank_log(folder.path, 0)) if folder else LogState()
    steps = _steps(found, bundle)
    age = None if log.last_line_at is None else max(0.0, now - log.last_line_at)
    steps = steps if steps is not None else log.steps
    return Status(found, _state(found, log, steps), steps, log, folder, age)


def _state(found: Row, log: LogState, steps: int | None) -> str:
    """Return the state: an exit code of 0 is not the end, since MaxText leaves it on SIGTERM."""
    if found.state == "unknown" and found.jobs and log.done(steps):
        return "done"
    if found.state != "completed" or (steps is None and not log.stopped):
        return found.state
    return "done" if log.done(steps) else "stopped"


def _steps(found: Row, bundle: Path) -> int | None:
    said = found.record.options.get("steps")
    if type(said) is int and said > 0:
        return said
    held = {name: int(value) for name, value in _STEPS.findall(_config(bundle))}
    steps = held.get("steps")
    if steps is not None and steps < 0:  # MaxText takes those of the schedule then
        steps = held.get("learning_rate_schedule_steps")
    return steps if steps is not None and steps > 0 else None


def _config(bundle: Path) -> str:
    return beginning(bundle / CONFIG, _CONFIG_BYTES)


def details(found: Status) -> Details:
    """Return a run looked at closely: why it failed, and what ran against its lock."""
    from moectl.actions.differences import differences  # noqa: PLC0415
    from moectl.logs.preflight import preflight  # noqa: PLC0415

    bundle = Path(found.row.record.bundle)
    path = found.folder.path if found.folder else None
    left = path is not None and any((path / name).exists() for name in (FIRST_FAILURE, WATCHDOG))
    ended_well = found.state in {"done", "stopped", "completed"}
    why = None
    if left or not (found.row.live or ended_well):
        jobs = found.row.record.job_ids
        job = found.folder.job if found.folder else jobs[-1] if jobs else None
        why = verdict(path, batch_log(bundle, job) if job else None)
        why = _by_scheduler(why, next((one for one in found.row.jobs if one.job == job), None))
    looked = preflight(path) if path else None
    differing = tuple(differences(bundle, path)) if path else ()
    return Details(found, why, differing, looked.said if looked else "")


def _by_scheduler(why: Verdict | None, job: JobState | None) -> Verdict | None:
    """Return what the scheduler did to a job where its logs tell no cause of their own."""
    did = _BY_SCHEDULER.get(job.phase) if job is not None else None
    if did is None or job is None or (why is not None and not why.signalled):
        return why
    rank, code = (why.rank, why.exit_code) if why is not None else (None, None)
    return replace(did, rank=rank, node=why.node if why else "", exit_code=code, text=job.reason)


def watched(
    look: Callable[[], Statuses], sleep: Callable[[float], None] = time.sleep
) -> Iterator[Statuses]:
    """Yield how runs are until none of them is live, ever more seldom while nothing changes.

    Args:
        look: returns how the runs are now.
        sleep: waits that many seconds.
    """
    delay, before = FIRST_LOOK, None
    while True:
        now = look()
        yield now
        if not any(each.row.live for each in now.runs) and not now.table.unreachable:
            return
        seen = [(each.row.record.id, each.state) for each in now.runs]
        delay = FIRST_LOOK if seen != before else min(LAST_LOOK, delay * GROWTH)
        before = seen
        sleep(delay)


def only(found: Status, unreachable: str) -> Statuses:
    """Return one run in the form of a table of runs."""
    return Statuses((found,), Table((found.row,), unreachable=unreachable))
