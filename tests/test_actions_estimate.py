"""Estimates of presets and run files, and what cannot be meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.actions.estimate import estimate, quantity
from moectl.actions.plan import Wishes
from moectl.errors import UnknownNameError, UsageError, ValueUsageError
from moectl.estimate.assessment import LIKELY, NEVER, SURE
from moectl.settings.files import preset_names

HARDWARE = """\
name: my-gpu
architecture: blackwell
gpus_per_node: 4
domain_gpus: 64
figures:
  hbm_visible_bytes: 400000000000
  hbm_gbs: 9000
  dense_tflops: {bf16: 3000, fp8: 6000, mxfp8: 6000}
  nvlink_gbs: 1200
  nic_gbps: 800
"""


def wishes(*sets: str, **options: Any) -> Wishes:
    said = {path: (value, f"--{path}") for path, value in options.items()}
    return Wishes(options=said, sets=sets)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_estimated_as_far_as_facts_allow(name: str) -> None:
    answer = estimate(name, wishes())
    found = answer.assessment
    assert found.prepared.total is not None
    assert found.prepared.active is not None
    assert found.prepared.active < found.prepared.total
    assert found.time is not None
    assert found.time.seconds() > 0
    assert (found.memory is None) == (answer.job is None)
    assert found.fits is not False


def test_a_run_file_is_estimated_with_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("preset: deepseek3-671b\ngpus: 64\nbatch: {per_device: 2}\n", "utf-8")
    answer = estimate(str(file), wishes())
    assert answer.assessment.request.gpus == 64
    assert answer.batch == 2
    assert answer.assessment.request.fraction == 0.88
    assert answer.assessment.request.slop == 99


def test_a_budget_takes_gpu_hours_and_a_price_makes_them_a_cost() -> None:
    answer = estimate("deepseek3-671b", wishes(), tokens="14.8T", price="2")
    assert answer.budget is not None
    speed = answer.assessment.time
    assert speed is not None
    assert answer.budget.hours == pytest.approx(14.8e12 / speed.tokens_per_second() / 3600)
    assert answer.budget.cost == pytest.approx(2 * answer.budget.hours)
    assert answer.budget.days == pytest.approx(answer.budget.hours / 128 / 24)
    assert estimate("mixtral-8x7b", wishes(), tokens="1B").budget is not None


def test_a_model_that_cannot_fit_tells_how_many_gpus_it_takes() -> None:
    answer = estimate("deepseek3-671b", wishes(gpus=8, hardware="h100"))
    assert answer.assessment.verdict == NEVER
    assert answer.holds is not None
    assert answer.holds > 8
    assert "MEM111" in answer.errors


def test_pipeline_stages_have_no_memory_but_a_time() -> None:
    answer = estimate("mixtral-8x7b", wishes("ici_pipeline_parallelism=2", gpus=64))
    assert answer.assessment.memory is None
    assert answer.assessment.time is not None
    assert any("memory is not estimated" in note for note in answer.notes)


def test_a_platform_without_figures_has_no_time_and_no_limit() -> None:
    answer = estimate("mixtral-8x7b", wishes(hardware="vr-nvl72"), tokens="1T")
    assert answer.budget is None
    assert "no cost of the tokens" in answer.notes[-1]
    assert answer.assessment.time is None
    assert answer.assessment.fits is None
    assert any("no published peaks" in note for note in answer.notes)


@pytest.mark.parametrize("name", ["deepseek3-671b", "mimo-v2-flash-309b"])
def test_an_unknown_gpu_is_told_the_nearest_and_that_a_file_can_describe_it(name: str) -> None:
    with pytest.raises(UnknownNameError, match=r"gb300.*") as caught:
        estimate(name, wishes(hardware="gb400"))
    assert "a YAML file can describe another one, see docs/estimates.md" in str(caught.value)


@pytest.mark.parametrize("name", ["deepseek3-671b", "mimo-v2-flash-309b"])
def test_a_number_of_gpus_with_no_mesh_is_told_the_nearest_that_have_one(name: str) -> None:
    with pytest.raises(UsageError, match="4 or 8"):
        estimate(name, wishes(gpus=6))


def test_a_number_of_gpus_that_divides_no_weight_is_told_the_nearest_that_do() -> None:
    with pytest.raises(UsageError, match="64 or 112 GPUs are possible"):
        estimate("deepseek3-671b", wishes(gpus=100))


@pytest.mark.parametrize("name", ["deepseek3-671b", "mimo-v2-flash-309b"])
def test_a_gpu_of_ones_own_is_described_by_a_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "my-gpu.yaml"
    file.write_text(HARDWARE, "utf-8")
    found = estimate(name, wishes(hardware=str(file))).assessment
    assert found.request.hardware.name == "my-gpu"
    assert found.time is not None
    assert found.time.peak in {6e15, 3e15}


@pytest.mark.parametrize(
    ("tokens", "price", "said"),
    [
        (None, "2", "--price needs a budget"),
        ("", None, "--tokens"),
        ("many", None, "--tokens"),
        ("-3T", None, "--tokens"),
        ("0", None, "--tokens"),
        ("1e40", None, "--tokens"),
        ("nan", None, "--tokens"),
        ("inf", None, "--tokens"),
        ("१T", None, "--tokens"),
        ("1T", "free", "--price"),
    ],
)
def test_a_budget_that_cannot_be_meant_is_refused(
    tokens: str | None, price: str | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        estimate("mixtral-8x7b", wishes(), tokens=tokens, price=price)


def test_what_cannot_run_takes_no_settings_of_a_run() -> None:
    with pytest.raises(UsageError, match="no run that --set could change"):
        estimate("mimo-v2-flash-309b", wishes("steps=5"))


def test_the_pool_is_that_of_the_memory_fraction_and_the_slop_factor_in_force() -> None:
    sets = (
        "environment.XLA_PYTHON_CLIENT_MEM_FRACTION=0.9",
        "xla_flags.xla_gpu_memory_limit_slop_factor=-5",
    )
    found = estimate("deepseek3-671b", wishes(*sets)).assessment
    assert (found.request.fraction, found.request.slop) == (0.9, -5)
    assert found.room is not None
    assert found.room.scheduler == 0
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        estimate("deepseek3-671b", wishes(sets[0].replace("0.9", "all")))


def test_a_calibration_is_used_and_said() -> None:
    plain = estimate("mixtral-8x7b", wishes())
    answer = estimate("mixtral-8x7b", wishes(), calibration={"other": 0.5})
    assert answer.assessment.time is not None
    assert plain.assessment.time is not None
    assert answer.assessment.time.calibrated
    assert answer.assessment.time.seconds() > plain.assessment.time.seconds()


@given(st.floats(0.001, 999), st.sampled_from(["", "K", "M", "B", "T", "t"]))
def test_a_quantity_is_its_number_times_its_unit(number: float, unit: str) -> None:
    size = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}[unit.upper()]
    assert quantity("--tokens", f"{number!r}{unit}") == pytest.approx(number * size)


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_refusal(text: str) -> None:
    try:
        found = quantity("--tokens", text)
    except ValueUsageError:
        return
    assert 0 < found < 1e30


@pytest.mark.parametrize(
    ("name", "platform", "gpus"),
    [
        ("llama4-17b-128e", "h100", 64),
        ("llama4-17b-128e", "h100", 512),
        ("deepseek3-671b", "gb200", 8),
        ("deepseek3-671b", "h100", 8),
        ("kimi-k2-1t", "b200", 16),
    ],
)
def test_the_gpus_that_hold_a_model_are_said_to_hold_it_when_asked(
    name: str, platform: str, gpus: int
) -> None:
    answer = estimate(name, wishes(gpus=gpus, hardware=platform))
    assert answer.assessment.verdict == NEVER
    assert answer.holds is not None
    sets = ("per_device_batch_size=1", *answer.holds_with)
    again = estimate(name, wishes(*sets, gpus=answer.holds, hardware=platform))
    assert again.assessment.request.gpus == answer.holds
    assert again.assessment.verdict in {SURE, LIKELY}


def test_no_gpus_are_named_where_none_is_found_that_holds_the_model() -> None:
    answer = estimate("qwen3.5-397b-a17b", wishes(gpus=256, hardware="h100"))
    assert (answer.assessment.verdict, answer.holds) == (NEVER, None)


@pytest.mark.parametrize("gpus", [64, 256, 1024])
@pytest.mark.parametrize("name", ["llama4-17b-128e", "qwen3.5-397b-a17b"])
def test_what_does_not_fit_is_named_with_its_bytes(name: str, gpus: int) -> None:
    answer = estimate(name, wishes(gpus=gpus, hardware="h100"))
    found = answer.assessment
    assert found.memory is not None
    assert found.room is not None
    assert found.memory.least < found.room.pool < found.memory.total("low")
    said = f"even the low end of the range is {found.memory.total('low') / (1 << 30):.1f} GiB"
    assert any(note.startswith(said) for note in answer.notes)
    assert not any("alone" in note for note in answer.notes)


def test_offloaded_moments_are_not_said_to_be_on_the_gpu_where_it_does_not_fit() -> None:
    offload = "optimizer_memory_host_offload=true"
    answer = estimate("deepseek3-671b", wishes(offload, gpus=8, hardware="gb200"))
    assert any(note.startswith("weights and gradients alone are") for note in answer.notes)


def test_offloading_takes_time_on_the_host_link() -> None:
    usual = estimate("deepseek3-671b", wishes()).assessment.time
    assert usual is not None
    last = usual.seconds()
    for sets in (
        ("optimizer_memory_host_offload=true",),
        ("optimizer_memory_host_offload=true", "parameter_memory_host_offload=true"),
    ):
        found = estimate("deepseek3-671b", wishes(*sets)).assessment.time
        assert found is not None
        assert found.seconds() > last
        last = found.seconds()


def test_a_run_that_rules_refuse_has_its_findings_and_counts_no_expert_twice() -> None:
    sets = ("num_experts=8", "num_experts_per_tok=9")
    answer = estimate("deepseek3-671b", wishes(*sets))
    assert answer.errors == ("MOE136",)
    assert [finding.code for finding in answer.findings] == ["MOE136"]
    found = answer.assessment.prepared
    assert found.active is not None
    assert found.total is not None
    assert found.active <= found.total
