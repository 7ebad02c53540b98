"""Real MaxText in a run of two jobs: it saves on the signal, and goes on in the next link.

One process on CPU under a real Slurm, without a container. Nothing is a stand-in but the size of
the model and who sends the signal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moectl.job import Cluster, Job
from moectl.logs.maxtext import StepLine, read_log
from moectl.render.config import config_yml
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs, shell
from tests.support.components import require
from tests.support.launching import eventually
from tests.support.slurm import Finished, Slurm, cluster
from tests.support.tiny_moe import TINY

STEPS = 3000
MODEL: dict[str, Any] = TINY | {
    "ici_fsdp_parallelism": 1,
    "enable_checkpointing": True,
    "enable_autocheckpoint": True,
    "checkpoint_period": 100_000,
    "max_num_checkpoints_to_keep": 2,
    "steps": STEPS,
}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    require("slurm-cluster")
    with cluster(nodes=1, gpus=1, cpus=8) as running:
        yield running


def tiny(output: Path) -> Job:
    hardware = replace(jobs.GB200, gpus_per_node=1, domain_gpus=1, usable_domain_gpus=1)
    environment = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1", "HF_HUB_OFFLINE": "1"}
    return replace(
        jobs.job(hardware, 1, slice_gpus=1),
        config=jobs.said({**MODEL, "base_output_directory": str(output)}),
        environment=jobs.said(environment),
        cluster=Cluster(
            runtime="none", gpu_request="none", memory="", python=str(require("maxtext"))
        ),
    )


def steps_of(bundle: Path, job: int) -> list[int]:
    path = bundle / "logs" / str(job) / "rank-0.log"
    if not path.exists():
        return []
    return [said.step for said in read_log(path) if isinstance(said, StepLine)]


def end_of(bundle: Path, job: int) -> dict[str, Any]:
    found = json.loads((bundle / "logs" / str(job) / "end.json").read_text())
    assert isinstance(found, dict)
    return found


def test_maxtext_saves_on_the_signal_and_the_next_link_goes_on_from_there(
    slurm: Slurm, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    job = tiny(tmp_path / "output")
    files = {"launch.sbatch": launch_script(job), "config.yml": config_yml(job), **programs(job)}
    shell.write(bundle, files)

    def link(*options: str) -> int:
        named = ["--job-name=tiny-1", "--output=tiny-%j.log", *options]
        return slurm.submit(bundle / "launch.sbatch", options=named, cwd=bundle)

    def ended(number: int) -> Finished:
        return slurm.wait(number, bundle / f"tiny-{number}.log", limit=400)

    first = link()
    second = link(f"--dependency=afterany:{first},singleton")
    third = link(f"--dependency=afterany:{second},singleton")
    eventually(lambda: len(steps_of(bundle, first)) > 5, "five steps", 400)
    slurm.run("scancel", "--signal=TERM", str(first))
    finished = ended(first)
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output
    end = end_of(bundle, first)
    assert (end["stopped"], end["done"]) == (True, False)
    reached = steps_of(bundle, first)[-1]
    assert end["reached"] == reached < STEPS - 1

    finished = ended(second)
    assert finished.exit_code == 0, finished.output
    assert f"goes on where job {first} reached step {reached}" in finished.output
    steps = steps_of(bundle, second)
    # The step after which it saves and stops is the last one of which no line is written.
    assert steps[0] in {reached + 1, reached + 2}
    assert steps[-1] == STEPS - 1
    assert end_of(bundle, second)["done"] is True
    finished = ended(third)
    assert (finished.exit_code, steps_of(bundle, third)) == (0, [])
    assert f"job {second} reached step {STEPS - 1}, the last one" in finished.output
