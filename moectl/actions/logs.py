"""The right log of a run: of which job, which rank; its end, and what it gains."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from moectl.actions.kubernetes import Bringer, bringer
from moectl.actions.runs import backend_for, row
from moectl.errors import LocalFilesError, UsageError, ValueUsageError
from moectl.launch.record import RunRecord
from moectl.launch.settle import settle
from moectl.launch.store import Store
from moectl.logs.folders import JobFolder, batch_log, job_folders, rank_log, rank_logs
from moectl.logs.maxtext import lines, opened
from moectl.logs.tail import last_lines
from moectl.logs.verdict import verdict

# Bytes of a line that are shown.
LONGEST = 1 << 20
# Seconds between two looks at a log that is followed, and between two questions whether its
# run is still live.
LOOK = 0.5
FIRST_ASK, LAST_ASK, GROWTH = 5.0, 60.0, 1.5
_CHUNK = 1 << 16
_BEFORE = 1 << 16


@dataclass(frozen=True, slots=True)
class Wish:
    """Which log is meant.

    Attributes:
        rank: the process; None is rank 0, or with `failed` the one that failed first.
        job: a job's id, or one with its restart ("1234.1"); "" is the newest that has logs.
        failed: whether the rank that failed first is meant.
    """

    rank: int | None = None
    job: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """A log of a rank.

    Attributes:
        path: the file.
        name: what it is called, e.g. "job 1234, rank 0".
    """

    path: Path
    name: str


def chosen(record: RunRecord, wish: Wish) -> Log | None:
    """Return the log that is meant; None while the run has none yet.

    Raises:
        UsageError: the job or the rank has none, or no rank failed.
    """
    folders = job_folders(Path(record.bundle), record.job_ids)
    if wish.job:
        asked = [folder for folder in folders if wish.job in {folder.job, folder.path.name}]
        if not asked:
            known = ", ".join(folder.path.name for folder in folders) or "none yet"
            raise ValueUsageError("--job", wish.job, f"the jobs of {record.id} with logs: {known}")
        folders = asked
    if not folders:
        return None
    folder = folders[-1]
    rank = wish.rank
    if rank is None:
        rank = _failed(folder) if wish.failed else 0
    path = rank_log(folder.path, rank)
    logs = rank_logs(folder.path)
    if logs and rank not in logs and max(logs) < rank:
        raise ValueUsageError("--rank", rank, f"job {folder.job} has ranks 0 to {max(logs)}")
    return Log(path, f"job {folder.path.name}, rank {rank}") if path.is_file() else None


def _of_batch(record: RunRecord, wish: Wish) -> Log | None:
    """Return what a batch script printed: all there is of a job that ended before its ranks."""
    for job in (wish.job.partition(".")[0],) if wish.job else reversed(record.job_ids):
        path = batch_log(Path(record.bundle), job)
        if path is not None:
            return Log(path, f"job {job}, which has no log of that rank; its batch script")
    return None


def _failed(folder: JobFolder) -> int:
    found = verdict(folder.path)
    if found is None:
        raise UsageError(f"no rank of job {folder.path.name} failed; leave --failed out")
    return found.rank if found.rank is not None else 0


def find(store: Store, said: str, wish: Wish) -> tuple[RunRecord, Log]:
    """Return a run and its log.

    Raises:
        UnknownNameError: there is no such run.
        UsageError: as of `chosen`.
        LocalFilesError: there is no log; the sentence says where it would be.
    """
    record = store.find(said)
    bringer(record, store)(record)
    log = chosen(record, wish) or _of_batch(record, wish)
    if log is None:
        where = Path(record.bundle) / "logs"
        raise LocalFilesError(
            f"{record.id} has no log in {where} yet; `moectl status {record.id}` says what it does"
        )
    return record, log


def newest(store: Store, identity: str, wish: Wish, bring: Bringer) -> Log | None:
    """Return the log that counts at this moment, see `chosen`; jobs may have been added."""
    record = store.read(identity)
    bring(record)
    return chosen(record, wish)


def tail(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, without their ends.

    Bytes that are no UTF-8 stay as `os.fsdecode` has them.

    Raises:
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    amount = _BEFORE
    while True:
        held = last_lines(path, amount, longest=LONGEST, errors="surrogateescape")
        if len(held) > count or amount >= size:
            return [line.rstrip("\n") for line in held[-count:]] if count else []
        amount *= 8


def whole(path: Path) -> Iterator[str]:
    """Yield all lines of a log, with flat memory.

    Raises:
        OSError: it cannot be read.
    """
    with opened(path) as stream:
        for line in lines(stream, LONGEST, "surrogateescape"):
            yield line.rstrip("\n")


class Reader:
    """Reads what a log gains, in whole lines."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self.carry = b""

    def gained(self, *, last: bool = False) -> Iterator[str]:
        """Yield the lines that came since the last look.

        Args:
            last: whether a line without its end counts as well.
        """
        try:
            stream = self.path.open("rb")
        except OSError:
            return
        with stream:
            if stream.seek(0, 2) < self.offset:  # written anew
                self.offset, self.carry = 0, b""
            stream.seek(self.offset)
            while chunk := stream.read(_CHUNK):
                self.offset += len(chunk)
                *ended, rest = (self.carry + chunk).split(b"\n")
                self.carry = rest
                if len(rest) > LONGEST:
                    ended, self.carry = [*ended, rest], b""
                yield from (line.decode("utf-8", "surrogateescape") for line in ended)
        if last and self.carry:
            yield self.carry.decode("utf-8", "surrogateescape")
            self.carry = b""


def follow(
    now: Callable[[], Log | None],
    live: Callable[[], bool],
    begin: Log | None,
    count: int,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Yield the end of a log and then what it gains, over the restarts and jobs of its run.

    Where another file follows, a line tells so, as `tail` writes it.

    Args:
        now: returns the log that counts at this moment; None while there is none.
        live: whether the run may still write.
        begin: the log to begin with, None to wait for one.
        count: lines of its end to begin with.
        sleep: waits that many seconds.
    """
    reader = None
    if begin is not None:
        size = begin.path.stat().st_size
        yield from tail(begin.path, count)
        reader = Reader(begin.path, size)
    waited, ask = 0.0, FIRST_ASK
    while True:
        quiet = True
        log = now()
        if log is not None and (reader is None or log.path != reader.path):
            if reader is not None:
                yield from reader.gained(last=True)
            yield f"==> {log.name} <=="
            reader = Reader(log.path)
        if reader is not None:
            for line in reader.gained():
                quiet = False
                yield line
        if not quiet:
            waited, ask = 0.0, FIRST_ASK
        elif waited >= ask:
            if not live():
                if reader is not None:
                    yield from reader.gained(last=True)
                return
            waited, ask = 0.0, min(LAST_ASK, ask * GROWTH)
        sleep(LOOK)
        waited += LOOK


def is_live(store: Store, identity: str, bring: Bringer | None = None) -> bool:
    """Whether a run may still do something; True where the scheduler gives no answer.

    What an ended run wrote last is brought before the answer.

    Raises:
        MoectlError: there is no such run any more.
    """
    record = store.read(identity)
    survey = settle(store, backend_for(record, store), [record])
    live = bool(survey.unreachable) or row(survey, survey.records[0]).live
    if bring is not None and not live:
        bring(record, now=True)
    return live
