"""The right log of a run, its end, and what it gains."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from moectl.actions import logs as action
from moectl.actions.logs import Log, Reader, Wish, chosen, find, follow, tail, whole
from moectl.errors import LocalFilesError, UnknownNameError, UsageError
from moectl.launch.record import RunRecord
from moectl.launch.store import Store
from tests.support import training_logs as made
from tests.support.run_records import record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def run(store: Store) -> RunRecord:
    """A run of two jobs, of which the second was requeued."""
    made_run = record(store, 7, jobs=["7", "8"])
    bundle = Path(made_run.bundle)
    made.folder(bundle, "7", {0: "old\n", 1: "old of 1\n"})
    made.folder(bundle, "8", {0: "newer\n"})
    made.folder(bundle, "8.1", {rank: f"line of {rank}\n" for rank in range(4)})
    made.folder(bundle, "99", {0: "another run of this bundle\n"})
    return made_run


def text(run: RunRecord, wish: Wish) -> str:
    log = chosen(run, wish)
    assert log is not None
    return log.path.read_text()


def test_without_a_wish_it_is_rank_0_of_the_newest_start(run: RunRecord) -> None:
    assert text(run, Wish()) == "line of 0\n"
    assert text(run, Wish(rank=3)) == "line of 3\n"


def test_a_job_or_one_of_its_starts_can_be_named(run: RunRecord) -> None:
    assert text(run, Wish(job="7", rank=1)) == "old of 1\n"
    assert text(run, Wish(job="8")) == "line of 0\n"
    assert text(run, Wish(job="8.1")) == "line of 0\n"
    with pytest.raises(UsageError, match=r"--job cannot be '99': .* 7, 8, 8\.1"):
        chosen(run, Wish(job="99"))


def test_a_rank_that_there_is_not_is_refused_with_those_there_are(run: RunRecord) -> None:
    with pytest.raises(UsageError, match="--rank cannot be 4: job 8 has ranks 0 to 3"):
        chosen(run, Wish(rank=4))


def test_the_rank_that_failed_first_is_found(run: RunRecord) -> None:
    with pytest.raises(UsageError, match=r"no rank of job 8\.1 failed"):
        chosen(run, Wish(failed=True))
    (Path(run.bundle) / "logs" / "8.1" / "first-failure").write_text("1 2 gpu001\n")
    assert text(run, Wish(failed=True)) == "line of 2\n"


def test_a_run_without_logs_says_where_they_would_be(store: Store, run: RunRecord) -> None:
    quiet = record(store, 9, name="quiet")
    with pytest.raises(LocalFilesError, match=r"quiet-.* has no log in .*moectl status"):
        find(store, "quiet", Wish())
    with pytest.raises(UnknownNameError, match="unknown run 'quite'; did you mean 'quiet'"):
        find(store, "quite", Wish())
    assert find(store, run.id, Wish())[1].name == "job 8.1, rank 0"
    assert chosen(quiet, Wish()) is None


def test_a_job_that_ended_before_its_ranks_has_the_output_of_its_batch_script(
    store: Store,
) -> None:
    stopped = record(store, 11, name="stopped", jobs=["11", "12"])
    (Path(stopped.bundle) / "stopped-11.log").write_text("moectl: why\n")
    (Path(stopped.bundle) / "stopped-112.log").write_text("another job\n")
    _, log = find(store, "stopped", Wish())
    assert log.path.read_text() == "moectl: why\n"
    with pytest.raises(UsageError, match="--job"):
        find(store, "stopped", Wish(job="12"))


def test_the_end_of_a_log_is_its_last_lines_whatever_its_size(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("".join(f"line {n} {'x' * 90}\n" for n in range(20_000)) + "cut")
    assert tail(path, 2) == ["line 19999 " + "x" * 90, "cut"]
    assert len(tail(path, 5000)) == 5000
    assert len(tail(path, 10**6)) == 20_001
    assert tail(path, 0) == []
    packed = tmp_path / "rank-1.log.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert tail(packed, 2) == tail(path, 2)
    assert list(whole(packed)) == tail(path, 10**6)


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_bytes(b"a\xff\x1b[2J\x00\r\nb\n")
    assert tail(path, 9) == ["a\udcff\x1b[2J\x00\r", "b"]


def test_a_reader_gives_whole_lines_and_begins_anew_with_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    reader = Reader(path)
    assert list(reader.gained()) == []
    path.write_text("a\nb")
    assert list(reader.gained()) == ["a"]
    with path.open("a") as stream:
        stream.write("c\nd")
    assert list(reader.gained()) == ["bc"]
    assert list(reader.gained(last=True)) == ["d"]
    path.write_text("e\n")
    assert list(reader.gained()) == ["e"]


def test_a_log_is_followed_over_restarts_and_jobs_to_the_end_of_the_run(
    store: Store, run: RunRecord
) -> None:
    """Each sleep lets the run do one thing more."""
    bundle = Path(run.bundle)
    live = True

    def happenings() -> Iterator[None]:
        nonlocal live
        first = bundle / "logs" / "8.1" / "rank-0.log"
        with first.open("a") as stream:
            stream.write("more\nhalf")
        yield
        made.folder(bundle, "8.2", {0: "after a restart\n"})
        yield
        store.update(run.id, lambda record: record.submitted("9", "2026-11-30T00:00:00Z", "chain"))
        made.folder(bundle, "9", {0: "the next job\n"})
        yield
        with (bundle / "logs" / "9" / "rank-0.log").open("a") as stream:
            stream.write("its last line\nand its very last")
        live = False
        while True:
            yield

    events = happenings()
    gained = follow(
        lambda: chosen(store.read(run.id), Wish()),
        lambda: live,
        chosen(run, Wish()),
        5,
        lambda _: next(events),
    )
    assert list(gained) == [
        "line of 0",
        "more",
        "half",
        "==> job 8.2, rank 0 <==",
        "after a restart",
        "==> job 9, rank 0 <==",
        "the next job",
        "its last line",
        "and its very last",
    ]


def test_a_run_without_a_log_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            path.write_text("here\n")

    log = Log(path, "job 1, rank 0")
    gained = follow(lambda: log if path.exists() else None, lambda: len(waits) < 30, None, 5, sleep)
    assert list(gained) == ["==> job 1, rank 0 <==", "here"]
    assert len(waits) < 60


def test_the_scheduler_is_asked_ever_more_seldom_while_a_log_is_quiet(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    path.write_text("quiet\n")
    log = Log(path, "job 1, rank 0")
    asked: list[float] = []
    clock = 0.0

    def sleep(seconds: float) -> None:
        nonlocal clock
        clock += seconds

    def live() -> bool:
        asked.append(clock)
        return clock < 600

    list(follow(lambda: log, live, log, 5, sleep))
    between = [later - earlier for earlier, later in pairwise(asked)]
    assert len(asked) < 18
    assert max(between) == pytest.approx(action.LAST_ASK, abs=1)
    assert between == sorted(between)
