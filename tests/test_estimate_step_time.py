"""Step time: the published recipe, scaling, and laws that hold whatever the constants are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.actions.estimate import request_of
from moectl.actions.plan import Wishes, plan
from moectl.estimate.assessment import Assessment, assess, prepare
from moectl.estimate.spread import spread_of
from moectl.estimate.step_time import PACES, StepTime, efficiencies, machine_of, step_time
from moectl.estimate.work import Work, ranks_hit, work_of
from moectl.facts import hardware
from moectl.facts.yaml_facts import read
from tests.test_estimate_flops import made, values

PUBLISHED = 1068e12
RECIPE: dict[str, Any] = {
    "per_device_batch_size": 6,
    "max_target_length": 4096,
    "te_moe_block": True,
    "quantization": "te_fp8_currentscaling",
    "te_gmm_quantization": "te_mxfp8",
    "attention": "cudnn_flash_te",
    "remat_policy": "full",
}


def of_preset(name: str, gpus: int, platform: str) -> Assessment:
    options = {"gpus": (gpus, "--gpus"), "hardware": (platform, "--hardware")}
    job = plan(name, Wishes(options=options))
    found = dict(job.effective)
    return assess(prepare(found, "0.2.5"), found, request_of(job))


def work(name: str = "deepseek3-671b", **changes: Any) -> Work:
    found = work_of(made(name), {**values(name), **RECIPE, **changes})
    assert found is not None
    return found


def timed(
    found: Work,
    ici: dict[str, int] | None = None,
    dcn: dict[str, int] | None = None,
    platform: str = "gb200",
    calibration: dict[str, float] | None = None,
) -> StepTime:
    machine = machine_of(hardware.platform(platform))
    assert machine is not None
    spread = spread_of(ici or {"fsdp": 8, "expert": 8}, dcn or {}, machine.domain)
    return step_time(found, spread, machine, calibration)


@pytest.mark.parametrize("platform", ["gb200", "gb300"])
def test_the_published_recipe_lands_within_15_percent_of_the_published_figure(
    platform: str,
) -> None:
    found = of_preset("deepseek3-671b", 128, platform).time
    assert found is not None
    assert found.flops() == pytest.approx(PUBLISHED, rel=0.15)
    assert found.flops("slow") < PUBLISHED < found.flops("fast")


def test_1024_gpus_keep_97_percent_of_128() -> None:
    few, many = (of_preset("deepseek3-671b", gpus, "gb300").time for gpus in (128, 1024))
    assert few is not None
    assert many is not None
    assert many.flops() / few.flops() == pytest.approx(0.97, abs=0.02)


def test_no_constant_is_said_to_be_fitted_to_a_maxtext_run() -> None:
    facts = read("step_model.yaml")
    rows = [*facts["efficiencies"].values(), *facts["shares"].values(), facts["layer_seconds"]]
    for row in rows:
        assert "MaxText run" not in row["source"]
        assert row["source"].startswith(("judgement", "K"))
    said = " ".join(facts["sources"].values())
    assert "1,068" not in said
    assert "97 %" not in said


def test_a_range_runs_from_slow_to_fast_and_names_its_largest_part() -> None:
    found = timed(work())
    assert found.seconds("fast") < found.seconds() < found.seconds("slow")
    assert found.dominant == max(found.parts["middle"], key=found.parts["middle"].__getitem__)
    assert set(found.parts["middle"]) <= set(read("step_model.yaml")["parts"])
    for pace in PACES:
        assert min(found.parts[pace].values()) >= 0


def test_a_calibration_replaces_the_range_of_what_it_says() -> None:
    plain = timed(work())
    found = timed(work(), calibration={"grouped_fp8": 0.6, "imbalance": 1.0})
    assert not plain.calibrated
    assert found.calibrated
    experts = {pace: found.parts[pace]["expert_gemm"] for pace in PACES}
    assert len(set(experts.values())) == 1
    ratio = experts["middle"] / plain.parts["middle"]["expert_gemm"]
    assert ratio == pytest.approx(0.545 / 0.6 / 1.05)


def test_mfu_is_of_the_dense_peak_of_the_dtype_that_the_experts_have() -> None:
    found = timed(work())
    assert (found.dtype, found.peak) == ("mxfp8", 4900e12)
    assert found.mfu() == pytest.approx(found.flops() / 4900e12)
    bf16 = timed(work(te_gmm_quantization="te_no_quant"))
    assert (bf16.dtype, bf16.peak) == ("bf16", 2450e12)
    # Hopper has no MXFP8; FP8 is the nearest it has.
    assert timed(work(), {"expert": 8}, platform="h100").dtype == "fp8"


def test_the_dense_path_multiplies_every_expert_by_every_token() -> None:
    native: dict[str, Any] = {"te_moe_block": False, "quantization": "", "sparse_matmul": False}
    dense = work(**native, capacity_factor=-1.0)
    grouped = work(te_gmm_quantization="te_no_quant", quantization="")
    assert dense.expert_gemm / grouped.expert_gemm == pytest.approx(256 / 8)
    assert dense.model_flops == grouped.model_flops
    dropping = work(**native, capacity_factor=1.25)
    assert dropping.expert_gemm / grouped.expert_gemm == pytest.approx(1.25)
    assert dropping.dense_gemm > grouped.dense_gemm  # the masks


def test_without_a_grouped_kernel_each_local_expert_multiplies_all_rows() -> None:
    native: dict[str, Any] = {"te_moe_block": False, "quantization": "", "sparse_matmul": True}
    plain = timed(work(**native, use_tokamax_gmm=True), calibration={"imbalance": 1.0})
    bounded = timed(work(**native, ragged_buffer_factor=2.0), calibration={"imbalance": 1.0})
    loose = timed(work(**native), calibration={"imbalance": 1.0})
    wanted = plain.parts["middle"]["expert_gemm"]
    assert bounded.parts["middle"]["expert_gemm"] == pytest.approx(wanted * 256 / 8 * 2)
    assert loose.parts["middle"]["expert_gemm"] == pytest.approx(wanted * 256 / 8 * 8)
    assert bounded.model_flops == plain.model_flops


def test_what_is_kept_is_not_done_again() -> None:
    full = work()
    kept = work(remat_policy="custom", context="device", query_proj="device", out_proj="offload")
    assert kept.attention == pytest.approx(full.attention * 3.5 / 4.5)
    assert kept.attention_gemm < full.attention_gemm
    # The block has no names inside: its experts are done again.
    block = work(remat_policy="custom", moe_mlpwi_0="device", moe_mlpwi_1="device")
    assert block.expert_gemm == full.expert_gemm
    assert block.transfers == full.transfers == 5


def test_attention_without_a_fused_kernel_takes_the_whole_square() -> None:
    assert work(attention="dot_product").attention == pytest.approx(2 * work().attention)
    assert work(attention="dot_product").score_bytes > 0


def test_offload_costs_time_only_where_compute_cannot_hide_it() -> None:
    model = made("deepseek3-671b")
    known = {**values("deepseek3-671b"), **RECIPE}
    little, much = (work_of(model, known, offloaded=size) for size in (1e9, 1e13))
    assert little is not None
    assert much is not None
    assert timed(little).parts["middle"]["offload"] == 0
    assert timed(much).parts["middle"]["offload"] > 1


def test_a_domain_that_is_left_goes_over_the_network_card() -> None:
    inside = timed(work(), {"fsdp": 8, "expert": 8})
    outside = timed(work(), {"expert": 64}, platform="b200")
    near = timed(work(), {"fsdp": 8, "expert": 8}, platform="b200")
    assert outside.parts["middle"]["exchange"] > 3 * near.parts["middle"]["exchange"]
    assert near.parts["middle"]["exchange"] == pytest.approx(inside.parts["middle"]["exchange"])


def test_a_pipeline_has_a_bubble_that_microbatches_and_repeats_fill() -> None:
    mesh = {"pipeline": 4, "expert": 8}
    few = timed(replace(work(), microbatches=4), mesh).parts["middle"]["bubble"]
    many = timed(replace(work(), microbatches=16), mesh).parts["middle"]["bubble"]
    turned = timed(replace(work(), microbatches=4, repeats=4), mesh).parts["middle"]["bubble"]
    assert many == pytest.approx(few / 4) == turned
    assert "bubble" not in timed(work()).parts["middle"]


@pytest.mark.parametrize(
    ("experts", "top_k", "ranks", "hit"), [(256, 8, 8, 5.29), (8, 2, 1, 1.0), (8, 8, 4, 4.0)]
)
def test_a_token_goes_to_as_many_ranks_as_its_experts_are_expected_on(
    experts: int, top_k: int, ranks: int, hit: float
) -> None:
    assert ranks_hit(experts, top_k, ranks) == pytest.approx(hit, abs=0.005)


@pytest.mark.parametrize(
    "changes",
    [
        {"per_device_batch_size": 0},
        {"per_device_batch_size": True},
        {"max_target_length": None},
        {"gradient_accumulation_steps": "2"},
    ],
    ids=str,
)
def test_without_a_batch_there_is_no_work(changes: dict[str, Any]) -> None:
    assert work_of(made("mixtral-8x7b"), {**values("mixtral-8x7b"), **RECIPE, **changes}) is None


def test_a_platform_without_published_peaks_has_no_machine() -> None:
    assert machine_of(hardware.platform("vr-nvl72")) is None


MESHES = st.fixed_dictionaries({
    "fsdp": st.sampled_from([1, 2, 8, 64]), "expert": st.sampled_from([1, 2, 8]),
    "data": st.sampled_from([1, 2]), "tensor": st.sampled_from([1, 2]),
})  # fmt: skip
NAMES = st.sampled_from(["deepseek3-671b", "qwen3-30b-a3b", "gpt-oss-20b", "llama4-17b-16e"])


@given(NAMES, MESHES, st.integers(1, 8), st.sampled_from(["gb200", "b300", "h100"]))
@settings(max_examples=60, deadline=None)
def test_more_work_takes_longer_and_paces_are_ordered(
    name: str, mesh: dict[str, int], batch: int, platform: str
) -> None:
    small = timed(work(name, per_device_batch_size=batch), mesh, platform=platform)
    large = timed(work(name, per_device_batch_size=batch * 2), mesh, platform=platform)
    twice = timed(work(name, per_device_batch_size=batch, gradient_accumulation_steps=2), mesh,
                  platform=platform)  # fmt: skip
    for pace in PACES:
        assert large.seconds(pace) > small.seconds(pace)
        assert twice.seconds(pace) > small.seconds(pace)
    assert small.seconds("fast") <= small.seconds() <= small.seconds("slow")
    assert large.model_flops == pytest.approx(2 * small.model_flops)
    assert twice.model_flops == pytest.approx(2 * small.model_flops)


@given(NAMES, MESHES, st.sampled_from(sorted(read("step_model.yaml")["efficiencies"])))
@settings(max_examples=60, deadline=None)
def test_a_better_efficiency_never_takes_longer(
    name: str, mesh: dict[str, int], which: str
) -> None:
    reached = efficiencies()["middle"][which]
    worse, better = (
        timed(work(name), mesh, calibration={which: r}) for r in (reached / 2, reached)
    )
    assert better.seconds() <= worse.seconds() * (1 + 1e-12)


@given(MESHES, st.integers(1, 72))
def test_ranks_that_share_a_domain_divide_their_group(mesh: dict[str, int], domain: int) -> None:
    found = spread_of(mesh, {"fsdp": 2}, domain)
    assert found.gpus == 2 * mesh["fsdp"] * mesh["expert"] * mesh["data"] * mesh["tensor"]
    assert found.fsdp % found.fsdp_near == 0
    assert found.expert % found.expert_near == 0
    assert found.expert_near <= max(1, domain)


def test_float32_is_multiplied_at_half_the_peak_and_sends_twice_the_bytes() -> None:
    plain: dict[str, Any] = {"quantization": "", "te_gmm_quantization": ""}
    half, whole = timed(work(**plain)), timed(work(**plain, dtype="float32"))
    assert whole.dtype == "tf32"
    assert whole.peak == half.peak / 2
    for name in ("attention_gemm", "attention", "expert_gemm", "logits", "exchange"):
        assert whole.parts["middle"][name] == pytest.approx(2 * half.parts["middle"][name])
    assert whole.model_flops == half.model_flops


def test_weights_and_moments_on_the_host_come_and_go_each_step() -> None:
    found = work()
    kept, away = timed(found), timed(replace(found, stored=10e9))
    link = 225e9 * efficiencies()["middle"]["host_link"]
    grown = away.parts["middle"]["offload"] - kept.parts["middle"]["offload"]
    assert grown == pytest.approx(2 * 10e9 / link)


def test_more_experts_a_token_than_there_are_reach_all_ranks() -> None:
    assert ranks_hit(8, 9, 4) == ranks_hit(8, 8, 4) == 4
