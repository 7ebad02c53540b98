"""Spare nodes and apptainer under a real Slurm of 8 pretend nodes.

MaxText is a stand-in that notes its words and its environment; apptainer is a double, a program
of that name that does to the environment what apptainer does and then runs what it is given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moectl.job import Checkout, Cluster, Container, Job, Mount
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs, shell
from tests.support.components import require
from tests.support.slurm import Finished, Slurm, cluster

PYTHON = f"""#!/bin/bash -p
if [ "${{1-}}" = -m ]; then
  env -0 >"$MOECTL_LOGS/environment-$SLURM_PROCID"
  pwd >"$MOECTL_LOGS/folder-$SLURM_PROCID"
  exit 0
fi
exec {sys.executable} "$@"
"""
NVIDIA_SMI = """#!/bin/sh
cluster=$(sed -n "s/^$SLURMD_NODENAME //p" {domains})
[ -n "$cluster" ] || exit 9
printf '    Fabric\\n        CliqueId : 1\\n        ClusterUUID : %s\\n' "$cluster"
"""
# --cleanenv drops the environment; what APPTAINERENV_ names comes last, over the image's own.
APPTAINER = """#!/bin/bash -p
printf '%s\\0' "$0" "$@" >"$MOECTL_LOGS/apptainer-$SLURM_PROCID"
while IFS= read -r name; do
  case $name in
    APPTAINERENV_*) kept+=("${name#APPTAINERENV_}=${!name}") ;;
  esac
done < <(compgen -e)
while [ "${1-}" != /bin/sh ]; do shift; done
exec env -i PATH="$PATH" NCCL_DEBUG=TRACE FROM_IMAGE=yes "${kept[@]}" "$@"
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require("slurm-cluster")
    with cluster(nodes=8, gpus=4, cpus=64) as found:
        folder = found.root / "programs"
        folder.mkdir()
        stand_ins = {
            "python3": PYTHON,
            "nvidia-smi": NVIDIA_SMI.format(domains=folder / "domains"),
            "apptainer": APPTAINER,
        }
        for name, text in stand_ins.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        yield found


def run(slurm: Slurm, bundle: Path, job: Job, domains: str = "", **poison: str) -> Finished:
    files = {"launch.sbatch": launch_script(job), "config.yml": "a: 1\n", **programs(job)}
    shell.write(bundle, files)
    (slurm.root / "programs" / "domains").write_text(domains)
    path = f"{slurm.root / 'programs'}:{slurm.environment['PATH']}"
    number = slurm.submit(
        bundle / "launch.sbatch",
        options=["--output=%j.out"],
        cwd=bundle.parent,
        environment={"PATH": path, **poison},
    )
    return slurm.wait(number, bundle.parent / f"{number}.out")


def racks(text: str) -> str:
    return "".join(f"gpu{index:03d} 7e3a000{rack}-aa\n" for index, rack in enumerate(text))


def small(slices: int, nodes_per_slice: int, **changes: Any) -> Job:
    site = Cluster(runtime="none", cpus_per_task=16, segment=False)
    job = jobs.job(jobs.GB200, slices * nodes_per_slice, slice_gpus=nodes_per_slice * 4)
    return replace(job, cluster=replace(site, **changes))


def seen(bundle: Path, finished: Finished, rank: int) -> dict[str, str]:
    entries = shell.words(bundle / "logs" / str(finished.job) / f"environment-{rank}")
    return {name: value for name, _, value in (entry.partition("=") for entry in entries)}


def test_placement_picks_whole_slices_among_more_nodes(slurm: Slurm, tmp_path: Path) -> None:
    bundle = tmp_path / "b"
    job = small(2, 2, spare_nodes=2)
    # six nodes: three in a rack, one alone, two in another
    finished = run(slurm, bundle, job, racks("000122"))
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output
    assert "4 nodes in 2 NVLink domains (NVLink cliques), 2 slices, 2 nodes spare" in (
        finished.output
    )
    nodes = [seen(bundle, finished, rank)["SLURMD_NODENAME"] for rank in range(16)]
    assert nodes == [f"gpu{node:03d}" for node in (0, 1, 4, 5) for _ in range(4)]
    first = seen(bundle, finished, 0)
    assert first["SLURM_NTASKS"] == "16"
    assert first["SLURM_STEP_NUM_NODES"] == "4"
    assert first["JAX_COORDINATOR_ADDRESS"].startswith("gpu000:")
    assert seen(bundle, finished, 15)["JAX_PARTITION_INDEX"] == "1"
    logs = bundle / "logs" / str(finished.job)
    assert len(list(logs.glob("rank-*.log"))) == 16


