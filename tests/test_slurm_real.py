"""Rendered bundles submitted to a real Slurm of 32 pretend nodes with 4 pretend GPUs each.

MaxText is a stand-in that notes its words and its environment; the container is a plugin that
takes pyxis' options and does to the environment what pyxis does. Everything else is real.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
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

HOSTILE = (
    "-w eird 'x' \"$(touch CANARY)\" `touch CANARY` é ; touch CANARY & \n   :, %j \\\n   WorkDir=x"
)

# Notes what MaxText would be given, then does what the bundle's file "behaviour" says.
PYTHON = f"""#!/bin/bash -p
if [ "${{1-}}" = -m ]; then
  printf '%s\\0' "$@" >"$MOECTL_LOGS/words-$SLURM_PROCID"
  env -0 >"$MOECTL_LOGS/environment-$SLURM_PROCID"
  [ ! -f behaviour ] || exec /bin/sh ./behaviour
  exit 0
fi
exec {sys.executable} "$@"
"""
NVIDIA_SMI = """#!/bin/sh
cluster=$(sed -n "s/^$SLURMD_NODENAME //p" {domains})
printf '    Fabric\\n        CliqueId : 1\\n        ClusterUUID : %s\\n' "$cluster"
"""


@dataclass(frozen=True)
class Site:
    """The cluster, and the folder of programs that its users have first on PATH."""

    slurm: Slurm
    programs: Path

    def environment(self, poison: Mapping[str, str]) -> dict[str, str]:
        """Return the submitting shell: PATH with the stand-ins first, and `poison`."""
        path = f"{self.programs}:{self.slurm.environment['PATH']}"
        return {"PATH": path, **poison}

    def submit(
        self, bundle: Path, poison: Mapping[str, str], options: Sequence[str], script: str = ""
    ) -> int:
        """Submit a bundle's script from the folder above it."""
        return self.slurm.submit(
            Path(script or f"{bundle}/launch.sbatch"),
            options=["--output=%j.out", *options],
            cwd=bundle.parent,
            environment=self.environment(poison),
        )

    def wait(self, bundle: Path, job: int) -> Finished:
        return self.slurm.wait(job, bundle.parent / f"{job}.out")

    def run(
        self,
        bundle: Path,
        job: Job,
        *,
        poison: Mapping[str, str] | None = None,
        behaviour: str = "",
        options: Sequence[str] = (),
    ) -> Finished:
        """Write a bundle, submit it and wait for its end."""
        shell.write(bundle, files(job, behaviour))
        return self.wait(bundle, self.submit(bundle, poison or {}, options))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require("slurm-cluster")
    folder = tmp_path_factory.mktemp("programs")
    with cluster(nodes=32, gpus=4, cpus=64) as slurm:
        (folder / "python3").write_text(PYTHON)
        (folder / "nvidia-smi").write_text(NVIDIA_SMI.format(domains=folder / "domains"))
        for name in ("python3", "nvidia-smi"):
            (folder / name).chmod(0o755)
        yield Site(slurm, folder)


@pytest.fixture
def domains(site: Site) -> Iterator[Path]:
    """A file of "NODE UUID" lines, which nvidia-smi of each node goes by."""
    yield site.programs / "domains"
    (site.programs / "domains").unlink(missing_ok=True)


def files(job: Job, behaviour: str = "") -> dict[str, str]:
    written = {"launch.sbatch": launch_script(job), "config.yml": "a: 1\n", **programs(job)}
    return written | ({"behaviour": behaviour} if behaviour else {})


def here(job: Job, **changes: Any) -> Job:
    """Return `job` as this cluster can run it: Debian 12's Slurm has no --segment."""
    return replace(job, cluster=replace(job.cluster, segment=False, cpus_per_task=16, **changes))


def small(nodes: int = 2, **changes: Any) -> Job:
    """Return a job of a few nodes, each a slice."""
    job = jobs.job(jobs.GB200, nodes, slice_gpus=4)
    return replace(here(job), **changes)


def logs(bundle: Path, finished: Finished) -> Path:
    return bundle / "logs" / str(finished.job)


def seen(bundle: Path, finished: Finished, rank: int) -> dict[str, str]:
    entries = shell.words(logs(bundle, finished) / f"environment-{rank}")
    pairs = (entry.partition("=") for entry in entries)
    return {name: value for name, _, value in pairs}


