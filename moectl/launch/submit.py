"""The steps of a launch, in an order that a crash at any point leaves something to go on from.

    intent written and on the disk -> submitted, while the run's lock is held -> job id written

The job carries the run's id as its name, so a job whose id was never written is found again
by `settle`. The lock goes on to the program that submits: while that may still reach the
scheduler, nobody else takes the run for lost.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from moectl.errors import BackendError, LocalFilesError, UsageError
from moectl.launch.allocation import Allocation, run_inside
from moectl.launch.backend import Backend, JobState, UnansweredError, Wanted
from moectl.launch.chain import begun, group, links, missing, next_why, unused
from moectl.launch.record import RunRecord
from moectl.launch.settle import EXIT_CODE, INSIDE, adopt, moment, settle, unmeant, wanted
from moectl.launch.store import BUNDLE, Store
from moectl.settings.bundle_names import LAUNCH, STARTED


def launch(
    store: Store,
    backend: Backend,
    record: RunRecord,
    write: Callable[[Path], None],
    *,
    options: Sequence[str] = (),
    again: bool = False,
    bundles: Path | None = None,
) -> RunRecord:
    """Write down what is meant, submit it, and write down the job.

    Args:
        store: where records lie.
        backend: what runs it.
        record: the run, an intent; its bundle is put into its folder unless it names one.
        write: writes the bundle into a folder; not called when the record names a bundle.
        options: further options of the scheduler's own program.
        again: whether a live run of the same name is no obstacle.
        bundles: where the bundle is put, under the run's id, if not into the run's folder.

    Raises:
        UsageError: a run of this name is live.
        LocalFilesError: the file system refuses.
        BackendError: the scheduler refuses or cannot be asked.
    """
    with contextlib.ExitStack() as held:
        with store.whole():
            record, lock = _intend(
                store, backend, record, write, held, again=again, bundles=bundles
            )
        return _submit(store, backend, record, options, lock)


def start_inside(
    store: Store,
    backend: Backend,
    record: RunRecord,
    write: Callable[[Path], None],
    where: Allocation,
    *,
    again: bool = False,
    bundles: Path | None = None,
    output: int | None = None,
    tell: Callable[[RunRecord], None] = lambda _: None,
) -> tuple[RunRecord, int]:
    """Write down what is meant, start it in an allocation, and return its exit code at the end.

    Args:
        store: as of `launch`.
        backend: as of `launch`.
        record: as of `launch`.
        write: as of `launch`.
        where: the allocation.
        again: as of `launch`.
        bundles: as of `launch`.
        output: the file descriptor of its standard output, if not this process's.
        tell: called with the run just before it starts.

    Raises:
        MoectlError: as of `launch`.
    """
    with contextlib.ExitStack() as held:
        record = replace(record, options={**record.options, INSIDE: where.job})
        record = record.submitted(where.job, moment())
        with store.whole():
            record, lock = _intend(
                store, backend, record, write, held, again=again, bundles=bundles
            )
        tell(record)
        code = run_inside(where, Path(record.bundle), lock, output)
        record = replace(record, options={**record.options, EXIT_CODE: code})
        store.save(record)
    return record, code


def resume(
    store: Store,
    backend: Backend,
    identity: str,
    options: Sequence[str] = (),
    count: int | None = None,
) -> RunRecord:
    """Submit further jobs of a run, of the same bundle.

    Of a chain whose submission was interrupted, the links that it lacks, although others of it
    are live; else as many links as never trained.

    Args:
        store: where records lie.
        backend: what runs it.
        identity: the run.
        options: further options of the scheduler's own program, for the first of the jobs.
        count: how many jobs instead.

    Raises:
        UsageError: the run, or another of its name, is live.
        LocalFilesError: the bundle is gone, or the file system refuses.
        BackendError: the scheduler refuses or cannot be asked.
    """
    with contextlib.ExitStack() as held:
        with store.whole():
            record = store.read(identity)
            _refuse_inside(record)
            if count is not None or not _interrupted(store, backend, record):
                _refuse_live(store, backend, record.name, "`moectl cancel` ends it")
            lock = held.enter_context(store.locked(identity))
            record = store.read(identity)
            if not _started(record).is_file():
                name = _started(record).name
                raise LocalFilesError(f"{record.bundle} holds no {name} any more; launch anew")
            found: Sequence[JobState] = ()
            if missing(record):
                found = _all_jobs(backend, record)
                record = adopt(record, found)
            if count is None and missing(record):
                live = [state.job for state in found if state.live]
                options = [*options, *(_behind(live[-1]) if live else ())]
            else:
                record = begun(record, count or unused(record))
            record = replace(record, state="intent")
            store.save(record)
        return _submit(store, backend, record, options, lock)


def cancel(store: Store, backend: Backend, identity: str) -> tuple[RunRecord, list[str]]:
    """End the jobs of a run that are live; return its record and their ids.

    Raises:
        LocalFilesError: the file system refuses.
        BackendError: the scheduler refuses or cannot be asked.
    """
    _refuse_inside(store.read(identity))
    with store.locked(identity):
        record = store.read(identity)
        found = backend.survey([wanted(record, search=record.state == "intent")])
        states = found.get(identity, ())
        record = adopt(record, states)
        live = [state.job for state in states if state.live]
        # The last link first, so that none begins because the one before it has ended.
        backend.cancel(live[::-1], identity)
        if live or record.state == "intent":
            record = replace(record, state="cancelled")
        store.save(record)
        return record, live


def _intend(
    store: Store,
    backend: Backend,
    record: RunRecord,
    write: Callable[[Path], None],
    held: contextlib.ExitStack,
    *,
    again: bool,
    bundles: Path | None,
) -> tuple[RunRecord, int | None]:
    if not again:
        _refuse_live(
            store,
            backend,
            record.name,
            "--again starts another run beside it, --name calls this one something else",
        )
    # Where no scheduler answers, nothing is meant.
    backend.survey([Wanted(record.id)])
    folder = store.reserve(record.id)
    written: Path | None = None
    try:
        lock = held.enter_context(store.locked(record.id))
        if not record.bundle:
            written = bundles / record.id if bundles else folder / BUNDLE
            write(written)
            record = replace(record, bundle=str(written))
        store.save(record)
    except BaseException:
        _undo(store, record.id, written)
        raise
    return record, lock


def _submit(
    store: Store,
    backend: Backend,
    record: RunRecord,
    options: Sequence[str],
    lock: int | None,
) -> RunRecord:
    """Submit the jobs of an intent, whose lock is held; each waits for the one before.

    The run stays an intent until the last one has its id on the disk, so that what a launch
    that dies in between has submitted is looked for.
    """
    record = _submit_one(store, backend, record, options, lock)
    while missing(record):
        record = replace(record, state="intent")
        record = _submit_one(store, backend, record, _behind(record.job_ids[-1]), lock)
    return record


def _behind(job: str) -> list[str]:
    """Return the options of a job that starts when another one has ended, however it did.

    With "singleton" no two jobs of the run's name are ever under way, even where a link that
    was given up reaches a slow controller after all.
    """
    return [f"--dependency=afterany:{job},singleton"]


def _all_jobs(backend: Backend, record: RunRecord) -> Sequence[JobState]:
    """Return all jobs of a run, those that its record lacks among them.

    Raises:
        BackendError: nobody can tell at the moment.
    """
    found = backend.survey([wanted(record, search=True)])
    if record.id not in found:
        raise BackendError("the scheduler's accounts do not answer; try again in a moment")
    return found[record.id]


def _submit_one(
    store: Store,
    backend: Backend,
    record: RunRecord,
    options: Sequence[str],
    lock: int | None,
) -> RunRecord:
    """Submit a job of an intent, whose lock is held, and write its id down."""
    try:
        job = backend.submit(_started(record), record.id, options, lock)
    except BackendError as error:
        return _after_a_refusal(store, backend, record, error)
    record = record.submitted(job, moment(), next_why(record))
    if missing(record):
        record = replace(record, state="intent")
    try:
        store.save(record)
    except LocalFilesError as error:
        raise LocalFilesError(
            f"job {job} of {record.id} was submitted, but its id could not be written down "
            f"({error}); `moectl runs` finds it by its name"
        ) from None
    return record


def _started(record: RunRecord) -> Path:
    """Return the file of a run's bundle that its launcher starts."""
    return Path(record.bundle) / STARTED.get(record.launcher, LAUNCH)


