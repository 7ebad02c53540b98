"""The program that ends a job that hangs: what it decides by the logs of all ranks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.logs.fatal import rows
from moectl.render.programs import watchdog
from tests.support.training_logs import MEMORY, SILENT, VICTIM

STEP = (
    "I1130 15:26:{second:02d}.461972 140264779340672 metric_logger.py:265] completed step: {step}, "
    "seconds: 0.516, TFLOP/s/device: 0.003, Tokens/s/device: 248.041, total_weights: 256, "
    "loss: 7.496\n"
)
OPTIONS = SimpleNamespace(
    ranks=4, first=0, per_node=2, steps=0, settle=1, start=100.0, step=10.0, factor=10.0, end=50.0,
    grace=5.0, every=1.0, stacks=1.0, apart=5.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The program as it is rendered, with its table."""
    import importlib.util  # noqa: PLC0415

    path = tmp_path_factory.mktemp("program") / "watchdog_rendered.py"
    path.write_text(watchdog())
    spec = importlib.util.spec_from_file_location("watchdog_rendered", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Logs:
    """The logs of a job's four ranks, and a watch over them at moments of one's choice."""

    def __init__(self, program: ModuleType, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.watch = program.Watch(folder, SimpleNamespace(**vars(OPTIONS) | options), 0.0)

    def write(self, rank: int, text: str) -> None:
        with (self.folder / f"rank-{rank}.log").open("a") as stream:
            stream.write(text)

    def step(self, step: int, ranks: range = range(4)) -> None:
        for rank in ranks:
            self.write(rank, STEP.format(step=step, second=step % 60))

    def at(self, moment: float) -> Any:
        self.watch.look(moment)
        return self.watch.verdict(moment)


@pytest.fixture
def logs(program: ModuleType, tmp_path: Path) -> Logs:
    (tmp_path / "nodes").write_text("gpu000 0 -\ngpu001 1 -\n")
    return Logs(program, tmp_path)


def test_the_table_is_in_the_program_and_nothing_is_left_to_fill_in(program: ModuleType) -> None:
    assert [row[0] for row in program.FATAL] == [row.id for row in rows()]
    assert all(re.compile(row[1]) for row in program.FATAL)


def test_a_run_that_makes_steps_is_left_alone(logs: Logs) -> None:
    for step in range(50):
        logs.step(step)
        assert logs.at(step * 9.0) is None


def test_before_the_first_step_another_limit_holds(logs: Logs) -> None:
    logs.write(0, "compiling\n")
    assert logs.at(99.0) is None
    verdict = logs.at(100.0)
    assert verdict["code"] == 124
    assert verdict["verdict"] == "the first step did not come in 100 s"
    assert verdict["last_step"] is None


def test_the_rank_that_never_wrote_anything_is_named(logs: Logs) -> None:
    for rank in (0, 1, 3):
        logs.write(rank, "compiling\n")
    assert logs.at(50.0) is None
    assert (logs.at(100.0)["rank"], logs.at(100.0)["node"]) == (2, "gpu001")


def test_no_step_in_time_names_the_rank_that_is_behind(logs: Logs) -> None:
    logs.step(0)
    logs.step(1)
    logs.step(2, range(3))
    assert logs.at(1.0) is None
    assert logs.at(10.9) is None
    verdict = logs.at(11.0)
    assert (verdict["code"], verdict["rank"], verdict["node"]) == (124, 3, "gpu001")
    assert verdict["last_step"] == 2
    assert verdict["retry"] is True


def test_when_all_ranks_stand_at_the_same_step_none_is_blamed(logs: Logs) -> None:
    logs.step(0)
    assert logs.at(1.0) is None
    assert logs.at(20.0)["rank"] is None


def test_long_steps_are_given_a_multiple_of_their_median(logs: Logs) -> None:
    for step in range(4):
        for rank in range(4):
            logs.write(rank, STEP.format(step=step, second=1).replace("0.516", "3.000"))
    assert logs.at(1.0) is None
    assert logs.at(30.0) is None
    assert logs.at(31.0)["limit_seconds"] == 30.0


def test_lines_of_evaluation_count_as_progress(logs: Logs) -> None:
    logs.step(0)
    assert logs.at(0.0) is None
    for moment in range(9, 60, 9):
        logs.write(0, f"I1130 15:00:00.0 1 m.py:1] Completed eval step: {moment}, seconds: 9.0\n")
        assert logs.at(float(moment)) is None
    assert logs.at(64.0) is not None


@pytest.mark.parametrize("way", ["given", "echoed", "stopped"])
def test_after_the_last_step_a_third_limit_holds(
    way: str, program: ModuleType, tmp_path: Path
) -> None:
    logs = Logs(program, tmp_path, steps=3 if way == "given" else 0)
    if way == "echoed":
        logs.write(0, "I1130 15:26:14.766125 1 pyconfig.py:591] Config param steps: 3\n")
    logs.step(0)
    logs.step(1)
    logs.write(0, "I1130 1 a.py:1] Training stopped: SIGTERM\n" if way == "stopped" else "x\n")
    logs.step(2)
    assert logs.at(1.0) is None
    assert logs.at(50.0) is None
    assert logs.at(51.0)["verdict"] == "the end did not come in 50 s"


def test_a_known_text_is_given_time_and_then_ends_the_job(logs: Logs) -> None:
    logs.step(0)
    assert logs.at(1.0) is None
    logs.write(2, MEMORY)
    for rank in (0, 1, 3):
        logs.write(rank, VICTIM)
    assert logs.at(2.0) is None
    assert logs.at(6.9) is None
    verdict = logs.at(7.0)
    assert (verdict["code"], verdict["rank"], verdict["known"]) == (125, 2, "out-of-memory")
    assert verdict["retry"] is False
    assert verdict["text"] == MEMORY.strip()


def test_a_known_text_after_which_steps_come_is_none(logs: Logs) -> None:
    logs.step(0)
    logs.write(2, MEMORY)
    assert logs.at(1.0) is None
    for step in range(1, 9):
        logs.step(step)
        assert logs.at(1.0 + 4 * step) is None


def test_a_text_that_may_be_harmless_explains_and_ends_nothing(logs: Logs) -> None:
    logs.step(0)
    assert logs.at(0.5) is None
    logs.write(1, "[id=7] This thread has been waiting for `x` for 10 seconds and may be stuck.\n")
    assert logs.at(1.0) is None
    assert logs.at(10.0) is None
    verdict = logs.at(11.0)
    assert (verdict["code"], verdict["rank"], verdict["known"]) == (124, 1, "rendezvous-waits")


def test_a_process_that_died_without_a_word_is_named_by_the_others(logs: Logs) -> None:
    logs.step(0)
    logs.write(0, SILENT + VICTIM)
    logs.write(1, VICTIM)
    assert logs.at(1.0) is None
    verdict = logs.at(7.0)
    assert (verdict["code"], verdict["rank"], verdict["known"]) == (125, 1, "heartbeat")
    logs.watch.found.clear()
    logs.write(0, SILENT.replace("Task 1", "Task 99") + VICTIM)
    logs.watch.look(8.0)
    assert logs.watch.verdict(14.0)["rank"] == 0


def test_an_exception_explains_a_hang_and_ends_nothing_by_itself(logs: Logs) -> None:
    logs.step(0)
    assert logs.at(1.0) is None
    logs.write(2, "Traceback (most recent call last):\nValueError: no such file\n")
    assert logs.at(2.0) is None
    assert logs.at(10.9) is None
    verdict = logs.at(11.0)
    assert (verdict["code"], verdict["rank"]) == (124, 2)
    assert verdict["cause"] == "a process raised an exception and did not end"
    assert verdict["text"] == "ValueError: no such file"


def test_others_that_outlive_a_process_that_failed_are_ended(logs: Logs) -> None:
    logs.step(0)
    (logs.folder / "first-failure").write_text("1 3 gpu001\n")
    assert logs.at(1.0) is None
    assert logs.at(6.0)["verdict"] == "a process failed, and the others did not end"


def test_an_echo_of_the_configuration_is_no_fatal_text(logs: Logs) -> None:
    logs.step(0)
    logs.write(0, f"I1130 15:26:14.766125 1 pyconfig.py:591] Config param run_name: {MEMORY}")
    assert logs.at(1.0) is None
    assert logs.at(7.0) is None


@pytest.mark.parametrize(
    ("stacks", "odd"),
    [
        ({}, None),
        ({0: ["a"]}, None),
        ({0: ["a"], 1: ["a"]}, None),
        ({0: ["a"], 1: ["b"]}, None),
        ({0: ["a"], 1: ["a"], 2: ["b"]}, 2),
        ({0: ["b"], 1: ["a"], 2: ["a"], 3: ["a"]}, 0),
        ({0: ["a"], 1: ["a"], 2: ["b"], 3: ["c"]}, None),
        ({0: ["a"], 1: ["a"], 2: ["a"], 3: ["c"], 4: ["b"]}, 3),
        ({0: ["a.py, line 3 in f"], 1: ["a.py, line 4 in f"], 2: ["a.py, line 9 in g"]}, 2),
    ],
)
def test_the_odd_one_is_a_process_that_stands_elsewhere_than_most(
    stacks: dict[int, list[str]], odd: int | None, program: ModuleType
) -> None:
    found = program.odd_one(stacks)
    assert (found[0] if found else None) == odd


def test_a_limit_of_0_is_none(program: ModuleType, tmp_path: Path) -> None:
    logs = Logs(program, tmp_path, start=0.0, step=0.0)
    assert logs.at(1e6) is None
    logs.step(0)
    assert logs.at(1e6) is None
    assert logs.at(2e6) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=80), st.floats(0, 1e3))))
