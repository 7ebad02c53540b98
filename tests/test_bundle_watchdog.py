"""The program that ends a job that hangs: what it decides, and what comes of it under Slurm."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from moectl.job import Cluster, Job
from moectl.logs.fatal import rows
from moectl.render import limits
from moectl.render.programs import programs, watchdog
from moectl.render.slurm import directives, launch_script
from tests.support import jobs, shell
from tests.support.components import REQUIRED, require
from tests.support.slurm import Finished, Slurm, cluster, missing

STEP = (
    "I1130 15:26:{second:02d}.461972 140264779340672 metric_logger.py:265] completed step: {step}, "
    "seconds: 0.516, TFLOP/s/device: 0.003, Tokens/s/device: 248.041, total_weights: 256, "
    "loss: 7.496\n"
)
VICTIM = (
    "F1130 15:30:23.550510   11441 client.h:86] Terminating process because the JAX distributed "
    "service detected fatal errors. This most likely indicates that another task died\n"
)
MEMORY = (
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1\n"
)
OPTIONS = SimpleNamespace(
    ranks=4, per_node=2, steps=0, settle=1, start=100.0, step=10.0, factor=10.0, end=50.0,
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
    program.claim(logs.folder, record)
    assert (logs.folder / "first-failure").read_text() == "124 - -\n"
    program.claim(logs.folder, record | {"code": 1})
    assert (logs.folder / "first-failure").read_text() == "124 - -\n"
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


# ---- The limits of a job --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 1800),
        ("30:15", 1815),
        ("04:00:00", 14400),
        ("1-0", 86400),
        ("2-12", 216000),
        ("1-02:30", 95400),
        ("1-00:00:01", 86401),
        ("UNLIMITED", None),
    ],
)
def test_time_limits_are_read_as_slurm_reads_them(text: str, expected: int | None) -> None:
    assert limits.seconds(text) == expected


def saving(time_limit: str = "04:00:00", **changes: Any) -> Job:
    config = {"enable_checkpointing": True, "enable_autocheckpoint": True, "steps": 500}
    job = replace(jobs.hgx(), config=jobs.said(config | changes))
    return replace(job, cluster=replace(job.cluster, time=time_limit))


def signals(job: Job) -> list[str]:
    return [each.text for each in directives(job) if each.text.startswith("--signal")]


def test_a_job_that_saves_on_a_signal_is_sent_one() -> None:
    assert signals(saving()) == ["--signal=TERM@600"]
    assert signals(saving("01:00:00")) == ["--signal=TERM@360"]


@pytest.mark.parametrize("key", ["enable_checkpointing", "enable_autocheckpoint"])
def test_a_job_that_would_not_save_is_sent_none(key: str) -> None:
    changes: dict[str, Any] = {key: False}
    assert signals(saving(**changes)) == []


def test_neither_is_a_short_job_nor_one_that_names_its_own() -> None:
    assert signals(saving("00:10:00")) == []
    own = saving()
    own = replace(own, cluster=replace(own.cluster, directives=("--signal=USR1@60",)))
    assert signals(own) == ["--signal=USR1@60"]


def test_the_limits_come_from_the_site_and_else_from_the_table() -> None:
    words = limits.watchdog(saving())
    assert {"--ranks=32", "--per-node=8", "--steps=500", "--start=3600", "--step=900"} <= {*words}
    site = replace(saving().cluster, compile_limit=120, step_limit=45)
    assert {"--start=120", "--step=45"} <= {*limits.watchdog(replace(saving(), cluster=site))}


def test_profile_guided_runs_are_given_time_for_their_second_compilation() -> None:
    environment = jobs.said({"JAX_ENABLE_PGLE": "true", "JAX_PGLE_PROFILING_RUNS": "4"})
    assert "--settle=6" in limits.watchdog(replace(saving(), environment=environment))
    assert not [word for word in limits.watchdog(saving()) if word.startswith("--settle")]


# ---- Under a real Slurm ---------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """A cluster of two nodes, and a python3 that runs the bundle's behaviour.py as MaxText."""

    slurm: Slurm
    python: Path

    def job(self, **changes: Any) -> Job:
        hardware = replace(jobs.GB200, gpus_per_node=2, domain_gpus=2, usable_domain_gpus=2)
        return replace(
            jobs.job(hardware, 2, slice_gpus=2),
            cluster=Cluster(runtime="none", gpu_request="none", python=str(self.python)),
            config=jobs.said({"steps": 8, **changes}),
        )

    def run(self, bundle: Path, behaviour: str, **words: str) -> Finished:
        """Run a bundle whose watchdog has other limits than a real one has."""
        job = self.job()
        script = launch_script(job)
        fast = {"every": "0.3", "start": "60", "step": "4", "grace": "2", "end": "4", "stacks": "3"}
        fast |= words
        for name, value in fast.items():
            script, count = re.subn(rf"--{name}=\S+", f"--{name}={value}", script)
            assert count == 1
        files = {"launch.sbatch": script, "config.yml": "a: 1\n", **programs(job)}
        shell.write(bundle, files | {"behaviour.py": BEHAVIOUR + behaviour})
        number = self.slurm.submit(
            bundle / "launch.sbatch",
            options=["--output=%j.out"],
            cwd=bundle.parent,
        )
        return self.slurm.wait(number, bundle.parent / f"{number}.out")


