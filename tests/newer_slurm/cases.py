"""What is done under the newer Slurm; each case returns what it saw, or an assertion fails.

36 nodes of 4 pretend GPUs in two blocks of 18, as two NVL72 racks. MaxText is a stand-in that
notes its environment; a pyxis stand-in parses what srun is given.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from moectl import placement
from moectl.job import Job
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs, shell
from tests.support.slurm import Finished
from tests.support.slurm_newer import NewerSlurm, newer

Case = Callable[[NewerSlurm, Path], str]
PYTHON = """#!/bin/bash -p
if [ "${1-}" = -m ]; then
  env -0 >"$MOECTL_LOGS/environment-$SLURM_PROCID"
  exit 0
fi
exec /usr/bin/python3 "$@"
"""
WHERE = 'echo "$SLURMD_NODENAME $SLURM_TOPOLOGY_ADDR"'
POISON = {"M_STEPS": "7", "XLA_FLAGS": "--xla_nonsense", "NCCL_ALGO": "Ring", "JAX_PLATFORMS": "x"}


def run(slurm: NewerSlurm, bundle: Path, job: Job) -> Finished:
    """Submit a bundle from a shell that holds what must not arrive, and wait for its end."""
    stand_ins = slurm.root / "programs"
    stand_ins.mkdir(exist_ok=True)
    (stand_ins / "python3").write_text(PYTHON)
    (stand_ins / "python3").chmod(0o755)
    files = {"launch.sbatch": launch_script(job), "config.yml": "a: 1\n", **programs(job)}
    shell.write(bundle, files)
    environment = {"PATH": f"{stand_ins}:{slurm.environment['PATH']}", **POISON}
    number = slurm.submit(
        bundle / "launch.sbatch",
        options=["--output=%j.out"],
        cwd=bundle.parent,
        environment=environment,
    )
    return slurm.wait(number, bundle.parent / f"{number}.out", limit=300)


def rank(bundle: Path, finished: Finished, number: int) -> dict[str, str]:
    entries = shell.words(bundle / "logs" / str(finished.job) / f"environment-{number}")
    return {name: value for name, _, value in (entry.partition("=") for entry in entries)}


def in_blocks(slurm: NewerSlurm, *words: str) -> tuple[int, str, dict[str, int]]:
    """Return srun's exit code, its words, and nodes by block."""
    done = slurm.run("srun", "--mpi=none", *words, "sh", "-c", WHERE)
    blocks = Counter(line.split()[1].split(".")[0] for line in done.stdout.splitlines())
    return done.returncode, " ".join(done.stderr.split()), dict(sorted(blocks.items()))


def deepseek(**changes: object) -> Job:
    job = jobs.deepseek()
    return replace(job, cluster=replace(job.cluster, memory="", **changes))  # type: ignore[arg-type]


