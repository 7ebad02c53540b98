"""What the preflight's judge makes of records, and how its processes are arranged."""

from __future__ import annotations

import ast
import json
import re
import statistics
import sys
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.job import Cluster
from moectl.render import preflight, templates
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs, shell
from tests.support.programs import load

NAMES = ("preflight.py", "preflight_judge.py")
PLAN: dict[str, Any] = {
    "ranks": 8,
    "per_node": 2,
    "gpus_per_slice": 4,
    "spare": 1,
    "dcn": [("fsdp", 2)],
    "ici": [("fsdp", 2), ("expert", 2)],
    "environment": {"XLA_FLAGS": "--a=1 --b=2", "NCCL_DEBUG": "WARN"},
    "secrets": ["NCCL_SECRET"],
    "watched": ["XLA_", "NCCL_", "JAX_"],
    "by_rank": ["JAX_PARTITION_INDEX", "JAX_LOCAL_DEVICE_IDS"],
    "folders": [],
    "wait": 300,
    "limit": 60,
    "used_mib": 1024,
    "platforms": {
        "gpu": {"alone": 1.5, "together": 2.0, "least": 0.0005},
        "other": {"alone": 4.0, "together": 10.0, "least": 0.25},
    },
}
Records = dict[int, Any]


def program(name: str, **changes: Any) -> ModuleType:
    module = load(name)
    module.PLAN = PLAN | changes  # type: ignore[attr-defined]
    return module


