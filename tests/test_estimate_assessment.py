"""What an estimate says of a run, and the facts that this project starts from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.estimate.assessment import (
    LIKELY,
    NEVER,
    OPEN,
    SURE,
    Request,
    assess,
    cost,
    gpu_hours,
    gpus_for_weights,
    gpus_that_hold,
    mesh_of,
    prepare,
    room_of,
)
from moectl.facts import hardware, maxtext
from moectl.workload import UNKNOWN

RELEASE = "0.2.5"
TIB = 1 << 40
DROPPING: dict[str, Any] = {
    "weight_dtype": "bfloat16",
    "sparse_matmul": False,
    "capacity_factor": 1.25,
    "max_target_length": 4096,
    "remat_policy": "full",
}


def request(platform: str = "b200", fraction: float = 0.93, **ici: int) -> Request:
    return Request(hardware.platform(platform), ici or {"fsdp": 8, "expert": 8}, {}, fraction, 95)


def values(name: str = "deepseek3-671b", **changes: Any) -> dict[str, Any]:
    file = maxtext.load(RELEASE).model(name)
    assert file is not None
    return {**maxtext.load(RELEASE).base, **file, "model_name": name, **DROPPING, **changes}


def verdict(batch: int, **changes: Any) -> str | None:
    known = values(per_device_batch_size=batch, **changes)
    return assess(prepare(known, RELEASE), known, request()).verdict


def test_deepseek_v3_activates_37_of_671_billion_and_9_experts_a_token() -> None:
    found = prepare(values(), RELEASE)
    assert found.total is not None
    assert found.active is not None
    assert (round(found.total / 1e9), round(found.active / 1e9)) == (671, 37)
    assert found.model is not None
    assert found.model.top_k + found.model.shared == 9


def test_2_788_million_h800_hours_at_2_dollars_are_5_576_million() -> None:
    assert cost(2.788e6, 2) == pytest.approx(5.576e6)
    speed = 14.8e12 / 2.788e6 / 3600  # tokens a second and GPU over the whole training
    assert gpu_hours(14.8e12, speed) == pytest.approx(2.788e6)


def test_a_hundred_trillion_parameters_in_16_bit_need_182_tib_and_about_a_thousand_gpus() -> None:
    assert round(100e12 * 2 / TIB) == 182
    assert gpus_for_weights(100e12, 2, 192e9) == pytest.approx(1000, rel=0.05)
    assert gpus_for_weights(100e12, 2, 288e9) == pytest.approx(700, rel=0.01)


@pytest.mark.parametrize("name", ["h100", "h800", "h200", "b200", "b300"])
def test_tables_quote_figures_with_sparsity_where_dense_is_half(name: str) -> None:
    figures = hardware.platform(name).figures
    for dtype in ("bf16", "fp8"):
        assert figures["sparse_tflops"][dtype] / figures["dense_tflops"][dtype] == pytest.approx(
            2, abs=0.002
        )


@pytest.mark.parametrize("name", ["gb200", "gb300"])
def test_of_the_superchips_the_quoted_figures_are_rounded_up_too(name: str) -> None:
    figures = hardware.platform(name).figures
    assert figures["sparse_tflops"]["fp8"] / figures["dense_tflops"]["fp8"] > 2


def test_fp4_of_blackwell_ultra_is_not_halved() -> None:
    figures = hardware.platform("b300").figures
    assert figures["sparse_tflops"]["fp4"] / figures["dense_tflops"]["nvfp4"] < 1.5


def test_the_published_runs_of_b200_get_the_verdict_they_had() -> None:
    """A measured kind: batch 7 ran, batch 16 asked for 172 GiB and failed."""
    assert verdict(1) == SURE
    assert verdict(7) == LIKELY
    assert verdict(16) == NEVER


def test_a_kind_that_nobody_measured_is_refused_only_for_what_is_certain() -> None:
    te: dict[str, Any] = {"sparse_matmul": True, "te_moe_block": True, "ragged_buffer_factor": 2.0}
    assert verdict(12, **te) == OPEN
    known = values(per_device_batch_size=12, **te)
    few = request(expert=8)
    found = assess(prepare(known, RELEASE), known, few)
    assert (found.verdict, found.fits) == (NEVER, False)


def test_a_compiled_kind_is_refused_where_even_its_low_end_is_too_large() -> None:
    native: dict[str, Any] = {"sparse_matmul": False, "capacity_factor": -1.0}
    known = values("deepseek2-16b", per_device_batch_size=4, **native)
    prepared = prepare(known, RELEASE)
    assert assess(prepared, known, request("h200", fsdp=8)).verdict == SURE
    large = {**known, "per_device_batch_size": 64}
    found = assess(prepared, large, request("h200", fsdp=8))
    assert found.memory is not None
    assert found.memory.compiled
    assert found.memory.least < 100 << 30  # weights, moments and gradients would fit
    assert found.verdict == NEVER


def test_a_model_that_does_not_fit_tells_how_many_gpus_hold_it() -> None:
    known = values(per_device_batch_size=7)
    prepared = prepare(known, RELEASE)
    few = request(expert=8)
    needed = gpus_that_hold(prepared, known, few)
    assert needed is not None
    assert needed > few.gpus
    factor = needed // few.gpus
    enough, fewer = request(fsdp=factor, expert=8), request(fsdp=factor // 2, expert=8)
    one = {**known, "per_device_batch_size": 1}
    assert assess(prepared, one, enough).fits
    assert not assess(prepared, one, fewer).fits


def test_the_pool_the_context_and_what_is_outside_are_the_visible_memory() -> None:
    found = room_of(request(), 10 << 30)
    assert found is not None
    assert found.context + found.pool + found.outside == found.visible
    assert found.scheduler == (found.pool - (10 << 30)) * 95 // 100
    assert room_of(request("vr-nvl72"), 0) is None


def test_stages_are_called_pipeline_in_keys() -> None:
    mesh = mesh_of({"pipeline": 4, "fsdp": 2}, {"fsdp": 3}, RELEASE)
    assert (mesh["stage"], mesh["fsdp"], mesh["expert"]) == (4, 6, 1)


def test_parts_that_are_not_known_are_left_out_and_the_rest_is_said() -> None:
    known = values(per_device_batch_size=1)
    stages = assess(prepare(known, RELEASE), known, request(pipeline=2, fsdp=8, expert=4))
    assert stages.memory is None
    assert stages.verdict is None
    assert stages.fits is None
    assert stages.time is not None
    nowhere = assess(prepare(known, RELEASE), known, request("vr-nvl72"))
    assert (nowhere.room, nowhere.time) == (None, None)
    assert nowhere.memory is not None
    odd = values(decoder_block="deepseek4", per_device_batch_size=1)
    other = prepare(odd, RELEASE)
    assert (other.model, other.layout) == (None, None)
    assert assess(other, odd, request()).term("logits") == 0


def test_rules_that_flax_refuses_are_no_layout() -> None:
    known = values(logical_axis_rules=UNKNOWN)
    assert prepare(known, RELEASE).layout is None


def test_a_calibration_is_passed_on() -> None:
    known = values(per_device_batch_size=1)
    calibrated = replace(request(), calibration={"memory": 0.9})
    found = assess(prepare(known, RELEASE), known, calibrated)
    assert found.time is not None
    assert found.time.calibrated


@given(st.floats(1, 1e15), st.floats(1, 1e6), st.floats(0.01, 100))
def test_hours_and_cost_grow_with_tokens_and_price(
    tokens: float, speed: float, price: float
) -> None:
    hours = gpu_hours(tokens, speed)
    assert gpu_hours(2 * tokens, speed) == pytest.approx(2 * hours)
    assert cost(hours, 2 * price) == pytest.approx(2 * cost(hours, price))
