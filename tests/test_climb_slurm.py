"""A climb over a real Slurm: gates hold back what is above them, and a fix goes on from there."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moectl.actions import climb as action
from moectl.actions.plan import Wishes
from moectl.campaign.ladder import load, root
from moectl.campaign.standing import Ladder, job_of
from moectl.errors import BackendError, UsageError
from moectl.launch.store import Store
from moectl.launch.submit import launch
from tests.support.components import require
from tests.support.slurm import Slurm, cluster

# What stands in for MaxText: it writes the lines of steps, slower above 8 GPUs when it is told.
TRAINING = """
import os, sys, pathlib
gpus = int(os.environ["SLURM_NTASKS"])
bad = pathlib.Path({flag!r}).exists() and gpus > 8
for step in range(8):
    sys.stderr.write(
        "I1130 15:26:49.461972 140264779340672 metric_logger.py:265] "
        f"completed step: {{step}}, seconds: 0.500, TFLOP/s/device: 10.000, "
        f"Tokens/s/device: {{100.0 if bad else 990.0:.3f}}, loss: {{7 - step / 100:.3f}}\\n"
    )
"""
RUN = """\
preset: qwen3-30b-a3b
hardware: {hardware}
name: up
parallelism:
  ici: {{fsdp: -1, expert: 1}}
training: {{steps: 8}}
"""
CLUSTER = """\
runtime: none
gpu_request: none
python: {python}
memory: ""
exclusive: false
cpus_per_task: 1
time: "5"
slurm_release: "22.05"
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    require("slurm-cluster")
    with cluster(nodes=8, gpus=4, cpus=16) as found:
        yield found


@pytest.fixture
def site(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))
    monkeypatch.chdir(tmp_path)
    flag = tmp_path / "slow"
    program = tmp_path / "training.py"
    program.write_text(TRAINING.format(flag=str(flag)))
    python = tmp_path / "python3"
    run = f"exec {sys.executable}"
    python.write_text(f'#!/bin/sh\ncase $1 in -m) {run} {program} ;; esac\n{run} "$@"\n')
    python.chmod(0o755)
    (tmp_path / "run.yaml").write_text(RUN.format(hardware="gb200-nvl72"))
    (tmp_path / "site.yaml").write_text(CLUSTER.format(python=python))
    return tmp_path


def planned(site: Path, counts: list[int], **said: float) -> Any:
    wishes = Wishes(cluster=site / "site.yaml", allow=("MEM111",))
    return action.plan_climb("run.yaml", wishes, counts, said)


def waited(store: Store, name: str) -> Ladder:
    """Return a climb when nothing of it is under way any more."""
    ended = {"passed", "failed", "lost", "without a gate", "not submitted"}
    deadline = time.monotonic() + 300
    while True:
        found = action.shown(store, name)
        states = [one.state for one in found.rungs]
        stopped = "failed" in states and not any(
            state in {"running", "being judged", "completing"} for state in states
        )
        if stopped or all(state in ended for state in states):
            return found
        assert time.monotonic() < deadline, states
        time.sleep(1)


def test_nothing_above_a_failed_rung_starts_and_a_fix_goes_on_from_there(site: Path) -> None:
    store = Store()
    climb, rendered = planned(site, [4, 8, 16, 32])
    (site / "slow").touch()
    action.start(store, climb, rendered)
    found = waited(store, "up")
    assert [one.state for one in found.rungs[:3]] == ["passed", "passed", "failed"]
    assert "scaling efficiency" in found.rungs[2].told
    top = found.rungs[3]
    assert not (found.folder / f"rung-32.{top.rung.attempt}" / "logs").exists()
    (site / "slow").unlink()
    again = action.resume(store, "up")
    assert [one.rung.attempt for one in again.rungs] == [1, 1, 2, 2]
    end = waited(store, "up")
    assert [one.state for one in end.rungs] == ["passed"] * 4
    with pytest.raises(UsageError, match="every rung passed"):
        action.resume(store, "up")


def test_a_climb_whose_submission_died_goes_on_without_doubling_a_job(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill between two submissions leaves is a climb with jobs for its first rungs."""
    store = Store()
    climb, rendered = planned(site, [4, 8])
    calls = 0

    def dying(*words: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return launch(*words, **more)

    with monkeypatch.context() as patch:
        patch.setattr("moectl.actions.climb.launch", dying)
        with pytest.raises(KeyboardInterrupt):
            action.start(store, climb, rendered)
    before = job_of(store, climb.rungs[0].run)
    assert before
    action.resume(store, climb.id)
    end = waited(store, climb.id)
    assert [one.state for one in end.rungs] == ["passed", "passed"]
    assert job_of(store, climb.rungs[0].run) == before
    assert load(root(store.root), climb.id).rungs == climb.rungs


def test_a_rung_that_no_partition_has_is_said_before_anything_starts(site: Path) -> None:
    store = Store()
    climb, rendered = planned(site, [4, 64])
    with pytest.raises(BackendError, match="the rung of 64 GPUs cannot run here"):
        action.start(store, climb, rendered)
    assert not root(store.root).exists()
    assert list(store.list().records) == []


@pytest.mark.parametrize(
    ("counts", "said", "why"),
    [
        ([8], {}, "do not climb"),
        ([8, 8], {}, "do not climb"),
        ([16, 8], {}, "do not climb"),
        ([4, 8], {"efficiency": 2.0}, "no rung could pass"),
        ([4, 8], {"skip": 8.0}, "no rung could pass"),
    ],
)
def test_rungs_and_gates_that_cannot_be_are_refused(
    counts: list[int], said: dict[str, float], why: str, site: Path
) -> None:
    with pytest.raises(UsageError, match=why):
        planned(site, counts, **said)
