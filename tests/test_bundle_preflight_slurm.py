"""The preflight under a real Slurm, with real JAX in every process, on CPU.

What a process suffers is done to it from outside: the Python of the cluster is a script that may
change the variables of one process, let it sleep at its work, or not start it. MaxText is a
stand-in that notes that it was started; tests/test_training_real.py has the real one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from moectl.job import Cluster, Degree, Job, Mesh
from moectl.logs.verdict import verdict
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs, shell
from tests.support.components import require
from tests.support.slurm import Finished, Slurm, cluster

PYTHON = """#!/bin/sh
case $1 in
  -m) : >"$MOECTL_LOGS/trained-$SLURM_PROCID"; exit 0 ;;
  ./preflight.py) . {behaviour} ;;
esac
exec {python} "$@"
"""
# Lets a process sleep in each run of the first work of its own: the one that does not count, and
# the repeats. It is slow however busy the machine is.
SLOWED = """
import runpy, sys, time
left = 1 + 3
def slow(frame, event, _):
    global left
    code = frame.f_code
    own = code.co_filename.endswith("preflight.py") and code.co_name == "<lambda>"
    if event == "call" and left and own and not code.co_argcount:
        left -= 1
        time.sleep(3)
sys.argv = sys.argv[1:]
sys.setprofile(slow)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Site:
    """A cluster of three nodes, and a Python that does to a process what a test says."""

    slurm: Slurm
    folder: Path

    @property
    def behaviour(self) -> Path:
        return self.folder / "behaviour"

    def slowed(self, condition: str) -> str:
        """Return the behaviour that slows the processes of a condition of the shell."""
        return f'if {condition}; then set -- {self.folder / "slowed.py"} "$@"; fi'

    def run(
        self, bundle: Path, behaviour: str = "", *, after: int = 60, **changes: Any
    ) -> Finished:
        job = self.job(**changes)
        files = {"launch.sbatch": launch_script(job), "config.yml": "a: 1\n", **programs(job)}
        # On a loaded machine a process that is slowed needs more than a minute.
        for name, text in files.items():
            files[name] = text.replace("'limit': 60,", "'limit': 240,")
            files[name] = files[name].replace("'repeats': 5,", "'repeats': 3,")
        files["launch.sbatch"] = files["launch.sbatch"].replace("--wait=30", f"--wait={after}")
        shell.write(bundle, files)
        self.behaviour.write_text(behaviour + "\n")
        number = self.slurm.submit(
            bundle / "launch.sbatch", options=["--output=%j.out"], cwd=bundle.parent
        )
        return self.slurm.wait(number, bundle.parent / f"{number}.out", limit=300)

    def job(self, **changes: Any) -> Job:
        hardware = replace(jobs.GB200, gpus_per_node=2, domain_gpus=2, usable_domain_gpus=2)
        site = Cluster(
            runtime="none",
            gpu_request="none",
            memory="",
            preflight=True,
            python=str(self.folder / "python3"),
        )
        return replace(
            jobs.job(hardware, 2, slice_gpus=2),
            mesh=Mesh({"fsdp": Degree(1, 2), "expert": Degree(2, 1)}, 2, 2),
            cluster=replace(site, **changes),
            xla_flags=jobs.said({"xla_cpu_enable_fast_min_max": False}),
            environment=jobs.said({"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}),
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require("slurm-cluster")
    folder = tmp_path_factory.mktemp("programs")
    (folder / "slowed.py").write_text(SLOWED)
    text = PYTHON.format(behaviour=folder / "behaviour", python=require("maxtext"))
    (folder / "python3").write_text(text)
    (folder / "python3").chmod(0o755)
    with cluster(nodes=3, gpus=2, cpus=16) as slurm:
        yield Site(slurm, folder)


def read(bundle: Path, finished: Finished) -> dict[str, Any]:
    found = json.loads((bundle / "logs" / str(finished.job) / "preflight.json").read_text())
    assert isinstance(found, dict)
    return found


def trained(bundle: Path) -> int:
    return len(list((bundle / "logs").rglob("trained-*")))


def test_a_job_in_which_all_is_well_trains(site: Site, tmp_path: Path) -> None:
    bundle = tmp_path / "b"
    finished = site.run(bundle)
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output
    said = read(bundle, finished)
    assert (said["passed"], said["faults"], said["notes"]) == (True, [], [])
    assert {"dcn fsdp", "ici expert", "matrix product of 1024"} <= set(said["median_seconds"])
    assert "4 processes are there and alike" in finished.output
    assert trained(bundle) == 4
    logs = bundle / "logs" / str(finished.job)
    records = [json.loads((logs / f"preflight/rank-{n}.json").read_text()) for n in range(4)]
    assert [record["stage"] for record in records] == ["done"] * 4
    assert [record["node"] for record in records] == ["gpu000", "gpu000", "gpu001", "gpu001"]
    assert len({record["hash"] for record in records}) == 1
    assert [record["axes"]["dcn fsdp"]["first"] for record in records] == [0, 1, 0, 1]
    assert [record["axes"]["ici expert"]["first"] for record in records] == [0, 0, 2, 2]
    assert not list(bundle.rglob(".preflight-*"))


def test_a_process_that_is_slowed_is_named_and_nothing_trains(site: Site, tmp_path: Path) -> None:
    bundle = tmp_path / "b"
    finished = site.run(bundle, site.slowed('[ "$SLURM_PROCID" = 3 ]'))
    assert (finished.state, finished.exit_code) == ("FAILED", 79), finished.output
    said = read(bundle, finished)
    assert said["faults"][0]["kind"] == "slow", said
    assert all(fault["ranks"] == [3] for fault in said["faults"])
    assert "rank 3 on gpu001: matrix product of 1024 takes" in finished.output
    assert trained(bundle) == 0
    found = verdict(bundle / "logs" / str(finished.job))
    assert found is not None
    assert (found.rank, found.node, found.exit_code) == (3, "gpu001", 79)
    assert found.cause.startswith("the preflight refused node gpu001: ")


def test_a_process_with_other_flags_is_named_with_them(site: Site, tmp_path: Path) -> None:
    bundle = tmp_path / "b"
    other = 'XLA_FLAGS="$XLA_FLAGS --xla_cpu_enable_fast_math=true"'
    finished = site.run(bundle, f'[ "$SLURM_PROCID" != 2 ] || export {other}')
    assert (finished.state, finished.exit_code) == ("FAILED", 79), finished.output
    (fault,) = read(bundle, finished)["faults"]
    assert (fault["kind"], fault["ranks"], fault["nodes"]) == ("different", [2], ["gpu001"])
    assert fault["what"] == "XLA_FLAGS has --xla_cpu_enable_fast_math=true, not as rendered"
    assert trained(bundle) == 0


def test_a_process_that_does_not_start_is_named_with_its_last_words(
    site: Site, tmp_path: Path
) -> None:
    bundle = tmp_path / "b"
    finished = site.run(
        bundle, '[ "$SLURM_PROCID" != 1 ] || { echo "no driver here" >&2; exit 3; }', after=5
    )
    assert (finished.state, finished.exit_code) == ("FAILED", 79), finished.output
    said = read(bundle, finished)
    (fault,) = said["faults"]
    assert (fault["kind"], fault["ranks"]) == ("missing", [1])
    assert fault["what"] == "never came: no driver here"
    assert said["notes"] != []
    assert trained(bundle) == 0


def test_a_bad_node_is_left_out_where_there_is_a_spare_one(site: Site, tmp_path: Path) -> None:
    bundle = tmp_path / "b"
    behaviour = site.slowed('[ "$SLURMD_NODENAME" = gpu000 ]')
    finished = site.run(bundle, behaviour, preflight_retry=True, spare_nodes=1)
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output
    assert "once more without gpu000, on spare nodes" in finished.output
    said = read(bundle, finished)
    assert (said["passed"], said["excluded"], said["again"]) == (True, ["gpu000"], False)
    logs = bundle / "logs" / str(finished.job)
    nodes = [line.split()[0] for line in (logs / "nodes").read_text().splitlines()]
    assert nodes == ["gpu001", "gpu002"]
    assert trained(bundle) == 4
    assert not (logs / "first-failure").exists()


def test_halves_that_differ_stop_the_job_although_a_node_is_spare(
    site: Site, tmp_path: Path
) -> None:
    bundle = tmp_path / "b"
    behaviour = 'export NCCL_IB_HCA="mlx5_$SLURM_NODEID"'
    finished = site.run(bundle, behaviour, preflight_retry=True, spare_nodes=1)
    assert (finished.state, finished.exit_code) == ("FAILED", 79), finished.output
    assert "NCCL_IB_HCA is not the same" in finished.output