def records(plan: Mapping[str, Any] = PLAN) -> Records:
    """Return what processes write that are all well."""
    groups = program("preflight").arrangements(plan)
    return {
        rank: {
            "format": 1,
            "rank": rank,
            "node": f"gpu{rank // plan['per_node']:03d}",
            "stage": "done",
            "error": "",
            "environment": {
                **plan["environment"],
                "JAX_PARTITION_INDEX": str(rank // plan["gpus_per_slice"]),
            },
            "gpu": {"name": "NVIDIA GB200", "memory.total": "189471", "memory.used": "4"},
            "memory": {"MemTotal": 900000},
            "versions": {"python": "3.12.3", "jax": "0.12.0", "platform": "gpu", "device": "x"},
            "work": {"matrix product of 8192": 0.001, "copy of 256 MiB": 0.0002},
            "axes": {
                title: {"first": group[0], "seconds": 0.001}
                for title, members in groups
                for group in members
                if rank in group
            },
        }
        for rank in range(plan["ranks"])
    }


def judged(
    folder: Path, held: Mapping[int, Any], *, retry: bool = False, **changes: Any
) -> tuple[int, dict[str, Any]]:
    """Return the judge's exit code and verdict; a record that is text is written as it stands."""
    plan = PLAN | changes
    nodes = [f"gpu{index:03d} 0 -\n" for index in range(plan["ranks"] // plan["per_node"])]
    (folder / "preflight").mkdir(parents=True, exist_ok=True)
    (folder / "nodes").write_text("".join(nodes))
    for rank, record in held.items():
        text = record if isinstance(record, str) else json.dumps(record)
        (folder / "preflight" / f"rank-{rank}.json").write_text(text)
    words = ["--retry"] if retry else []
    main = program("preflight_judge", **changes).main
    code = main([*words, str(folder / "preflight"), str(folder)])
    return code, json.loads((folder / "preflight.json").read_text())


def faults(said: Mapping[str, Any]) -> list[tuple[str, list[int], list[str]]]:
    return [(fault["kind"], fault["ranks"], fault["nodes"]) for fault in said["faults"]]


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


# ---- The judge --------------------------------------------------------------------------------


def test_equal_processes_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = judged(tmp_path, records())
    assert (code, said["passed"], said["faults"], said["notes"]) == (0, True, [], [])
    assert "8 processes are there and alike" in capsys.readouterr().out
    assert not (tmp_path / "first-failure").exists()


@given(st.data(), st.integers(2, 64), st.floats(1e-6, 10))
def test_one_that_is_slower_than_the_factor_is_found_and_no_other(
    data: st.DataObject, count: int, base: float
) -> None:
    outliers = program("preflight_judge").outliers
    noise = st.floats(1.0, 1.2)
    times = {key: base * data.draw(noise) for key in range(count)}
    assert outliers(times, 1.5, 0.0) == []
    slow = data.draw(st.integers(0, count - 1))
    times[slow] = base * data.draw(st.floats(1.81, 100))
    found = outliers(times, 1.5, 0.0)
    assert [key for key, _, _ in found] == [slow]
    assert found[0][2] <= statistics.median(times.values())
    assert outliers(times, 1.5, 1000 * base) == []


@given(st.integers(0, 7), st.floats(2, 1000))
def test_a_slowed_rank_is_named_whichever_it_is(
    tmp_path_factory: pytest.TempPathFactory, rank: int, factor: float
) -> None:
    held = records()
    held[rank]["work"]["matrix product of 8192"] *= factor
    for group in held.values():  # all that wait for it are as slow
        for title, axis in group["axes"].items():
            if held[rank]["axes"][title]["first"] == axis["first"]:
                axis["seconds"] *= factor
    code, said = judged(tmp_path_factory.mktemp("judge"), held)
    assert code == 79
    assert faults(said) == [("slow", [rank], [f"gpu{rank // 2:03d}"])]


@given(st.integers(0, 3))
def test_a_node_with_a_slow_link_is_named_by_its_neighbours(
    tmp_path_factory: pytest.TempPathFactory, node: int
) -> None:
    """Every group between nodes that the node is in takes ten times as long."""
    held = records()
    groups = program("preflight").arrangements(PLAN)
    for title, members in groups:
        for group in members:
            nodes = {rank // 2 for rank in group}
            if len(nodes) > 1 and node in nodes:
                for rank in group:
                    held[rank]["axes"][title]["seconds"] *= 10
    _, said = judged(tmp_path_factory.mktemp("judge"), held)
    assert {name for fault in said["faults"] for name in fault["nodes"]} == {f"gpu{node:03d}"}
    assert {fault["kind"] for fault in said["faults"]} == {"slow"}


def test_a_rank_without_a_record_is_named_and_the_others_are_not(tmp_path: Path) -> None:
    held = records()
    del held[5]
    for rank, record in held.items():
        record |= {"stage": "peers", "error": "RuntimeError: timed out" if rank else ""}
    code, said = judged(tmp_path, held)
    assert (code, faults(said)) == (79, [("missing", [5], ["gpu002"])])
    assert said["faults"][0]["what"] == "never came"
    assert said["notes"] == [
        "rank 0 could not go on with the others",
        "ranks 1-4, 6-7 could not go on with the others: RuntimeError: timed out",
    ]
    assert (tmp_path / "first-failure").read_text() == "79 5 gpu002\n"


def test_one_that_ended_early_is_blamed_and_not_those_that_had_not_come(tmp_path: Path) -> None:
    held = records()
    del held[1], held[6]
    (tmp_path / "preflight").mkdir()
    (tmp_path / "preflight" / "rank-1.log").write_text("Traceback\nno CUDA\x1b[31m here\n\n")
    _, said = judged(tmp_path, held)
    assert faults(said) == [("missing", [1], ["gpu000"])]
    assert said["faults"][0]["what"] == "never came: no CUDA [31m here"
    assert "rank 6 had not come when the first process ended" in said["notes"]


@pytest.mark.parametrize(
    ("stage", "error", "what"),
    [
        ("folders", "OSError: No space left", "ended in the stage folders: OSError: No space left"),
        ("work", "", "ended in the stage work: its time ran out"),
        ("jax", "ImportError: x\ny", "ended in the stage jax: ImportError: x y"),
    ],
)
def test_a_process_that_ended_by_itself_is_named_with_its_stage(
    stage: str, error: str, what: str, tmp_path: Path
) -> None:
    held = records()
    held[3] |= {"stage": stage, "error": error}
    held[3].pop("axes")
    for rank in set(held) - {3}:
        held[rank] |= {"stage": "axes", "error": "the others are gone"}
    _, said = judged(tmp_path, held)
    assert faults(said) == [("failed", [3], ["gpu001"])]
    assert said["faults"][0]["what"] == what


def test_what_all_have_in_common_is_nobodys_fault(tmp_path: Path) -> None:
    held = records()
    for record in held.values():
        record |= {"stage": "peers", "error": "no coordinator"}
        record["environment"]["NCCL_DEBUG"] = "INFO"
    code, said = judged(tmp_path, held, retry=True)
    assert code == 79
    assert faults(said) == [("different", list(range(8)), [])]
    assert said["faults"][0]["what"] == "NCCL_DEBUG is INFO, not WARN as rendered"
    assert (tmp_path / "first-failure").read_text() == "79 - -\n"
    assert not (tmp_path / "excluded").exists()


@pytest.mark.parametrize(
    ("table", "name", "value", "what"),
    [
        ("environment", "XLA_FLAGS", "--a=1 --c", "XLA_FLAGS has --c and lacks --b=2, not as"),
        ("environment", "NCCL_IB_HCA", "mlx5_0", "NCCL_IB_HCA is mlx5_0, not unset"),
        ("environment", "JAX_PARTITION_INDEX", "7", "JAX_PARTITION_INDEX is 7, not 0"),
        ("gpu", "name", "NVIDIA H100", "gpu name is NVIDIA H100, not NVIDIA GB200"),
        ("gpu", "memory.used", "90000", "90000 MiB of its GPU are in use, 4 usually"),
        ("gpu", "ecc.errors.uncorrected.volatile.total", "3", "its GPU counts 3 uncorrected"),
        ("versions", "jax", "0.11.2", "versions jax is 0.11.2, not 0.12.0"),
        ("memory", "MemTotal", 450000, "memory MemTotal is 450000, not 900000"),
    ],
)
def test_one_that_is_different_is_named_with_what_differs(
    table: str, name: str, value: Any, what: str, tmp_path: Path
) -> None:
    held = records()
    held[2][table][name] = value
    code, said = judged(tmp_path, held)
    assert code == 79
    assert [(fault["ranks"], fault["nodes"]) for fault in said["faults"]] == [([2], ["gpu001"])]
    assert said["faults"][0]["what"].startswith(what)


def test_sizes_of_memory_within_a_hundredth_are_the_same(tmp_path: Path) -> None:
    held = records()
    held[2]["memory"]["MemTotal"] += 5000
    assert judged(tmp_path, held)[0] == 0


def test_halves_that_differ_blame_no_half(tmp_path: Path) -> None:
    held = records()
    for rank in range(4):
        held[rank]["gpu"]["driver_version"] = "570"
        held[rank + 4]["gpu"]["driver_version"] = "580"
    _, said = judged(tmp_path, held, retry=True)
    assert faults(said) == [("different", list(range(8)), [])]
    assert '"570" on ranks 0-3; "580" on ranks 4-7' in said["faults"][0]["what"]


HOSTILE_NAMES = [
    "format",
    "rank",
    "stage",
    "error",
    "work",
    "axes",
    "gpu",
    "environment",
    "first",
    "seconds",
    "versions",
    "platform",
    "memory",
    "MemTotal",
    "memory.used",
]
HOSTILE: Any = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*HOSTILE_NAMES, "dcn fsdp"]), inner, max_size=6)
    ),
    max_leaves=12,
)