def test_no_log_is_too_odd(
    program: ModuleType,
    tmp_path_factory: pytest.TempPathFactory,
    happenings: list[tuple[int, bytes, float]],
) -> None:
    logs = Logs(program, tmp_path_factory.mktemp("logs"))
    moment = 0.0
    for rank, data, pause in happenings:
        with (logs.folder / f"rank-{rank}.log").open("ab") as stream:
            stream.write(data)
        moment += pause
        verdict = logs.at(moment)
        if verdict is not None:
            verdict["ranks"] = logs.watch.table(moment)
            program.write(logs.folder, verdict)
            json.loads((logs.folder / "watchdog.json").read_text())


def test_torn_lines_odd_bytes_and_logs_written_anew_are_read(logs: Logs) -> None:
    path = logs.folder / "rank-0.log"
    path.write_bytes(b"\xff\x00completed step: 1")
    assert logs.at(1.0) is None
    assert logs.watch.last_step == -1
    with path.open("ab") as stream:
        stream.write(b"2, seconds: 0.5\n" + b"x" * 100_000 + b"\n")
    logs.watch.look(2.0)
    assert logs.watch.last_step == 12
    path.write_bytes(b"completed step: 13, seconds: 0.5\n")
    logs.watch.look(3.0)
    assert logs.watch.last_step == 13
    path.unlink()
    logs.watch.look(4.0)


