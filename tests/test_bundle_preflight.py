"""How the processes of a preflight are arranged, and what one of them does."""

from __future__ import annotations

import ast
import json
import re
import sys
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.job import Cluster
from moectl.render import preflight, templates
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs, shell
from tests.support.preflight import program

NAMES = ("preflight.py", "preflight_judge.py")


@pytest.mark.parametrize("name", NAMES)
def test_the_programs_are_of_python_3_8_and_bring_what_they_need(name: str) -> None:
    tree = ast.parse(templates.source(name), feature_version=(3, 8))
    at_start = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    later = {
        (node.module or "").partition(".")[0]
        if isinstance(node, ast.ImportFrom)
        else alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {module.partition(".")[0] for module in at_start} <= set(sys.stdlib_module_names)
    allowed = {"jax", "numpy"} if name == "preflight.py" else set()
    assert later - set(sys.stdlib_module_names) == allowed


@pytest.mark.parametrize("name", NAMES)
def test_the_programs_hold_nothing_for_tests(name: str) -> None:
    text = templates.source(name).lower()
    assert re.search(r"\b(test|pytest|mock|fake)\b", text) is None


def test_the_plan_is_filled_in_and_only_where_it_is_asked_for() -> None:
    job = jobs.deepseek()
    assert not set(NAMES) & set(programs(job))
    job = replace(job, cluster=replace(job.cluster, preflight=True), secrets=("HF_TOKEN",))
    for name in NAMES:
        space: dict[str, Any] = {"__name__": name}
        exec(compile(programs(job)[name], name, "exec"), space)  # noqa: S102 - our own program
        assert space["PLAN"] == preflight.plan(job)
    plan = preflight.plan(job)
    assert (plan["dcn"], plan["ici"]) == ([("fsdp", 2)], [("fsdp", 8), ("expert", 8)])
    assert plan["environment"]["NCCL_DEBUG"] == "WARN"
    assert plan["secrets"] == ["HF_TOKEN"]


def test_a_folder_of_an_object_store_is_not_looked_at() -> None:
    job = replace(jobs.deepseek(), output_directory="gs://bucket/x", cache_directory="/cache")
    assert preflight.plan(job)["folders"] == ["/cache"]


# ---- The mesh ---------------------------------------------------------------------------------


@given(
    st.lists(st.integers(2, 4), max_size=2),
    st.lists(st.integers(2, 4), min_size=1, max_size=3),
    st.sampled_from([1, 2, 4]),
)
def test_every_axis_cuts_the_ranks_into_groups_that_differ_in_it_alone(
    dcn: list[int], ici: list[int], per_node: int
) -> None:
    shape = [*dcn, *ici]
    ranks = prod(shape) * per_node
    shape.append(per_node)
    axes = [(f"a{index}", degree) for index, degree in enumerate(shape)]
    plan = {"ranks": ranks, "per_node": per_node, "dcn": axes[: len(dcn)], "ici": axes[len(dcn) :]}
    found = [
        row
        for row in program("preflight").arrangements(plan)
        if not row[0].startswith("neighbours")
    ]

    def place(rank: int) -> list[int]:
        return [rank // prod(shape[index + 1 :]) % shape[index] for index in range(len(shape))]

    assert [title.split()[1] for title, _ in found] == [name for name, _ in axes]
    for index, (_, groups) in enumerate(found):
        assert sorted(rank for group in groups for rank in group) == list(range(ranks))
        for group in groups:
            assert [place(rank)[index] for rank in group] == list(range(shape[index]))
            others = {tuple(v for i, v in enumerate(place(r)) if i != index) for r in group}
            assert len(others) == 1


@given(st.integers(1, 40), st.integers(1, 8))
def test_neighbours_are_pairs_of_nodes_and_every_node_has_two(nodes: int, per_node: int) -> None:
    plan = {"ranks": nodes * per_node, "per_node": per_node, "dcn": [], "ici": []}
    found = program("preflight").arrangements(plan)
    assert len(found) == (2 if nodes >= 4 else 0)
    seen: dict[int, set[int]] = {}
    for _, groups in found:
        members = [rank for group in groups for rank in group]
        assert len(members) == len(set(members)) == nodes // 2 * 2 * per_node
        for a, b in groups:
            assert a % per_node == b % per_node
            seen.setdefault(a // per_node, set()).add(b // per_node)
            seen.setdefault(b // per_node, set()).add(a // per_node)
    for node, others in seen.items():
        assert others <= {(node - 1) % nodes, (node + 1) % nodes}
    if found:
        assert set(seen) == set(range(nodes))
        assert sum(len(others) == 2 for others in seen.values()) >= nodes - 2


# ---- One process --------------------------------------------------------------------------------


def test_variables_are_kept_without_secrets_and_hashed_without_what_differs_by_rank() -> None:
    watched = program("preflight").watched
    values = {"XLA_FLAGS": "--a", "NCCL_SECRET": "x", "HOME": "/", "JAX_PARTITION_INDEX": "0"}
    kept, digest = watched(values)
    assert kept == {"XLA_FLAGS": "--a", "JAX_PARTITION_INDEX": "0"}
    assert watched(values | {"JAX_PARTITION_INDEX": "1", "HOME": "/x"})[1] == digest
    assert watched(values | {"XLA_FLAGS": "--b"})[1] != digest


SMI = r"""#!/bin/sh
rest='2062, 1200.00, Enabled, Disabled, 4, 1980, 33'
case "$1" in
  --query-gpu=*)
    for index in 0 1; do
      echo "$index, GPU-$index$index, NVIDIA GB200, 189471, 580.1, $rest, $index"
    done ;;
  nvlink) printf 'GPU 0: x\n\t Link 0: 50 GB/s\n\t Link 1: <inactive>\n\t Link 2: 50 GB/s\n' ;;
  -q) printf '  Fabric\n    State       : Completed\n    Status      : Success\n' ;;
esac
"""


@pytest.mark.parametrize(
    ("visible", "local", "uuid"),
    [(None, "1", "GPU-11"), ("1", "1", "GPU-11"), ("GPU-00,GPU-11", "0", "GPU-00")],
)
def test_a_process_looks_at_its_own_gpu(
    visible: str | None, local: str, uuid: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").write_text(SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_LOCALID", local)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = program("preflight").gpu()
    assert found["uuid"] == uuid
    assert (found["name"], found["links"], found["fabric"]) == (
        "NVIDIA GB200",
        2,
        "Completed Success",
    )


def test_without_the_tools_nothing_is_said_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert program("preflight").gpu() == {}


def test_a_folder_is_written_read_back_and_left_as_it_was(tmp_path: Path) -> None:
    program("preflight").keep_and_read(tmp_path / "new", 3)
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        program("preflight").keep_and_read(tmp_path / "file", 3)


def test_what_ends_a_process_is_in_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_PROCID", "5")
    module = program("preflight", folders=[str(tmp_path / "file" / "x")])
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(module.signal, "alarm", lambda _: 0)
    with pytest.raises(OSError, match="file"):
        module.measure(tmp_path)
    record = json.loads((tmp_path / "rank-5.json").read_text())
    assert (record["rank"], record["stage"]) == (5, "folders")
    assert record["error"].startswith("NotADirectoryError: ")
    assert set(record["seconds"]) == {"environment", "gpu"}


def test_a_second_preflight_needs_spare_nodes() -> None:
    job = jobs.hgx()
    wants = Cluster(preflight=True, preflight_retry=True)
    assert not preflight.retries(replace(job, cluster=wants))
    assert preflight.retries(replace(job, cluster=replace(wants, spare_nodes=1)))
    assert not preflight.retries(replace(job, cluster=Cluster(preflight=True, spare_nodes=1)))


@pytest.mark.parametrize("under", ["sh", "bash", ""], ids=["sh", "bash", "as Slurm does"])
def test_a_job_whose_preflight_fails_starts_no_training(under: str, tmp_path: Path) -> None:
    """The stand-in of srun starts one process of eight."""
    job = jobs.one_node()
    job = replace(job, cluster=replace(job.cluster, preflight=True))
    files = {"launch.sbatch": launch_script(job), "config.yml": "a: 1\n", **programs(job)}
    shell.write(tmp_path / "b", files)
    ran = shell.run(under, tmp_path / "b", tmp_path / "s")
    assert ran.code == 79, ran.output
    assert ran.maxtext == []
    assert "the preflight ends this job before it trains" in ran.output
    (words,) = ran.srun
    assert words[-4:] == ["/bin/sh", "./rank.sh", "preflight", "logs/4711/preflight"]
    assert {"--kill-on-bad-exit=0", "--output=logs/4711/preflight/rank-%t.log"} <= {*words}
    said = json.loads((tmp_path / "b/logs/4711/preflight.json").read_text())
    assert said["passed"] is False
    assert said["faults"] != []
