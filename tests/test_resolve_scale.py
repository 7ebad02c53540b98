"""Mesh and batch for a number of GPUs: arithmetic, refusals, and what is legal near."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.actions.plan import Wishes, plan
from moectl.errors import UsageError
from moectl.job import Job
from moectl.resolve.scale import MAX_GPUS

PRESET = "deepseek3-671b"


def job(gpus: int, *sets: str, preset: str = PRESET, **options: object) -> Job:
    wished = {"gpus": (gpus, "--gpus"), **{k: (v, f"--{k}") for k, v in options.items()}}
    return plan(preset, Wishes(options=wished, sets=sets))


@settings(max_examples=60, deadline=None)
@given(gpus=st.integers(1, MAX_GPUS // 4).map(lambda nodes: 4 * nodes))
def test_whatever_renders_adds_up(gpus: int) -> None:
    try:
        found: Job | None = job(gpus, preset="mixtral-8x7b", hardware="gb200-nvl72")
    except UsageError as error:
        refusal = str(error)
        found = None
    if found is None:
        assert f"{gpus} GPUs" in refusal
        return
    degrees = found.mesh.degrees.values()
    assert prod(d.total for d in degrees) == gpus == found.nodes * found.processes_per_node
    assert prod(d.dcn for d in degrees) == found.mesh.slices
    assert found.nodes_per_slice * found.mesh.slices == found.nodes


@pytest.mark.parametrize("gpus", [128, 256, 512, 1024, 2048])
def test_deepseek_renders_at_every_published_size_with_the_block_rules_kept(gpus: int) -> None:
    found = job(gpus)
    assert found.mesh.total("expert") == 8
    assert found.mesh.total("fsdp") == gpus // 8
    assert found.mesh.total("data") == 1
    assert [f for f in found.findings if f.stops] == []


def test_a_kept_global_batch_divides_over_more_gpus() -> None:
    assert job(256, "batch.global=768").batch.per_device == 3
    assert any("--global-batch 768 keeps it" in note for note in job(256).notes)


def test_a_global_batch_that_loses_to_a_batch_of_a_gpu_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    run.write_text(f"preset: {PRESET}\ngpus: 128\nbatch:\n  global: 512\n")
    notes = plan(str(run), Wishes(sets=("batch.per_device=2",))).notes
    (lost,) = (note for note in notes if "does not count" in note)
    assert "batch.global 512" in lost
    assert f"{run}:4" in lost
    assert "batch.per_device of --set" in lost
    assert not any("does not count" in note for note in plan(str(run), Wishes()).notes)


def test_a_global_batch_that_does_not_divide_says_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"cannot be 700: .* multiple of 128, e\.g\. 640 or 768"):
        job(128, "batch.global=700")


def test_two_batches_of_the_same_force_that_contradict_are_refused() -> None:
    with pytest.raises(UsageError, match=r"is 6 a GPU, but batch\.per_device says 3"):
        job(128, "batch.global=768", "batch.per_device=3")


def test_accumulation_multiplies_the_global_batch_and_not_the_micro_batch() -> None:
    found = job(128, "batch.accumulation=2")
    assert (found.batch.global_batch, found.batch.micro_batch) == (1536, 768)


def test_a_batch_of_no_whole_sequences_is_refused() -> None:
    with pytest.raises(UsageError, match="not whole sequences"):
        job(8, "batch.per_device=0.3")


@pytest.mark.parametrize("value", [".inf", "1e308"])
def test_an_endless_batch_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="per_device"):
        job(128, f"batch.per_device={value}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parallelism.ici.fsd=2", "unknown key|unknown mesh axis 'fsd'"),
        ("parallelism.ici.fsdp=0", "a degree is 1 or more, or -1"),
        ("parallelism.ici.expert=3", "multiply to 3"),
    ],
)
def test_degrees_that_cannot_be_are_refused_with_the_arithmetic(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        job(128, text)


def test_a_weight_that_does_not_divide_is_refused_with_possible_numbers() -> None:
    with pytest.raises(UsageError, match=r"7168 .* does not divide.*64 or 112 GPUs are possible"):
        job(96)
    assert [job(gpus).gpus for gpus in (64, 112)] == [64, 112]


def test_a_degree_of_a_person_stays_and_one_of_a_preset_gives_way() -> None:
    assert job(128, "ici_expert_parallelism=16").mesh.degrees["expert"].ici == 16
    shrunk = job(4)
    assert shrunk.mesh.degrees["expert"].ici == 4
    assert any("EP is 4 instead of 8" in note for note in shrunk.notes)