def _after_a_refusal(
    store: Store, backend: Backend, record: RunRecord, error: BackendError
) -> RunRecord:
    """Return the record where the job got there all the same: its answer was lost.

    A refusal leaves no run behind. Where nobody can tell whether it was one, the run stays an
    intent and is looked for the next time.
    """
    found: Sequence[JobState] | None = None
    with contextlib.suppress(BackendError):
        found = backend.survey([wanted(record, search=True)]).get(record.id)
    after = adopt(record, found or ())
    if after.jobs != record.jobs:
        after = replace(after, state="intent") if missing(after) else after
        with contextlib.suppress(LocalFilesError):  # it is found again by its name
            store.save(after)
        return after
    if found is None or isinstance(error, UnansweredError):
        raise UnansweredError(
            f"{error}\nwhether {record.id} was submitted is not known; `moectl runs` finds out"
        ) from None
    if record.jobs:
        with contextlib.suppress(LocalFilesError):
            store.save(unmeant(record))
        if group(record):
            raise BackendError(
                f"{len(group(record))} of {links(record)} jobs of {record.id} were submitted, and "
                f"the next one was refused: {error}\n`moectl resume {record.id}` submits the rest; "
                f"`moectl cancel {record.id}` ends it"
            ) from None
    else:
        _undo(store, record.id, Path(record.bundle))
    raise error


