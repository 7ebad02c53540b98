"""What became of runs: listed, followed to the end, ended, gone on with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moectl.actions.chain_state import DONE, state_of_chain
from moectl.errors import BackendError, UnknownNameError
from moectl.launch import chain, submit
from moectl.launch.backend import Backend, JobState
from moectl.launch.record import RunRecord
from moectl.launch.settle import Survey, age, settle
from moectl.launch.store import Broken, Store
from moectl.logs.tail import tail_state

# Seconds between two looks at a run that is followed; the delay grows from one to the other.
FIRST_LOOK, LAST_LOOK, GROWTH = 1.0, 30.0, 1.5
# Looks in a row that nobody answered, after which following ends.
UNANSWERED = 20


def _slurm(_: Store) -> Backend:
    from moectl.launch.slurm import Slurm  # noqa: PLC0415 - of the runs' own launchers only

    return Slurm()


def _local(store: Store) -> Backend:
    from moectl.launch.local import Local  # noqa: PLC0415

    return Local(store.root)


def _kubernetes(store: Store) -> Backend:
    from moectl.launch.kubernetes import Kubernetes  # noqa: PLC0415

    return Kubernetes(store.root)


_MAKERS: dict[str, Callable[[Store], Backend]] = {
    "slurm": _slurm,
    "local": _local,
    "kubernetes": _kubernetes,
}


@dataclass(frozen=True, slots=True)
class Row:
    """A run in the table.

    Attributes:
        record: the run.
        jobs: what its jobs do, oldest first.
        state: in one word or two what it does.
        live: whether it may still do something.
        blocked: why it will not start by itself, and the remedy; else empty.
        link: of a run of several jobs the one that counts, from 1; else None.
    """

    record: RunRecord
    jobs: tuple[JobState, ...]
    state: str
    live: bool
    blocked: str = ""
    link: int | None = None

    @property
    def links(self) -> int:
        """Return how many jobs the run is meant to be made of."""
        return chain.links(self.record)

    @property
    def lacks(self) -> int:
        """Return how many links were never submitted although the run is not at its end."""
        unmeant = self.state == "done" or self.record.state in {"intent", "cancelled", "lost"}
        return 0 if unmeant else chain.missing(self.record)

    @property
    def said(self) -> str:
        """Return the state for people, with the link that counts."""
        if self.link is None:
            return self.state
        return f"{self.state}, link {self.link} of {self.links}"

    def as_dict(self, now: float) -> dict[str, Any]:
        """Return the JSON form; age in seconds."""
        record = self.record
        return {
            "id": record.id,
            "name": record.name,
            "state": self.state,
            "live": self.live,
            "blocked": self.blocked,
            "link": self.link,
            "links": self.links,
            "lacks": self.lacks,
            "jobs": [
                {
                    "job": job.job,
                    "why": entry.why,
                    "state": job.phase,
                    "reason": job.reason,
                    "nodes": job.nodes,
                    "start": job.start,
                    "end": job.end,
                    "exit_code": job.exit_code,
                    "restarts": job.restarts,
                }
                for entry, job in zip(record.jobs, self.jobs, strict=True)
            ],
            "gpus": record.gpus,
            "nodes": record.nodes,
            "hardware": record.hardware,
            "created": record.created,
            "age": round(age(record, now)),
            "target": record.target,
            "bundle": record.bundle,
        }


@dataclass(frozen=True, slots=True)
class Table:
    """All runs, newest first, and what else lies among their records."""

    rows: tuple[Row, ...]
    broken: tuple[Broken, ...] = ()
    bare: tuple[Path, ...] = ()
    unreachable: str = ""


def table(store: Store, backend: Backend | None = None) -> Table:
    """Return every run with its state; intents are settled on the way.

    The scheduler is asked once for all of them.

    Raises:
        LocalFilesError: the folder of records cannot be read.
    """
    listing = store.list()
    rows: dict[str, Row] = {}
    unreachable = []
    for launcher in dict.fromkeys(record.launcher for record in listing.records):
        records = [record for record in listing.records if record.launcher == launcher]
        make = _MAKERS.get(launcher)
        if backend is None and make is None:  # a launcher of a newer moectl
            asked, survey = None, Survey(tuple(records))
        else:
            asked = backend or backend_for(records[0], store)
            survey = settle(store, asked, records)
        rows |= {record.id: row(survey, record, asked) for record in survey.records}
        unreachable += [survey.unreachable] if survey.unreachable else []
    ordered = tuple(rows[record.id] for record in listing.records)
    return Table(ordered, listing.broken, listing.bare, "\n".join(unreachable))


def look(store: Store, backend: Backend, record: RunRecord) -> Row:
    """Return a run as it is now."""
    survey = settle(store, backend, [record])
    return row(survey, survey.records[0], backend)


def row(survey: Survey, record: RunRecord, backend: Backend | None = None) -> Row:
    """Return a run as the table shows it; the backend knows what blocks it."""
    jobs = survey.states(record)
    number = chain.at(record, jobs)
    found = _row(record, jobs, backend)
    if number is None:
        return found
    return replace(found, state=state_of_chain(record, jobs, found.state), link=number)


def _row(record: RunRecord, jobs: tuple[JobState, ...], backend: Backend | None) -> Row:
    if record.state == "intent":
        return Row(record, jobs, "being submitted", live=True)
    live = [job for job in jobs if job.live]
    if live:
        # Of a run of several jobs the one that is farthest counts.
        first = next((job for job in live if job.phase != "pending"), live[0])
        blocked = backend.blocked(first) if backend else ""
        return Row(record, jobs, first.phase, live=True, blocked=blocked)
    if not jobs:
        return Row(record, jobs, record.state, live=False)
    last = jobs[-1].phase
    state_of = record.state if last == "unknown" and record.state == "cancelled" else last
    return Row(record, jobs, state_of, live=False)


def backend_for(record: RunRecord, store: Store | None = None) -> Backend:
    """Return the backend of a run, as it is written down in a store.

    Raises:
        UnknownNameError: this moectl does not know it.
    """
    make = _MAKERS.get(record.launcher)
    if make is None:
        raise UnknownNameError("launcher", record.launcher, _MAKERS, where=record.id)
    return make(store or Store())


def cancel(store: Store, said: str) -> tuple[Row, list[str]]:
    """End a run's jobs; return it, and the ids of those that were live.

    Raises:
        MoectlError: there is no such run, or the scheduler or the file system refuses.
    """
    record = store.find(said)
    backend = backend_for(record, store)
    record, ended = submit.cancel(store, backend, record.id)
    return look(store, backend, record), ended


def resume(store: Store, said: str, count: int | None = None) -> RunRecord:
    """Submit further jobs of a run, of the same bundle.

    Args:
        store: where records lie.
        said: the run.
        count: how many; None is one, or of a run of several jobs those that never trained.

    Raises:
        MoectlError: there is no such run, it is live, or the scheduler or the file system
            refuses.
    """
    record = store.find(said)
    return submit.resume(store, backend_for(record, store), record.id, count=count)


def follow(
    store: Store,
    backend: Backend,
    identity: str,
    tell: Callable[[Row], None],
    sleep: Callable[[float], None] = time.sleep,
) -> Row:
    """Look at a run until nothing of it is live, ever more seldom while nothing changes.

    Args:
        store: where records lie.
        backend: what runs it.
        identity: the run.
        tell: called with the run whenever its state is another one.
        sleep: waits that many seconds.

    Raises:
        BackendError: the scheduler gave no answer for long.
    """
    delay, unanswered, before = FIRST_LOOK, 0, None
    while True:
        survey = settle(store, backend, [store.read(identity)])
        now = row(survey, survey.records[0], backend)
        unanswered = unanswered + 1 if survey.unreachable else 0
        if unanswered >= UNANSWERED:
            raise BackendError(survey.unreachable)
        if not survey.unreachable:
            seen = (now.state, now.record.job_ids)
            if seen != before:
                delay = FIRST_LOOK
                tell(now)
            if not now.live or (now.link is not None and now.state == DONE):
                return now
            before = seen
        sleep(delay)
        delay = min(LAST_LOOK, delay * GROWTH)


def done(seen: Row) -> str:
    """Return why a run is not done, or an empty text: its last step was reached.

    An exit code of 0 is not enough, since MaxText ends with 0 on SIGTERM too.
    """
    if seen.link is not None:
        return "" if seen.state == DONE else f"it is {seen.state}"
    if not seen.jobs or seen.jobs[-1].phase != "completed":
        return f"it is {seen.state}"
    steps = seen.record.options.get("steps")
    wanted = steps if isinstance(steps, int) else None
    said = tail_state(_log(seen))
    if said.done(wanted):
        return ""
    at = "no step" if said.last_step is None else f"step {said.last_step}"
    return f"it ended with exit code 0, but its log has {at} of {wanted or 'unknown'} as the last"


def _log(seen: Row) -> Path:
    """Return the log of rank 0 of a run's last job, of its last restart."""
    folder = Path(seen.record.bundle) / "logs"
    job = seen.jobs[-1].job
    restarts = [
        int(number)
        for entry in folder.glob(f"{job}.*")
        if (number := entry.name.partition(".")[2]).isdecimal()
    ]
    name = f"{job}.{max(restarts)}" if restarts else job
    return folder / name / "rank-0.log"
