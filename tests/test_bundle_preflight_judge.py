"""What the preflight's judge makes of the records of processes."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.preflight import PLAN, faults, judged, program, records


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