def a_test_of_segments_is_answered(slurm: NewerSlurm, folder: Path) -> str:
    job = deepseek()
    (folder / "launch.sbatch").write_text(launch_script(job))
    done = slurm.run("sbatch", "--test-only", str(folder / "launch.sbatch"), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "using" in done.stderr
    assert "gpu[000-015,018-033]" in done.stderr
    return done.stderr.strip().split(": ", 1)[1].partition(" in partition")[0]


def segments_smaller_than_a_block(slurm: NewerSlurm, folder: Path) -> str:
    seen = []
    for nodes, segment in ((32, 16), (24, 12), (8, 4), (36, 18)):
        code, said, blocks = in_blocks(slurm, f"--nodes={nodes}", f"--segment={segment}")
        assert code == 0, said
        assert sum(blocks.values()) == nodes
        assert all(count % segment == 0 for count in blocks.values()), blocks
        share = " + ".join(str(count) for count in blocks.values())
        seen.append(f"{nodes} nodes by {segment}: {share}")
    return "; ".join(seen)


def nodes_that_are_no_whole_segments_are_refused(slurm: NewerSlurm, folder: Path) -> str:
    code, said, _ = in_blocks(slurm, "--nodes=32", "--segment=12")
    assert code != 0
    assert "not available" in said
    return said


def a_segment_larger_than_a_block(slurm: NewerSlurm, folder: Path) -> str:
    """Measured as it is: whether it is accepted depends on BlockSizes."""
    seen = []
    code, said, blocks = in_blocks(slurm, "--nodes=20", "--segment=20")
    assert code != 0
    seen.append(f"20 nodes by 20 with BlockSizes=18: {said}")
    with newer(2, 4, sizes=(4, 8)) as small:
        code, said, blocks = in_blocks(small, "--nodes=8", "--segment=8")
        shares = " + ".join(str(count) for count in blocks.values())
        seen.append(f"8 nodes by 8 with BlockSizes=4,8: {said if code else shares}")
    return "; ".join(seen)


def a_rendered_bundle_runs_and_every_rank_is_in_its_slice(slurm: NewerSlurm, folder: Path) -> str:
    finished = run(slurm, folder / "b", deepseek())
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output
    assert "32 nodes in 2 NVLink domains (topology blocks), 2 slices" in finished.output
    blocks: dict[str, set[str]] = {}
    for number in range(128):
        seen = rank(folder / "b", finished, number)
        assert seen["SLURM_PROCID"] == str(number)
        assert seen["SLURM_LOCALID"] == str(number % 4)
        assert seen["JAX_PARTITION_INDEX"] == str(number // 64)
        assert seen["NCCL_DEBUG"] == "WARN"
        assert seen["XLA_FLAGS"].startswith("--xla_gpu_enable_latency_hiding_scheduler=true ")
        assert seen["JAX_PLATFORMS"] == "cuda,cpu"
        assert not {"M_STEPS", "NCCL_ALGO"} & set(seen)
        assert seen["PYXIS_STUB_CONTAINER_MOUNTS"] == "./:/moectl"
        assert "JAX_COORDINATOR_ADDRESS" in seen["PYXIS_STUB_CONTAINER_ENV"].split(",")
        block = "block0" if int(seen["SLURMD_NODENAME"][3:]) < 18 else "block1"
        blocks.setdefault(seen["JAX_PARTITION_INDEX"], set()).add(block)
    assert sorted(len(each) for each in blocks.values()) == [1, 1], blocks
    return "128 ranks of 128 with their own environment; each of 2 slices in one block"


def spare_nodes_come_by_the_segment_and_carry_nothing(slurm: NewerSlurm, folder: Path) -> str:
    job = deepseek(spare_nodes=2)
    assert placement.ask(job).segment == 17
    finished = run(slurm, folder / "b", job)
    assert (finished.state, finished.exit_code) == ("COMPLETED", 0), finished.output
    assert "2 nodes spare" in finished.output
    logs = folder / "b" / "logs" / str(finished.job)
    domains = (logs / "domains").read_text().splitlines()
    nodes = [line.split() for line in (logs / "nodes").read_text().splitlines()]
    assert (len(domains), len(nodes)) == (34, 32)
    shares = Counter((slice_index, block) for _, slice_index, block in nodes)
    assert sorted(shares.values()) == [16, 16], shares
    return f"34 nodes by 17 asked for, 32 run: {dict(Counter(row[2] for row in nodes))}"


def a_preflight_without_jax_ends_the_job(slurm: NewerSlurm, folder: Path) -> str:
    """The root file system has no JAX, so every process fails in the same way."""
    finished = run(slurm, folder / "b", deepseek(preflight=True))
    assert (finished.state, finished.exit_code) == ("FAILED", 79), finished.output
    logs = folder / "b" / "logs" / str(finished.job)
    said = json.loads((logs / "preflight.json").read_text())
    (fault,) = said["faults"]
    assert (fault["kind"], len(fault["ranks"]), fault["nodes"]) == ("failed", 128, [])
    assert not list(logs.glob("environment-*"))
    return f"exit code 79 before training; all 128 ranks: {fault['what']}"


CASES: tuple[Case, ...] = (
    a_test_of_segments_is_answered,
    segments_smaller_than_a_block,
    nodes_that_are_no_whole_segments_are_refused,
    a_segment_larger_than_a_block,
    a_rendered_bundle_runs_and_every_rank_is_in_its_slice,
    spare_nodes_come_by_the_segment_and_carry_nothing,
    a_preflight_without_jax_ends_the_job,
)
