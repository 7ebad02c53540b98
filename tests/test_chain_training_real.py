"""Real MaxText in a run of two jobs: it saves on the signal, and goes on in the next link.

One process on CPU under a real Slurm, without a container. Nothing is a stand-in but the size of
the model and who sends the signal.
"""

from __future__ import annotations

import json
import os
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
from tests.support.components import REQUIRED, require
from tests.support.launching import eventually
from tests.support.slurm import Finished, Slurm, cluster, missing

STEPS = 3000
MODEL: dict[str, Any] = {
    "base_config": "base.yml",
    "model_name": "default",
    "hardware": "gpu_multiprocess",
    "decoder_block": "mixtral",
    "base_emb_dim": 32,
    "base_num_query_heads": 2,
    "base_num_kv_heads": 2,
    "head_dim": 16,
    "base_mlp_dim": 64,
    "base_moe_mlp_dim": 64,
    "base_num_decoder_layers": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 128,
    "max_target_length": 32,
    "per_device_batch_size": 1,
    "attention": "dot_product",
    "sparse_matmul": False,
    "megablox": False,
    "ici_fsdp_parallelism": 1,
    "dataset_type": "synthetic",
    "enable_checkpointing": True,
    "enable_autocheckpoint": True,
    "checkpoint_period": 100_000,
    "max_num_checkpoints_to_keep": 2,
    "run_name": "tiny",
    "steps": STEPS,
}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    require("slurm")
    require("root")
    if absent := missing():
        refuse = pytest.fail if os.environ.get(REQUIRED) == "1" else pytest.skip
        refuse(absent)
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
