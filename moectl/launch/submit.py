"""The steps of a launch, in an order that a crash at any point leaves something to go on from.

    intent written and on the disk -> submitted, while the run's lock is held -> job id written

The job carries the run's id as its name, so a job whose id was never written is found again
by `recover`. The lock goes on to the program that submits: while that may still reach the
scheduler, nobody else takes the run for lost.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from moectl.errors import BackendError, UsageError
from moectl.launch.backend import Backend
from moectl.launch.record import RunRecord, Why
from moectl.launch.store import BUNDLE, Store
from moectl.settings.bundle_names import LAUNCH

# A lost run is looked for again that long: its job may have come later than its record died.
LOOKED_FOR_SECONDS = 24 * 3600


def moment(seconds: float | None = None) -> str:
    """Return a moment (now) as 2026-11-30T12:00:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def intend(
    store: Store,
    backend: Backend,
    record: RunRecord,
    write: Callable[[Path], None],
    *,
    again: bool = False,
) -> RunRecord:
    """Write down what is meant: the bundle, then the record; both are on the disk afterwards.

    Args:
        store: where records lie.
        backend: asked whether a run of this name is live.
        record: the run; its bundle is put into its folder unless it names one.
        write: writes the bundle into a folder; not called when the record names a bundle.
        again: whether a live run of the same name is no obstacle.

    Raises:
        UsageError: a run of this name is live.
        LocalFilesError: the file system refuses.
        BackendError: the scheduler cannot be asked.
    """
    with store.whole():
        if not again:
            _refuse_live(store, backend, record.name)
        if not record.bundle:
            bundle = store.folder(record.id) / BUNDLE
            write(bundle)
            record = replace(record, bundle=str(bundle))
        store.create(record)
    return record


def submit(
    store: Store,
    backend: Backend,
    identity: str,
    options: Sequence[str] = (),
    why: Why = "first",
) -> RunRecord:
    """Submit a job of a run and write its id down.

    Raises:
        UsageError: the run has been submitted already, by somebody else at the same moment.
        BackendError: the scheduler refuses; the run is then lost, and nothing was submitted.
    """
    with store.locked(identity) as lock:
        record = store.read(identity)
        if why == "first" and record.state != "intent":
            raise UsageError(f"{identity} was submitted already, as job {record.job_ids[-1:]}")
        script = Path(record.bundle) / LAUNCH
        try:
            job = backend.submit(script, identity, options, lock)
        except BackendError:
            # It may have got there all the same, e.g. when the answer was lost. Where that
            # cannot be told, it stays an intent, and is looked for the next time.
            with contextlib.suppress(BackendError):
                store.save(_found(record, backend, why) or _unsubmitted(record))
            raise
        record = record.submitted(job, moment(), why)
        store.save(record)
    return record


def recover(store: Store, backend: Backend, records: Iterable[RunRecord]) -> list[RunRecord]:
    """Return the records with every intent settled: its job found, or lost.

    An intent whose lock is held is being submitted at this moment and stays as it is; so does
    one when the scheduler cannot be asked.
    """
    settled: list[RunRecord] = []
    oldest = moment(time.time() - LOOKED_FOR_SECONDS)
    for record in records:
        if record.state != "intent" and not (record.state == "lost" and record.created >= oldest):
            settled.append(record)
            continue
        with store.locked(record.id, wait=False) as lock:
            if lock is not None:
                now = store.read(record.id)  # somebody may have settled it meanwhile
                try:
                    after = _found(now, backend, "first") or _unsubmitted(now)
                except BackendError:
                    after = now
                if after != now:
                    store.save(after)
                record = after  # noqa: PLW2901 - the same run, as it is now
        settled.append(record)
    return settled


def _refuse_live(store: Store, backend: Backend, name: str) -> None:
    records = [record for record in store.list().records if record.name == name]
    for record in recover(store, backend, records):
        if record.state == "intent":
            raise UsageError(
                f"{record.id} is being submitted at this moment; --again starts another run"
            )
        if record.state != "submitted":
            continue
        states = backend.states(record.job_ids)
        live = [job for job, state in states.items() if state.live]
        if live:
            raise UsageError(
                f"{name} is live already: {record.id}, job {', '.join(live)}; "
                "--again starts another run beside it, --name calls this one something else"
            )


def _found(record: RunRecord, backend: Backend, why: Why) -> RunRecord | None:
    """Return the record with the jobs that the scheduler has of it, None when it has no new."""
    new = [job for job in backend.find(record.id) if job not in record.job_ids]
    for job in new:
        record = record.submitted(job, moment(), why)
    return record if new else None


def _unsubmitted(record: RunRecord) -> RunRecord:
    return replace(record, state="lost") if not record.jobs else record