def test_too_few_whole_slices_stop_the_job_before_it_trains(slurm: Slurm, tmp_path: Path) -> None:
    bundle = tmp_path / "b"
    finished = run(slurm, bundle, small(2, 2, spare_nodes=1), racks("00012"))
    assert (finished.state, finished.exit_code) == ("FAILED", 78)
    assert "2 x 2 nodes of one NVLink domain each are wanted" in finished.output
    assert "domains of 3 + 1 + 1 (NVLink cliques), which makes 1" in finished.output
    assert not list((bundle / "logs").rglob("rank-*"))


def contained(**changes: Any) -> Job:
    job = replace(
        small(1, 2, runtime="apptainer", spare_nodes=1),
        environment=jobs.said({"NCCL_DEBUG": "WARN", "HOSTILE": "a 'b' \"c\" $(touch CANARY) `d`"}),
        secrets=("HF_TOKEN",),
        container=Container(
            jobs.IMAGE,
            (Mount("/data/it's", "/data", read_only=True),),
            (Checkout("maxtext", "/src/max text"),),
        ),
    )
    return replace(job, **changes)


def test_apptainer_gets_image_mounts_and_the_environment_of_the_job(
    slurm: Slurm, tmp_path: Path
) -> None:
    bundle = tmp_path / "b, with: 'signs'"
    job = contained()
    poison = {"HF_TOKEN": "S3CRET\nx", "NOT_DECLARED": "x", "SLURM_$(touch CANARY)": "x"}
    finished = run(slurm, bundle, job, **poison)  # no node can tell its domain
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output
    for rank in range(8):
        inside = seen(bundle, finished, rank)
        assert inside["SLURM_PROCID"] == str(rank)
        assert inside["SLURM_LOCALID"] == str(rank % 4)
        assert inside["SLURMD_NODENAME"] == f"gpu{rank // 4:03d}"
        assert inside["SLURM_NTASKS"] == "8"
        assert inside["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
        assert inside["NCCL_DEBUG"] == "WARN"  # over what the image says
        assert inside["FROM_IMAGE"] == "yes"
        assert inside["HOSTILE"] == "a 'b' \"c\" $(touch CANARY) `d`"
        assert inside["HF_TOKEN"] == poison["HF_TOKEN"]
        assert inside["XLA_FLAGS"] == "--xla_gpu_enable_latency_hiding_scheduler=true"
        assert inside["JAX_PARTITION_INDEX"] == "0"
        assert "NOT_DECLARED" not in inside
        assert "HOME" not in inside
    logs = bundle / "logs" / str(finished.job)
    words = shell.words(logs / "apptainer-3")
    assert words[0].endswith("/apptainer")
    assert words[1:] == [
        "exec",
        "--nv",
        "--cleanenv",
        "--no-home",
        "--writable-tmpfs",
        "--bind",
        "./:/moectl,/data/it's:/data:ro,/src/max text:/moectl-source/maxtext:ro",
        "--pwd",
        "/moectl",
        "docker://ghcr.io/nvidia/jax:maxtext-2026-09-09",
        "/bin/sh",
        "./rank.sh",
    ]
    assert (logs / "folder-3").read_text().rstrip("\n") == str(bundle)
    assert not list(tmp_path.rglob("CANARY"))
    for path in tmp_path.rglob("*"):
        if path.is_file() and not path.name.startswith("environment-"):
            assert b"S3CRET" not in path.read_bytes(), path


def test_a_missing_imported_image_stops_the_job_with_how_to_get_it(
    slurm: Slurm, tmp_path: Path
) -> None:
    job = contained(secrets=())
    folder = tmp_path / "images"
    job = replace(
        job, cluster=replace(job.cluster, image_folder=str(folder), architecture="aarch64")
    )
    finished = run(slurm, tmp_path / "b", job)
    file = f"{folder}/ghcr.io+nvidia+jax=maxtext-2026-09-09+aarch64.sqsh"
    assert finished.exit_code == 78
    assert f"there is no image {file}" in finished.output
    assert "moectl image pull ghcr.io/nvidia/jax:maxtext-2026-09-09" in finished.output
    assert not list((tmp_path / "b" / "logs").rglob("rank-*"))
