"""What became of runs: the scheduler is asked once for all, and intents are settled."""

from __future__ import annotations

import calendar
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from moectl.errors import BackendError, LocalFilesError, MoectlError
from moectl.launch.backend import Backend, JobState, Phase, Wanted
from moectl.launch.chain import next_why
from moectl.launch.ended import kept, recalled
from moectl.launch.record import RunRecord
from moectl.launch.store import Store

# A lost run is looked for again that long: its job may have come later than its record died.
LOOKED_FOR_SECONDS = 24 * 3600
# Locks that are held at the same time; further intents are settled the next time.
SETTLED_AT_ONCE = 200
# Records that are written anew at the same time for how their jobs ended.
KEPT_AT_ONCE = 50
# Options of a record: the allocation a run was started in, and how it ended there.
INSIDE = "inside"
EXIT_CODE = "exit_code"
_FORM = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Survey:
    """Runs as they are now.

    Attributes:
        records: the runs, in the order they were given.
        jobs: run id to what its jobs do, oldest first.
        unreachable: why the scheduler could not be asked; empty when it answered.
    """

    records: tuple[RunRecord, ...]
    jobs: Mapping[str, tuple[JobState, ...]] = field(default_factory=dict)
    unreachable: str = ""

    def states(self, record: RunRecord) -> tuple[JobState, ...]:
        """Return what the jobs of a run do, oldest first; unknown where nobody could tell."""
        known = {state.job: state for state in self.jobs.get(record.id, ())}
        states = (known.get(job, JobState(job, "unknown")) for job in record.job_ids)
        return tuple(recalled(record, state) for state in states)


def settle(store: Store, backend: Backend, records: Sequence[RunRecord]) -> Survey:
    """Return runs with what their jobs do, and every intent settled: its job found, or lost.

    An intent whose lock is held is being submitted at this moment and stays as it is; so does
    one when the scheduler cannot be asked, or the file system cannot take it down. Whatever
    happens to one run is no obstacle to the others.
    """
    with contextlib.ExitStack() as held:
        now = time.time()
        current: dict[str, RunRecord] = {}
        mine: set[str] = set()
        inside: dict[str, tuple[JobState, ...]] = {}
        for record in records:
            current[record.id] = record
            if INSIDE in record.options:
                inside[record.id] = _inside(store, record)
            elif record.state == "intent" and len(mine) < SETTLED_AT_ONCE:
                # Before the scheduler is asked: what it says must be later than the submission.
                with contextlib.suppress(MoectlError):
                    if held.enter_context(store.locked(record.id, wait=False)) is not None:
                        current[record.id] = store.read(record.id)
                        mine.add(record.id)
        asked = [
            wanted(record, search=record.id in mine or _may_come(record, now))
            for record in current.values()
            if record.id not in inside
        ]
        try:
            found = backend.survey([one for one in asked if one.jobs or one.since is not None])
        except BackendError as error:
            return Survey(tuple(current.values()), inside, str(error))
        left = KEPT_AT_ONCE
        for identity, record in list(current.items()):
            with contextlib.suppress(MoectlError):
                after = _settled(
                    store, record, found.get(identity), locked=identity in mine, keep=left > 0
                )
                left -= after.ended != record.ended
                current[identity] = after
    return Survey(tuple(current[record.id] for record in records), {**found, **inside})


def recover(store: Store, backend: Backend, records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return the records with every intent settled, see `settle`."""
    return list(settle(store, backend, list(records)).records)


def wanted(record: RunRecord, *, search: bool) -> Wanted:
    """Return what the scheduler is asked about a run.

    Args:
        record: the run.
        search: whether it may have jobs that the record lacks.
    """
    return Wanted(record.id, record.job_ids, seconds(record.created) if search else None)


def adopt(record: RunRecord, states: Iterable[JobState]) -> RunRecord:
    """Return the record with those of its jobs that it lacks."""
    for state in states:
        if state.phase != "refused" and state.job not in record.job_ids:
            record = record.submitted(state.job, moment(), next_why(record))
    return record


def unmeant(record: RunRecord) -> RunRecord:
    """Return an intent that came to nothing: lost, or as submitted as it was before."""
    if record.state != "intent":
        return record
    return replace(record, state="submitted" if record.jobs else "lost")


def moment(at: float | None = None) -> str:
    """Return a moment (now), in seconds since the epoch, as 2026-11-30T12:00:00Z."""
    return time.strftime(_FORM, time.gmtime(at))


def seconds(said: str) -> float:
    """Return a moment of a record in seconds since the epoch, 0 for one that cannot be read."""
    try:
        return float(max(0, calendar.timegm(time.strptime(said, _FORM))))
    except (ValueError, OverflowError):
        return 0.0


def age(record: RunRecord, now: float | None = None) -> float:
    """Return the seconds since a run was meant; 0 where its record does not say it."""
    created = seconds(record.created)
    return max(0.0, (time.time() if now is None else now) - created) if created else 0.0


def _inside(store: Store, record: RunRecord) -> tuple[JobState, ...]:
    """Return the state of a run inside somebody's allocation, whose launch waits for its end."""
    job = record.job_ids[-1] if record.jobs else ""
    with contextlib.suppress(MoectlError), store.locked(record.id, wait=False) as lock:
        if lock is None:
            return (JobState(job, "running", name=record.id),)
        record = store.read(record.id)  # it may have ended since it was read
    code = record.options.get(EXIT_CODE)
    if isinstance(code, int):
        phase: Phase = "failed" if code else "completed"
        return (JobState(job, phase, exit_code=code, name=record.id),)
    return (JobState(job, "unknown", reason="its launch died", name=record.id),)


def _may_come(record: RunRecord, now: float) -> bool:
    """Whether a run that never had a job may still get one, of a controller that was slow."""
    never = not record.jobs and record.state in {"lost", "cancelled"}
    return never and now - seconds(record.created) < LOOKED_FOR_SECONDS


def _settled(
    store: Store,
    record: RunRecord,
    found: tuple[JobState, ...] | None,
    *,
    locked: bool,
    keep: bool,
) -> RunRecord:
    """Return a run as it is after the scheduler answered, and write down what changed.

    Args:
        store: where records lie.
        record: the run.
        found: what its jobs do, None where nobody could tell.
        locked: whether its lock is held.
        keep: whether it is written down how its jobs ended.

    Raises:
        MoectlError: the record cannot be read or its lock cannot be made; it stays.
    """
    if found is None:
        return record
    after = adopt(record, found)
    if locked:
        after = after if after.jobs != record.jobs else unmeant(record)
    if keep:
        after = kept(after, found)
    if after == record:
        return record
    with contextlib.ExitStack() as held:
        if not locked:
            if held.enter_context(store.locked(record.id, wait=False)) is None:
                return record  # somebody is at it
            after = adopt(store.read(record.id), found)
            after = kept(after, found) if keep else after
        with contextlib.suppress(LocalFilesError):  # a full disk: it is found again next time
            store.save(after)
    return after