def test_the_verdict_is_written_whole_and_another_code_is_not_taken(
    program: ModuleType, logs: Logs
) -> None:
    logs.step(0)
    logs.at(1.0)
    record = logs.at(60.0)
    program.write(logs.folder, record)
    assert json.loads((logs.folder / "watchdog.json").read_text()) == record
    assert program.claim(logs.folder, record)
    assert (logs.folder / "first-failure").read_text() == "124 - -\n"
    assert not program.claim(logs.folder, record | {"code": 1})
    assert (logs.folder / "first-failure").read_text() == "124 - -\n"
    assert program.claim(logs.folder, record | {"rank": 2, "node": "gpu001"}, anew=True)
    assert (logs.folder / "first-failure").read_text() == "124 2 gpu001\n"
    assert not list(logs.folder.glob("*.part"))


def test_it_leaves_when_its_job_has_gone(tmp_path: Path) -> None:
    (tmp_path / "watchdog.py").write_text(watchdog())
    words = [f"--{name}={value}" for name, value in vars(OPTIONS).items() if name != "per_node"]
    words = [word.replace("--every=1.0", "--every=0.05") for word in words]
    words = [sys.executable, "-I", "watchdog.py", '--parent="$$"', *words, "."]
    script = f"{' '.join(words)} >/dev/null & echo $!"
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=20,
    )
    stat = Path(f"/proc/{done.stdout.strip()}/stat")
    deadline = time.monotonic() + 10
    while stat.exists() and time.monotonic() < deadline:
        if stat.read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.05)
    assert not (tmp_path / "watchdog.json").exists()
    assert time.monotonic() < deadline
