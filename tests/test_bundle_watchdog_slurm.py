"""What becomes of jobs that hang under a real Slurm: verdict, exit code, stacks of all ranks."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from moectl.job import Cluster, Job
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs, shell
from tests.support.components import require
from tests.support.slurm import Finished, Slurm, cluster
from tests.support.training_logs import MEMORY


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

    def submit(
        self,
        bundle: Path,
        behaviour: str,
        words: Mapping[str, str],
        others: Mapping[str, str] | None = None,
    ) -> int:
        """Submit a bundle whose watchdog has other limits than a real one has."""
        job = self.job()
        script = launch_script(job)
        fast = {"every": "0.3", "start": "60", "step": "6", "grace": "2", "end": "6"}
        # The stacks are waited for no longer than they take.
        fast["stacks"] = "30"
        for name, value in (fast | dict(words)).items():
            script, count = re.subn(rf"--{name}=\S+", f"--{name}={value}", script)
            assert count == 1
        files = {"launch.sbatch": script, "config.yml": "a: 1\n", **programs(job)}
        files |= {"behaviour.py": BEHAVIOUR + behaviour, **(others or {})}
        shell.write(bundle, files)
        return self.slurm.submit(
            bundle / "launch.sbatch", options=["--output=%j.out"], cwd=bundle.parent
        )

    def run(self, bundle: Path, behaviour: str, **words: str) -> Finished:
        """Submit a bundle and wait for its end."""
        number = self.submit(bundle, behaviour, words)
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
    require("slurm-cluster")
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
    assert "a step did not come in 6 s" in finished.output
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


def test_the_process_that_waits_elsewhere_is_named_by_its_stack(site: Site, tmp_path: Path) -> None:
    behaviour = """
def read_data():
    while True:
        time.sleep(0.1)
step(0)
read_data() if rank == 2 else hang()
"""
    finished = site.run(tmp_path / "b", behaviour)
    assert (finished.state, finished.exit_code) == ("FAILED", 124), finished.output
    said = verdict(tmp_path / "b", finished)
    assert (said["rank"], said["node"]) == (2, "gpu001")
    assert "in read_data" in said["text"]
    assert [group["ranks"] for group in said["main_threads"]] == [[0, 1, 3], [2]]
    assert "in hang" in said["main_threads"][0]["frames"][0]
    folder = tmp_path / "b" / "logs" / str(finished.job)
    assert (folder / "first-failure").read_text() == "124 2 gpu001\n"
    assert "differs from those of most others, rank 2 on gpu001" in finished.output


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
    finished = site.run(tmp_path / "b", behaviour, step="3", stacks="3")
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


def test_time_in_which_a_job_was_suspended_does_not_count(site: Site, tmp_path: Path) -> None:
    """The whole job is stopped for longer than the limit, as `scontrol suspend` does it."""
    behaviour = "step(0)\ntime.sleep(3)\nfor number in range(1, 8): step(number)\n"
    bundle = tmp_path / "b"
    program = programs(site.job())["watchdog.py"].replace("SUSPENDED = 60.0", "SUSPENDED = 0.2")
    number = site.submit(bundle, behaviour, {"step": "6"}, {"watchdog.py": program})
    deadline = time.monotonic() + 60
    folder = bundle / "logs" / str(number)
    while not (folder / "rank-3.log").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    for order in ("suspend", "resume"):
        done = site.slurm.run("scontrol", order, str(number))
        assert done.returncode == 0, done.stderr
        time.sleep(7 if order == "suspend" else 0)
    finished = site.slurm.wait(number, tmp_path / f"{number}.out")
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output


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
