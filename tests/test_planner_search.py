"""The ranking: what fits and is fastest comes first, and every other mesh has a reason."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import pytest

from moectl.actions.plan import Wishes
from moectl.actions.planning import Ask, Planned, Row, job_of, planned, run_file, sweep, why_not
from moectl.errors import UsageError, ValueUsageError
from moectl.planner.search import trials

DEEPSEEK, SMALL = "deepseek3-671b", "qwen3-30b-a3b"


def ask(target: str, hardware: str = "gb200-nvl72", **changes: Any) -> Ask:
    return Ask(target, Wishes(options={"hardware": (hardware, "--hardware")}), **changes)


@cache
def deepseek() -> Planned:
    return planned(ask(DEEPSEEK, top=4), 128)


@pytest.mark.parametrize("global_batch", [None, 768])
def test_the_published_mesh_is_among_the_first_three(global_batch: int | None) -> None:
    found = planned(ask(DEEPSEEK, global_batch=global_batch), 128)
    first = [row.candidate.layout.totals() for row in found.rows[:3]]
    assert (("expert", 8), ("fsdp", 16)) in first


def test_the_same_question_has_the_same_answer() -> None:
    again = planned(ask(DEEPSEEK, top=4), 128)
    assert [row.as_dict() for row in again.rows] == [row.as_dict() for row in deepseek().rows]


def test_rows_are_ranked_by_rate_and_those_that_should_fit_come_first() -> None:
    found = planned(ask(SMALL, "b200-hgx"), 16)
    rows = [row.candidate for row in found.rows]
    held = [(row.assessment.verdict == "may not fit", -row.tokens_per_second) for row in rows]
    assert held == sorted(held)
    assert [row.rank for row in found.rows] == list(range(1, 6))


def test_every_mesh_is_ranked_or_refused_with_a_reason() -> None:
    found = deepseek()
    ranked = {candidate.layout for candidate in found.ranked}
    refused = {one.layout for one in found.refused}
    assert len(ranked) + len(refused) == 25
    assert not ranked & refused
    assert all(one.why for one in found.refused)


def test_each_row_is_a_job_that_no_rule_stops_with_exactly_its_mesh() -> None:
    found = deepseek()
    for row in found.rows:
        job = job_of(ask(DEEPSEEK, top=4), found, row)
        assert not [finding.code for finding in job.findings if finding.stops]
        degrees = {axis: (d.ici, d.dcn) for axis, d in job.mesh.degrees.items() if d.total > 1}
        layout = row.candidate.layout
        axes = {axis for axis, _ in (*layout.ici, *layout.dcn)}
        assert degrees == {
            axis: (layout.degree("ici", axis), layout.degree("dcn", axis)) for axis in axes
        }
        assert job.batch.per_device == row.candidate.trial.batch


def test_a_global_batch_is_made_up_by_accumulation() -> None:
    found = planned(ask(DEEPSEEK, global_batch=1536), 128)
    for candidate in found.ranked:
        trial = candidate.trial
        assert trial.batch * trial.accumulation * 128 == 1536


def test_a_global_batch_that_gives_a_gpu_no_whole_sequence_is_refused() -> None:
    with pytest.raises(ValueUsageError, match="a multiple of the 128 GPUs"):
        planned(ask(DEEPSEEK, global_batch=100), 128)


def test_why_not_names_rank_and_loss_or_the_reason() -> None:
    told = why_not(ask(DEEPSEEK, top=4), deepseek(), "ici_expert=16")
    assert any("slower a token" in line for line in told)
    assert any("lie better as" in line for line in told)
    assert why_not(ask(DEEPSEEK, top=4), deepseek(), "ici_expert_parallelism=3")[0].startswith(
        "no mesh of 128 GPUs has"
    )
    with pytest.raises(ValueUsageError, match=r"degrees, e\.g\."):
        why_not(ask(DEEPSEEK, top=4), deepseek(), "expert is 16")


def test_a_model_that_is_too_large_says_how_many_gpus_it_takes() -> None:
    with pytest.raises(
        UsageError, match=r"fits 8 GPUs of h100-hgx in no way, the least with .* GiB"
    ):
        planned(ask(DEEPSEEK, "h100-hgx"), 8)


@pytest.mark.parametrize("gpus", [6, 0, 20_000])
def test_gpus_that_are_no_whole_nodes_are_refused_with_what_is_legal(gpus: int) -> None:
    with pytest.raises(ValueUsageError, match="a multiple of 4"):
        planned(ask(DEEPSEEK), gpus)


def test_a_sweep_has_one_best_mesh_for_each_number() -> None:
    found = sweep(ask(DEEPSEEK), [64, 128])
    assert [one.gpus for one in found] == [64, 128]
    assert all(len(one.rows) == 1 for one in found)


def test_the_run_file_names_the_preset_and_says_why() -> None:
    found = deepseek()
    text = run_file(ask(DEEPSEEK, top=4), found, found.rows[0])
    assert text.startswith("# Rank 1 of `moectl plan`: ici ")
    assert '\npreset: "deepseek3-671b"\ngpus: 128\n' in text


def test_trials_keep_the_models_own_remat_policy_first() -> None:
    found = list(trials({"remat_policy": "custom"}, 8, [1, 2], ["full"], None))
    assert [(trial.batch, trial.remat) for trial in found] == [
        (1, "as it is"), (1, "full"), (2, "as it is"), (2, "full"),
    ]  # fmt: skip
    assert dict(found[0].values)["remat_policy"] == "custom"
    same = list(trials({"remat_policy": "full"}, 8, [1], ["full"], None))
    assert [trial.remat for trial in same] == ["full"]


@pytest.mark.parametrize(
    ("hardware", "gpus", "changes"),
    [
        ("h100-hgx", 128, {}),
        ("gb200-nvl72", 128, {"batch.sequence_length": 1_000_000}),
        ("gb200-nvl72", 32, {}),
    ],
)
def test_no_row_needs_more_at_the_low_end_than_there_is(
    hardware: str, gpus: int, changes: dict[str, int]
) -> None:
    said = {path: (value, "--set") for path, value in changes.items()}
    options = {"hardware": (hardware, "--hardware"), **said}
    rows: tuple[Row, ...] = ()
    with contextlib.suppress(UsageError):
        rows = planned(Ask(DEEPSEEK, Wishes(options=options)), gpus).rows
    held = [row.candidate.assessment for row in rows]
    over = [
        one
        for one in held
        if one.memory is None or one.room is None or one.memory.total("low") > one.room.pool
    ]
    assert over == []


@pytest.mark.parametrize("gpus", [20, 36, 120, 132])
def test_gpus_whose_meshes_cut_no_weight_evenly_get_the_nearest_that_do(gpus: int) -> None:
    with pytest.raises(UsageError, match=r"no mesh over which every weight .* GPUs have one"):
        planned(ask(DEEPSEEK), gpus)


def test_the_number_of_meshes_does_not_hang_on_how_many_are_shown() -> None:
    counts = {
        len(planned(ask(SMALL, "b200-hgx", top=top), 16).ranked)
        + sum(": " in one.why for one in planned(ask(SMALL, "b200-hgx", top=top), 16).refused)
        for top in (1, 5)
    }
    assert len(counts) == 1