def canaries(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in folder.rglob("CANARY")]


def test_128_processes_on_32_nodes_are_what_the_job_says(site: Site, tmp_path: Path) -> None:
    (tmp_path / "env.sh").write_text(f"touch {tmp_path}/CANARY\n")
    poison = {
        "M_STEPS": "7",
        "XLA_FLAGS": "--xla_nonsense",
        "NCCL_ALGO": "Ring",
        "NCCL_DEBUG": "TRACE",
        "PYTHONPATH": "/evil",
        "JAX_PLATFORMS": "cpu",
        "BASH_ENV": str(tmp_path / "env.sh"),
        "BASH_FUNC_srun%%": f"() {{ touch {tmp_path}/CANARY; }}",
        "SLURM_TASK_PROLOG": str(tmp_path / "env.sh"),
        "SLURM_CPU_BIND": "map_cpu:0",
        "SLURM_GPUS_PER_TASK": "1",
        "HF_TOKEN": "hf S3CRET,\nM_OTHER=1",
        "WANDB_API_KEY": "S3CRET",
        "NOT_DECLARED": "x",
    }
    job = here(replace(jobs.deepseek(), secrets=("HF_TOKEN", "WANDB_API_KEY")))
    bundle = tmp_path / "bundle"
    finished = site.run(bundle, job, poison=poison, options=["--export=ALL"])
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output

    environments = [seen(bundle, finished, rank) for rank in range(128)]
    for rank, environment in enumerate(environments):
        assert environment["SLURM_PROCID"] == str(rank)
        assert environment["SLURMD_NODENAME"] == f"gpu{rank // 4:03d}"
        assert environment["SLURM_LOCALID"] == str(rank % 4)
        assert environment["JAX_PARTITION_INDEX"] == str(rank // 64)
        assert environment["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"
    for name in ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT", "XLA_FLAGS", "PATH"):
        assert len({environment[name] for environment in environments}) == 1
    first = environments[0]
    assert first["JAX_COORDINATOR_ADDRESS"] == f"gpu000:{first['JAX_COORDINATOR_PORT']}"
    assert first["XLA_FLAGS"] == (
        "--xla_gpu_enable_latency_hiding_scheduler=true "
        "--xla_gpu_all_reduce_combine_threshold_bytes=33554432 "
        "--xla_gpu_all_gather_combine_threshold_bytes=6442450944 "
        "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUDNN,DYNAMIC_SLICE_FUSION "
        "--xla_gpu_experimental_max_unroll_factor=8 --xla_gpu_memory_limit_slop_factor=99"
    )
    assert first["NCCL_DEBUG"] == "WARN"
    assert first["JAX_PLATFORMS"] == "cuda,cpu"
    assert first["HF_TOKEN"] == poison["HF_TOKEN"]

    declared = {"XLA_FLAGS", "NCCL_DEBUG", "JAX_PLATFORMS", "HF_TOKEN", "WANDB_API_KEY"}
    for environment in environments:
        # srun sets SLURM_CPU_BIND anew, from what the script asks for
        assert environment["SLURM_CPU_BIND"] != poison["SLURM_CPU_BIND"]
        assert set(poison) & set(environment) - {"SLURM_CPU_BIND"} == declared
        assert not [name for name in environment if name.startswith(("M_", "BASH_FUNC"))]
    assert canaries(tmp_path) == []

    named = first["PYXIS_STUB_CONTAINER_ENV"].split(",")
    assert {*programs_variables(job), "WANDB_API_KEY"} <= set(named)
    assert "HF_TOKEN" not in named  # two lines, which enroot would take for two variables
    assert first["PYXIS_STUB_CONTAINER_IMAGE"] == "ghcr.io#nvidia/jax:maxtext-2026-09-09"
    assert first["PYXIS_STUB_CONTAINER_MOUNTS"] == "./:/moectl"

    record = json.loads((logs(bundle, finished) / "as-run.json").read_text())
    assert [len(each["nodes"]) for each in record["slices"]] == [16, 16]
    assert record["environment"]["JAX_PARTITION_INDEX"] == "0"
    assert {"HF_TOKEN", "WANDB_API_KEY"} <= set(record["withheld"])
    kept = [path for path in bundle.rglob("*") if path.is_file()]
    told = [path for path in kept if "S3CRET" in path.read_text("utf-8", "replace")]
    assert {path.name.partition("-")[0] for path in told} == {"environment"}  # the stand-in's own
    assert "S3CRET" not in finished.output
    words = shell.words(logs(bundle, finished) / "words-127")
    assert words == ["-m", "maxtext.trainers.pre_train.train", "config.yml"]


def programs_variables(job: Job) -> set[str]:
    return {*job.environment, "XLA_FLAGS", "JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT"}


def test_declared_values_win_over_those_baked_into_the_image(site: Site, tmp_path: Path) -> None:
    baked = "XLA_FLAGS=--xla_baked\nNCCL_DEBUG=VERSION\nPYTHONPATH=/image\nJAX_PLATFORMS=cpu\n"
    site.slurm.image_environment.write_text(baked)
    try:
        job = small(environment=jobs.said({"NCCL_DEBUG": "INFO"}))
        finished = site.run(tmp_path / "b", job)
    finally:
        site.slurm.image_environment.write_text("")
    environment = seen(tmp_path / "b", finished, 5)
    assert environment["XLA_FLAGS"] == "--xla_gpu_enable_latency_hiding_scheduler=true"
    assert environment["NCCL_DEBUG"] == "INFO"
    assert environment["PYTHONPATH"] == "/image"
    assert environment["JAX_PLATFORMS"] == "cpu"


FAIL = """
case $SLURM_PROCID in
  5) sleep 0.3; exit 3 ;;
  2) sleep 0.6; exit 99 ;;
esac
trap 'exit 77' TERM
sleep 30 & wait
"""


def test_the_job_ends_with_the_code_of_the_first_process_that_failed(
    site: Site, tmp_path: Path
) -> None:
    finished = site.run(tmp_path / "b", small(), behaviour=FAIL)
    assert (finished.state, finished.exit_code) == ("FAILED", 3)
    assert "rank 5 on gpu001 failed first, with exit code 3" in finished.output
    assert "/rank-5.log" in finished.output


def test_a_process_that_dies_of_a_signal_ends_the_job_with_it(site: Site, tmp_path: Path) -> None:
    behaviour = '[ "$SLURM_PROCID" != 6 ] || kill -ABRT $$\nsleep 30'
    finished = site.run(tmp_path / "b", small(), behaviour=behaviour)
    assert finished.exit_code == 134
    assert "rank 6 on gpu001 failed first" in finished.output


def test_a_signal_reaches_the_process_which_may_take_its_time(site: Site, tmp_path: Path) -> None:
    behaviour = """
trap 'sleep 0.5; touch "$MOECTL_LOGS/saved-$SLURM_PROCID"; exit 0' TERM
touch "$MOECTL_LOGS/ready-$SLURM_PROCID"
while :; do sleep 0.1; done
"""
    bundle = tmp_path / "b"
    shell.write(bundle, files(small(), behaviour))
    job = site.submit(bundle, {}, [])
    folder = bundle / "logs" / str(job)
    deadline = time.monotonic() + 60
    while len(list(folder.glob("ready-*"))) < 8 and time.monotonic() < deadline:
        time.sleep(0.05)
    site.slurm.run("scancel", "--signal=TERM", str(job))
    finished = site.wait(bundle, job)
    assert len(list(folder.glob("saved-*"))) == 8
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output


def racks(*sizes: int) -> str:
    names = [f"7e3a000{rack}-aaaa" for rack, size in enumerate(sizes) for _ in range(size)]
    return "".join(f"gpu{index:03d} {name}\n" for index, name in enumerate(names))


def test_18_and_14_nodes_stop_before_maxtext_with_the_arithmetic(
    site: Site, domains: Path, tmp_path: Path
) -> None:
    domains.write_text(racks(18, 14))
    finished = site.run(tmp_path / "b", here(jobs.deepseek()))
    assert (finished.state, finished.exit_code) == ("FAILED", 78)
    assert "NVLink domains of 18 + 14" in finished.output
    assert "18 = 1 x 16 + 2, 14 = 0 x 16 + 14" in finished.output
    assert "--segment=16" in finished.output
    assert not list(logs(tmp_path / "b", finished).glob("rank-*"))


def test_ranks_follow_the_domains_and_rank_0_stays_on_the_first_node(
    site: Site, domains: Path, tmp_path: Path
) -> None:
    # every second node in the other rack
    lines = [f"gpu{index:03d} rack{index % 2}a" for index in range(32)]
    domains.write_text("\n".join(lines))
    bundle = tmp_path / "b"
    finished = site.run(bundle, here(jobs.deepseek()))
    assert finished.exit_code == 0, finished.output
    assert "ranks follow the domains" in finished.output
    for rank in range(128):
        environment = seen(bundle, finished, rank)
        rack, place = divmod(rank // 4, 16)
        assert environment["SLURMD_NODENAME"] == f"gpu{2 * place + rack:03d}"
        assert environment["JAX_PARTITION_INDEX"] == str(rack)
        assert environment["SLURM_LOCALID"] == str(rank % 4)
        assert environment["JAX_COORDINATOR_ADDRESS"].startswith("gpu000:")


def test_two_jobs_on_the_same_nodes_take_different_ports(site: Site, tmp_path: Path) -> None:
    job = small(
        cluster=Cluster(
            runtime="none", gpu_request="none", exclusive=False, memory="", cpus_per_task=1
        )
    )
    first, second = tmp_path / "first", tmp_path / "second"
    for bundle in (first, second):
        shell.write(bundle, files(job, "while [ ! -f ../go ]; do sleep 0.05; done"))
    nodes = ["--nodelist=gpu[000-001]"]
    submitted = [site.submit(bundle, {}, nodes) for bundle in (first, second)]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not all(
        (bundle / "logs" / str(job) / "environment-7").is_file()
        for bundle, job in zip((first, second), submitted, strict=True)
    ):
        time.sleep(0.05)
    (tmp_path / "go").touch()
    finished = [
        site.wait(bundle, job) for bundle, job in zip((first, second), submitted, strict=True)
    ]
    assert [each.exit_code for each in finished] == [0, 0]
    environments = [seen(first, finished[0], 0), seen(second, finished[1], 0)]
    assert {each["SLURMD_NODENAME"] for each in environments} == {"gpu000"}
    ports = [int(each["JAX_COORDINATOR_PORT"]) for each in environments]
    assert len(set(ports)) == 2
    assert all(20480 <= port < 28672 for port in ports)
    assert not [port for port in ports if Path(f"/tmp/moectl-port-{port}.lock").exists()]  # noqa: S108


def test_a_port_that_is_held_or_listened_on_is_passed_over(site: Site, tmp_path: Path) -> None:
    import fcntl  # noqa: PLC0415
    import socket  # noqa: PLC0415

    bundle = tmp_path / "b"
    job = small(nodes=1, cluster=Cluster(runtime="none", gpu_request="none", cpus_per_task=1))
    probe = site.run(bundle, job)
    following = probe.job + 1
    held, heard = (20480 + (following + step) % 8192 for step in (0, 1))
    with (
        Path(f"/tmp/moectl-port-{held}.lock").open("a") as lock,  # noqa: S108 - where the script has it
        socket.create_server(("127.0.0.1", heard)),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        finished = site.run(tmp_path / "c", job)
        Path(lock.name).unlink()
    assert finished.job == following
    port = int(seen(tmp_path / "c", finished, 0)["JAX_COORDINATOR_PORT"])
    assert port == 20480 + (following + 2) % 8192


@pytest.mark.parametrize("way", ["absolute", "relative", "piped", "inside"])
def test_the_bundle_is_found_whatever_its_folder_is_called(
    way: str, site: Site, tmp_path: Path
) -> None:
    bundle = tmp_path / HOSTILE
    job = small(
        nodes=1,
        name="-n 'x' \"q\" $(touch CANARY) `touch CANARY` #h é\\",
        arguments=jobs.said({"run_name": HOSTILE}),
        environment=jobs.said({"A": "$(touch CANARY) 'x' \"y\" `z`"}),
    )
    shell.write(bundle, files(job))
    slurm = site.slurm
    options = ["--parsable", f"--output={tmp_path}/%j.out"]
    words, cwd = {
        "absolute": ([str(bundle / "launch.sbatch")], tmp_path),
        "relative": ([f"./{HOSTILE}/launch.sbatch"], tmp_path),
        "inside": (["launch.sbatch"], bundle),
        "piped": (["/dev/stdin"], bundle),
    }[way]
    if way == "piped":
        words = []
        done = slurm.run(
            "/bin/sh",
            "-c",
            'sbatch "$@" <launch.sbatch',
            "sh",
            *options,
            cwd=cwd,
            environment=site.environment({}),
        )
    else:
        done = slurm.run("sbatch", *options, *words, cwd=cwd, environment=site.environment({}))
    assert done.returncode == 0, done.stderr
    number = int(done.stdout)
    finished = slurm.wait(number, tmp_path / f"{number}.out")
    assert finished.exit_code == 0, finished.output
    environment = seen(bundle, finished, 3)
    assert environment["A"] == "$(touch CANARY) 'x' \"y\" `z`"
    assert environment["PWD"] == str(bundle)
    assert environment["SLURM_JOB_NAME"] == job.name
    word = shell.words(logs(bundle, finished) / "words-3")[3]
    assert word.startswith("run_name=")
    assert canaries(tmp_path, site.slurm.root) == []
    assert sorted(path.name for path in logs(bundle, finished).glob("rank-*")) == [
        f"rank-{rank}.log" for rank in range(4)
    ]


def test_a_bundle_rendered_again_since_sbatch_stops_the_job(site: Site, tmp_path: Path) -> None:
    bundle = tmp_path / "b"
    shell.write(bundle, files(small(nodes=1)))
    job = site.submit(bundle, {}, ["--hold"])
    shell.write(bundle, files(small(nodes=1, title="another")))
    site.slurm.run("scontrol", "release", str(job))
    finished = site.wait(bundle, job)
    assert finished.exit_code == 78
    assert re.search(r"not in .*/b, or was rendered again since sbatch", finished.output)


def test_a_missing_secret_stops_the_job_by_name(site: Site, tmp_path: Path) -> None:
    finished = site.run(tmp_path / "b", small(nodes=1, secrets=("HF_TOKEN",)))
    assert finished.exit_code == 78
    assert "HF_TOKEN" in finished.output
    assert not (tmp_path / "b/logs").exists()


def test_a_submission_without_environment_runs_as_well(site: Site, tmp_path: Path) -> None:
    finished = site.run(
        tmp_path / "b",
        small(nodes=1, cluster=Cluster(runtime="none", python=str(site.programs / "python3"))),
        options=["--export=NONE"],
    )
    assert finished.exit_code == 0, finished.output
    assert seen(tmp_path / "b", finished, 0)["JAX_PARTITION_INDEX"] == "0"


JAX = """
import jax, json
from jax._src import distributed
jax.distributed.initialize()
print(json.dumps({
    "processes": jax.process_count(),
    "process": jax.process_index(),
    "devices": jax.device_count(),
    "partition": distributed.global_state.partition_index,
    "coordinator": distributed.global_state.coordinator_address,
}))
jax.distributed.shutdown()
"""


def test_jax_finds_its_peers_and_its_slices(site: Site, tmp_path: Path) -> None:
    python = require("maxtext")
    stand_in = tmp_path / "python"
    (tmp_path / "peers.py").write_text(JAX)
    stand_in.write_text(
        f'#!/bin/sh\ncase $1 in -m) exec {python} {tmp_path}/peers.py ;; esac\nexec {python} "$@"\n'
    )
    stand_in.chmod(0o755)
    hardware = replace(jobs.GB200, gpus_per_node=2, domain_gpus=2, usable_domain_gpus=2)
    job = replace(
        jobs.job(hardware, 2, slice_gpus=2),
        environment=jobs.said({"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}),
        cluster=Cluster(runtime="none", gpu_request="none", python=str(stand_in)),
    )
    bundle = tmp_path / "b"
    finished = site.run(bundle, job)
    assert finished.exit_code == 0, finished.output
    coordinators = set()
    for rank in range(4):
        text = (logs(bundle, finished) / f"rank-{rank}.log").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("{")]
        said = json.loads(line)
        coordinators.add(said.pop("coordinator"))
        # devices of the CPU backend all say slice 0, so this asks what JAX took the variable for
        assert said == {"processes": 4, "process": rank, "devices": 4, "partition": rank // 2}
    assert coordinators == {seen_coordinator(finished)}


def seen_coordinator(finished: Finished) -> str:
    """Return the address the batch script printed."""
    match = re.search(r"coordinator (\S+)", finished.output)
    assert match
    return match[1]