def _undo(store: Store, identity: str, bundle: Path | None) -> None:
    """Remove what was written for a run that nothing was submitted of."""
    store.discard(identity)
    if bundle is not None and bundle.name == identity:  # beside the records, and of this run only
        shutil.rmtree(bundle, ignore_errors=True)


def _interrupted(store: Store, backend: Backend, record: RunRecord) -> bool:
    """Whether a chain is live that lacks links, since its submission was interrupted.

    Raises:
        BackendError: the scheduler cannot be asked.
    """
    if not missing(record):
        return False
    survey = settle(store, backend, [record])
    if survey.unreachable:
        raise BackendError(survey.unreachable)
    now = survey.records[0]
    live = any(state.live for state in survey.states(now))
    return live and now.state != "intent" and missing(now) > 0


def _refuse_inside(record: RunRecord) -> None:
    """Refuse what cannot be done to a run inside somebody's allocation.

    Raises:
        UsageError: it is one.
    """
    if INSIDE in record.options:
        raise UsageError(
            f"{record.id} was started inside the allocation {record.options[INSIDE]}, so it "
            f"ends there; `moectl launch {record.bundle}` starts its bundle again"
        )


def _refuse_live(store: Store, backend: Backend, name: str, remedy: str) -> None:
    """Refuse a run of a name that a live one has.

    Raises:
        UsageError: with the live run, and the remedy.
        BackendError: the scheduler cannot be asked.
    """
    listed = store.list().records
    records = [r for r in listed if r.name == name and r.launcher == backend.name]
    survey = settle(store, backend, records)
    if survey.unreachable:
        raise BackendError(survey.unreachable)
    for record in survey.records:
        if record.state == "intent":
            raise UsageError(f"{record.id} is being submitted at this moment; {remedy}")
        if live := [state.job for state in survey.states(record) if state.live]:
            raise UsageError(
                f"{name} is live already: {record.id}, job {', '.join(live)}; {remedy}"
            )