@given(HOSTILE, st.sampled_from([1, "1", None]))
def test_a_hostile_record_is_a_fault_of_its_rank_and_no_crash(
    tmp_path_factory: pytest.TempPathFactory, value: Any, format_said: Any
) -> None:
    held = records()
    held[6] = {**value, "format": format_said, "rank": 6} if isinstance(value, dict) else value
    code, said = judged(tmp_path_factory.mktemp("judge"), held)
    assert code == 79
    assert all(6 in fault["ranks"] for fault in said["faults"])


@pytest.mark.parametrize("value", [10**400, -1, True, "0.1", [[]], {"seconds": 1e999}])
def test_a_time_that_cannot_be_one_is_a_fault_of_its_rank(value: Any, tmp_path: Path) -> None:
    held = records()
    held[6]["work"]["copy of 256 MiB"] = held[6]["axes"]["ici expert"]["seconds"] = value
    _, said = judged(tmp_path, held)
    assert faults(said) == [("failed", [6], ["gpu003"])]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, "\x00" * 50, '{"rank": 6, "format": 1', "null", "é" * 2_000_000],
)
def test_a_record_that_is_no_record_is_a_fault_of_its_rank(text: str, tmp_path: Path) -> None:
    _, said = judged(tmp_path, {**records(), 6: text})
    assert faults(said) == [("missing", [6], ["gpu003"])]
    assert said["faults"][0]["what"] == "left a record that cannot be read"


def test_bad_nodes_are_left_out_while_there_are_spare_ones(tmp_path: Path) -> None:
    held = records()
    held[2]["gpu"]["name"] = "other"
    (tmp_path / "first-failure").write_text("78 2 gpu001\n")
    code, said = judged(tmp_path, held, retry=True)
    assert (code, said["again"], said["excluded"]) == (75, True, ["gpu001"])
    assert (tmp_path / "excluded").read_text() == "gpu001\n"
    assert not (tmp_path / "first-failure").exists()
    code, said = judged(tmp_path, records())
    assert (code, said["passed"], said["excluded"]) == (0, True, ["gpu001"])


def test_more_bad_nodes_than_spare_ones_stop_the_job(tmp_path: Path) -> None:
    held = records()
    held[2]["gpu"]["name"] = held[4]["gpu"]["name"] = "other"
    code, said = judged(tmp_path, held, retry=True)
    assert (code, said["again"], said["nodes"]) == (79, False, ["gpu001", "gpu002"])
    assert not (tmp_path / "excluded").exists()


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
