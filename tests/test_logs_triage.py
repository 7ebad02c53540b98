"""A failed run explained: first process, node, key with a proposal, and who followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.facts.yaml_facts import read
from moectl.logs.fatal import rows
from moectl.logs.triage import FACTS, of_files, of_folder
from tests.support import training_logs as made

OVERFLOW = (
    "RuntimeError: TE MoE receive capacity overflow at training step 41 (detected at the 20-step "
    "check ending at step 59): observed padded receive demand 9000 exceeds recv_capacity_per_rank "
    "6000 (ragged_buffer_factor=1.5)\n"
)
LIMIT = (
    "slurmstepd: error: *** STEP 12.0 ON gpu000 CANCELLED AT 2026-11-30T10:00:00 DUE TO {} ***\n"
)
PEER = "NCCL operation ncclAllGather(..) failed: unhandled system error. Last NCCL\n"
CONFIG = {"per_device_batch_size": "4", "learning_rate": "3.e-4"}
CASES = {
    "te-overflow": (OVERFLOW, "ragged_buffer_factor", "2.5"),
    "out-of-memory": (made.MEMORY, "per_device_batch_size", "2"),
    "nan-loss": (made.ABORT, "learning_rate", "0.00015"),
    "not-registered": (made.UNMET, "jax_distributed_initialization_timeout", "600"),
    "config-error": (
        "E1130 15:27:39.7 1 pyconfig.py:393] MAXTEXT CONFIG ERROR: Number of devices 8 does not "
        "match the product of the parallelism 4\n",
        "ici_fsdp_parallelism",
        "-1",
    ),
    "unknown-flag": (
        "F1130 15:27:39.7 1 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --xla_x=1\n",
        "XLA_FLAGS",
        "without --xla_x=1",
    ),
    "host-memory": (
        "srun: error: gpu003: task 5: Out Of Memory\n",
        "cluster.memory",
        "0",
    ),
    "time-limit": (LIMIT.format("TIME LIMIT"), "cluster.time", "twice the present limit"),
    "node-failure": (LIMIT.format("NODE FAILURE"), "cluster.directives", "--exclude=gpu000"),
    "preempted": (LIMIT.format("PREEMPTION"), None, None),
    "nccl-failed": (PEER, None, None),
    "heartbeat": (made.SILENT, None, None),
}


def interleaved(said: str, ranks: int = 4, first: int = 2) -> str:
    """Return a log of `srun --label` in which one rank fails and the others follow."""
    lines = [f"{rank}: {made.step(step)}" for step in range(3) for rank in range(ranks)]
    lines.append(f"{first}: {said}")
    lines += [f"{rank}: {made.VICTIM}" for rank in range(ranks) if rank != first]
    return "".join(lines)


@pytest.mark.parametrize(("row", "case"), CASES.items(), ids=CASES)
def test_a_text_is_explained_with_the_key_to_change(
    tmp_path: Path, row: str, case: tuple[str, str | None, str | None]
) -> None:
    log = tmp_path / "slurm-12.out"
    log.write_text(interleaved(case[0]))
    found = of_files([log], CONFIG)
    assert found is not None
    assert found.verdict.known == row
    change = found.change
    assert ((change.key, change.value) if change else (None, None)) == case[1:]
    if row not in {"not-registered", "heartbeat", "host-memory"}:
        assert (found.verdict.rank, found.followed) == (2, 3)


def test_what_a_process_survived_is_no_reason(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(f"{made.step(1)}{made.MEMORY}{made.step(2)}")
    assert of_files([log], {}) is None
    assert of_files([], {}) is None
    assert of_files([tmp_path / "gone.log"], {}) is None


def test_a_batch_of_one_is_not_halved(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(made.MEMORY)
    found = of_files([log], {"per_device_batch_size": "1.0"})
    assert found is not None
    assert found.change is not None
    assert (found.change.key, found.change.value) == ("remat_policy", "full")


def test_a_folder_of_ranks_names_the_first_and_counts_who_followed(tmp_path: Path) -> None:
    logs = dict.fromkeys(range(8), made.VICTIM) | {3: made.steps(3) + OVERFLOW}
    folder = made.folder(tmp_path, "12", logs)
    (folder / "first-failure").write_text("1 3 gpu-b17\n")
    found = of_folder(folder, None, {})
    assert found is not None
    assert (found.verdict.rank, found.verdict.node, found.followed) == (3, "gpu-b17", 7)
    assert "set ragged_buffer_factor: 2.5 (the demand seen and a tenth)" in found.lines()
    assert found.as_dict()["followed"] == 7


@pytest.mark.parametrize("node", ["$(rm)", "<script>", "a" * 200, "-x", "\x1b[2J"])
def test_a_hostile_node_name_is_none(tmp_path: Path, node: str) -> None:
    log = tmp_path / "run.log"
    log.write_text(LIMIT.replace("gpu000", node).format("NODE FAILURE"))
    found = of_files([log], {})
    assert found is not None
    assert found.verdict.node == ""
    assert found.change is None


@given(st.lists(st.sampled_from([case[0] for case in CASES.values()]) | st.text(max_size=60)))
def test_no_log_is_too_odd(tmp_path_factory: pytest.TempPathFactory, said: list[str]) -> None:
    log = tmp_path_factory.mktemp("odd") / "run.log"
    log.write_text("\n".join(said), encoding="utf-8", errors="replace")
    found = of_files([log], {"learning_rate": "nan", "per_device_batch_size": "x"})
    assert found is None or found.lines()


def test_proposals_are_for_rows_that_exist() -> None:
    known = {row.id for row in rows()}
    assert set(read(FACTS)["changes"]) <= known
    assert set(read(FACTS)["followers"]) <= known