BEHAVIOUR = """
import os, sys, time, faulthandler
faulthandler.enable()
rank = int(os.environ["SLURM_PROCID"])
def step(number):
    sys.stderr.write(
        f"I1130 15:26:49.461972 140264779340672 metric_logger.py:265] completed step: {number}, "
        "seconds: 0.216, TFLOP/s/device: 0.003, Tokens/s/device: 248.041, loss: 7.496\\n"
    )
def hang():
    while True:
        time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require("slurm")
    require("root")
    if absent := missing():
        refuse = pytest.fail if os.environ.get(REQUIRED) == "1" else pytest.skip
        refuse(absent)
    python = tmp_path_factory.mktemp("programs") / "python3"
    run = f"exec {sys.executable}"
    python.write_text(f'#!/bin/sh\ncase $1 in -m) {run} behaviour.py ;; esac\n{run} "$@"\n')
    python.chmod(0o755)
    with cluster(nodes=2, gpus=2, cpus=16) as slurm:
        yield Site(slurm, python)


def verdict(bundle: Path, finished: Finished) -> dict[str, Any]:
    text = (bundle / "logs" / str(finished.job) / "watchdog.json").read_text()
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_a_hang_ends_the_job_with_its_own_code_and_the_stacks_of_all_ranks(
    site: Site, tmp_path: Path
) -> None:
    behaviour = """
for number in range(3):
    step(number)
    time.sleep(0.2)
if rank != 3:
    step(3)
hang()
"""
    bundle = tmp_path / "b"
    finished = site.run(bundle, behaviour)
    assert (finished.state, finished.exit_code) == ("FAILED", 124), finished.output
    assert "a step did not come in 4 s" in finished.output
    assert "rank 3 on gpu001" in finished.output
    assert "failed first" not in finished.output
    said = verdict(bundle, finished)
    assert (said["rank"], said["node"], said["last_step"], said["steps"]) == (3, "gpu001", 3, 8)
    assert said["stacks"] == [0, 1, 2, 3]
    assert [row["step"] for row in said["ranks"]] == [3, 3, 3, 2]
    for rank in range(4):
        log = (bundle / "logs" / str(finished.job) / f"rank-{rank}.log").read_text()
        assert re.search(
            r"Fatal Python error: Aborted(?s:.*)behaviour\.py\", line \d+ in hang", log
        )
    assert not list(bundle.rglob("core*"))


def test_a_known_text_of_a_rank_whose_process_goes_on_ends_the_job(
    site: Site, tmp_path: Path
) -> None:
    behaviour = f"""
step(0)
if rank == 2:
    sys.stderr.write({MEMORY!r})
hang()
"""
    finished = site.run(tmp_path / "b", behaviour, step="60")
    assert (finished.state, finished.exit_code) == ("FAILED", 125), finished.output
    said = verdict(tmp_path / "b", finished)
    assert (said["rank"], said["known"], said["retry"]) == (2, "out-of-memory", False)
    assert "a GPU ran out of memory, rank 2 on gpu001" in finished.output


def test_a_process_that_takes_no_signal_is_ended_all_the_same(site: Site, tmp_path: Path) -> None:
    behaviour = """
import signal
for number in (signal.SIGABRT, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
step(0)
hang()
"""
    finished = site.run(tmp_path / "b", behaviour, step="3")
    assert (finished.state, finished.exit_code) == ("FAILED", 124), finished.output
    assert verdict(tmp_path / "b", finished)["stacks"] == []


def test_a_run_that_ends_well_or_fails_by_itself_keeps_its_code(site: Site, tmp_path: Path) -> None:
    well = site.run(tmp_path / "well", "for number in range(8): step(number)\n")
    assert (well.state, well.exit_code) == ("COMPLETED", 0), well.output
    assert "watchdog" not in well.output
    assert "Terminated" not in well.output
    ill = site.run(tmp_path / "ill", f"step(0); sys.stderr.write({MEMORY!r}); sys.exit(rank + 40)")
    assert ill.exit_code in range(40, 44)
    for bundle, finished in ((tmp_path / "well", well), (tmp_path / "ill", ill)):
        assert not (bundle / "logs" / str(finished.job) / "watchdog.json").exists()


def test_the_signal_before_the_limit_reaches_the_processes(site: Site, tmp_path: Path) -> None:
    """Slurm 22.05 sends it within a minute of the moment that was asked for."""
    behaviour = """
import signal
from pathlib import Path
def save(*_):
    Path(os.environ["MOECTL_LOGS"], f"saved-{rank}").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
step(0)
hang()
"""
    bundle = tmp_path / "b"
    job = site.job()
    job = replace(job, cluster=replace(job.cluster, time="1"))
    script = launch_script(job).replace(
        "#SBATCH --time", "#SBATCH --signal=TERM@50\n#SBATCH --time"
    )
    shell.write(bundle, {"launch.sbatch": script, "config.yml": "a: 1\n", **programs(job)})
    (bundle / "behaviour.py").write_text(BEHAVIOUR + behaviour)
    number = site.slurm.submit(bundle / "launch.sbatch", options=["--output=%j.out"], cwd=tmp_path)
    finished = site.slurm.wait(number, tmp_path / f"{number}.out")
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output
    saved = (bundle / "logs" / str(number)).glob("saved-*")
    assert sorted(path.name for path in saved) == [f"saved-{rank}" for rank in range(4)]
