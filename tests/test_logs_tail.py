"""How far a run is, by the ends of its logs."""

from __future__ import annotations

import gzip
import math
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.logs.folders import job_folders, rank_log, rank_logs
from moectl.logs.tail import FIRST, LogState, last_lines, state_of, tail_state
from tests.support import training_logs as made


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def state(text: str) -> LogState:
    return state_of(text.splitlines(keepends=True))


def test_the_last_step_and_the_median_of_the_steady_ones_are_told() -> None:
    said = state(made.config(steps=10) + made.steps(8))
    assert (said.last_step, said.steps) == (7, 10)
    assert (said.seconds, said.tflops, said.tokens_per_s) == (5.0, 412.125, 1000.0)
    assert said.loss == 7.402
    assert not said.done(None)
    assert said.done(8)


def test_done_is_the_last_step_and_nothing_else() -> None:
    assert state(made.config(steps=8) + made.steps(8)).done(None)
    assert not state(made.config(steps=9) + made.steps(8) + made.STOPPED).done(None)
    assert not LogState().done(1)
    assert not LogState(last_step=3).done(None)


def test_the_first_steps_do_not_count_while_there_are_others() -> None:
    assert state(made.steps(3)).seconds == 5.0  # of 44.9, 0.3 and 5.0
    assert state(made.steps(4)).seconds == 5.0
    assert state(made.step(0, 44.9)).seconds == 44.9


def test_a_run_that_goes_on_from_a_checkpoint_has_slow_first_steps_as_well() -> None:
    said = state(made.config(steps=900) + made.steps(5, first=500))
    assert (said.last_step, said.seconds) == (504, 5.0)
    again = state(made.steps(8) + made.config(steps=8) + made.steps(4, first=4))
    assert (again.last_step, again.seconds) == (7, 5.0)


def test_the_line_of_the_last_step_comes_after_the_words_of_its_end() -> None:
    said = state(made.step(3) + made.STOPPED + made.step(4))
    assert said.last_step == 4
    assert said.stopped == "Job received termination signal (SIGTERM)."


def test_lines_around_a_profile_and_lines_without_rates_do_not_disturb_the_median() -> None:
    said = state(made.steps(5) + made.BOUNDARY + made.step(6, 5.0))
    assert (said.last_step, said.seconds) == (6, 5.0)
    assert state(made.RAMPUP).tflops is None


def test_a_loss_that_is_no_number_is_told() -> None:
    said = state(made.steps(3) + made.NAN + made.ABORT)
    assert said.loss is not None
    assert math.isnan(said.loss)


def test_a_step_that_is_being_written_does_not_count_yet(tmp_path: Path) -> None:
    path = write(tmp_path / "rank-0.log", made.step(1) + made.step(23)[:-2])
    assert tail_state(path).last_step == 1


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    assert tail_state(tmp_path / "none") == LogState()
    (tmp_path / "folder").mkdir()
    assert tail_state(tmp_path / "folder").last_step is None
    assert tail_state(write(tmp_path / "empty", "")).last_step is None
    os.mkfifo(tmp_path / "pipe")
    assert tail_state(tmp_path / "pipe") == LogState()


def test_the_age_of_the_last_line_is_that_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "log", made.steps(2))
    os.utime(path, (1000, 2000))
    assert tail_state(path).last_line_at == 2000
    assert tail_state(path).size == path.stat().st_size


def test_of_a_large_log_its_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.log"
    with path.open("w") as stream:
        stream.write(made.config(steps=3000))
        stream.seek(1 << 32)  # 4 GiB, of which most is a hole
        stream.write("\n" + made.steps(2000))
    before = time.process_time()
    said = tail_state(path)
    assert time.process_time() - before < 1
    assert (said.last_step, said.seconds, said.steps) == (1999, 5.0, None)


def test_steps_are_found_behind_much_else(tmp_path: Path) -> None:
    noise = "".join(f"W1130 15:28:11.499331 1 x.py:{n}] odd\n" for n in range(3 * FIRST // 30))
    path = write(tmp_path / "log", made.steps(5) + noise)
    assert path.stat().st_size > 2 * FIRST
    assert tail_state(path).last_step == 4


def test_a_compressed_log_says_the_same(tmp_path: Path) -> None:
    text = made.config(steps=4000) + made.steps(4000)
    plain = tail_state(write(tmp_path / "a.log", text))
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(text.encode()))
    packed = tail_state(tmp_path / "a.log.gz")
    assert (packed.last_step, packed.seconds, packed.loss) == (3999, plain.seconds, plain.loss)


@given(st.lists(st.binary(max_size=60), max_size=30), st.integers(1, 400))
def test_the_last_lines_are_the_whole_ones_of_the_last_bytes(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], amount: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    data = b"\n".join([b"", *parts])  # no gzip magic at the beginning
    path.write_bytes(data)
    found = "".join(last_lines(path, amount, errors="surrogateescape"))
    got = found.encode("utf-8", "surrogateescape")
    assert data.endswith(got)
    assert len(got) <= amount or b"\n" not in data[-amount:]


def test_folders_are_those_of_a_runs_jobs_in_the_order_of_their_starts(tmp_path: Path) -> None:
    names = ("99", "100", "100.1", "100.10", "100.2", "7", "x", "1.a", "12.", "..")
    for name in names[:-1]:
        (tmp_path / "logs" / name).mkdir(parents=True)
    found = job_folders(tmp_path)
    assert [folder.path.name for folder in found] == ["7", "99", "100", "100.1", "100.2", "100.10"]
    assert [folder.job for folder in job_folders(tmp_path, {"99"})] == ["99"]
    assert job_folders(tmp_path, set()) == []
    assert job_folders(tmp_path / "none") == []
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "logs").write_text("a file")
    assert job_folders(tmp_path / "b") == []


def test_ranks_are_numbers(tmp_path: Path) -> None:
    folder = made.folder(tmp_path, "1", {0: "", 2: "", 10: ""})
    (folder / "rank-11.log.gz").touch()
    for name in ("rank-x.log", "rank-3.log.part", "rank-.log", "nodes"):
        (folder / name).touch()
    assert list(rank_logs(folder)) == [0, 2, 10, 11]
    assert rank_log(folder, 11).name == "rank-11.log.gz"
    assert rank_log(folder, 12).name == "rank-12.log"
    assert rank_logs(tmp_path / "none") == {}
