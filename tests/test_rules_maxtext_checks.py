"""Checks between keys that are arithmetic, and what a later stage than MaxText's check decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moectl.facts.images import image
from moectl.findings import Finding
from moectl.rules.maxtext_verdict import all_rules, refused, workload
from moectl.values import Origin, Value
from moectl.workload import Layout, Workload

BASE = "base_config: base.yml\nhardware: gpu_multiprocess\n"
BLOCK = "te_moe_block: true\nici_expert_parallelism: 4\nici_fsdp_parallelism: 2\n"
OVERLAP = "te_comm_gemm_overlap: full\nquantization: te_mxfp8\nici_tensor_sequence_parallelism: 2\n"
# code, the lines that break the rule, the line that is named, the lines that mend it
CASES: list[tuple[str, str, int, str]] = [
    ("MOE134", "shard_exp_on_fsdp: true\nuse_2d_fsdp_sharding: true\n", 4,
     "shard_exp_on_fsdp: true\n"),
    ("DATA110", "video_max_grid_t: 3\n", 3,
     "video_max_grid_t: 3\nvideo_max_grid_h: 3\nvideo_max_grid_w: 3\n"),
    ("DATA111", "chat_template: '{% if %}'\n", 3, "chat_template: '{{ messages }}'\n"),
    ("OPT102",
     "lr_schedule_type: wsd\nwarmup_steps_fraction: 0.9\nwsd_decay_steps_fraction: 0.2\n", 5,
     "lr_schedule_type: wsd\nwarmup_steps_fraction: 0.9\nwsd_decay_steps_fraction: 0.1\n"),
    ("OPT103", "shard_optimizer_over_data: true\n", 3,
     "shard_optimizer_over_data: true\nici_fsdp_parallelism: 1\nici_data_parallelism: -1\n"),
    ("OPT103", "shard_optimizer_over_data: true\nici_fsdp_parallelism: 8\n", 3,
     "shard_optimizer_over_data: false\nici_fsdp_parallelism: 8\n"),
    ("OPT117", "dcn_diloco_parallelism: -1\ndcn_data_parallelism: 4\n", 3,
     "dcn_diloco_parallelism: -1\ndcn_data_parallelism: 1\n"),
    ("OPT118", "compile_topology: nope\n", 3, "compile_topology: v5e-256\n"),
    ("MODEL112", "global_parameter_scale: 3\n", 3, "global_parameter_scale: 8\n"),
    ("MODEL112", "global_parameter_scale: 0\n", 3, "global_parameter_scale: 1\n"),
    ("MODEL113", "engram_layers: [1]\nengram_vocab_bases: [1, 2, 3]\n", 4,
     "engram_layers: []\nengram_vocab_bases: [1, 2, 3]\n"),
    ("BAT101", "per_device_batch_size: .inf\n", 3, "per_device_batch_size: 2.5\n"),
    ("BAT101", "expansion_factor_real_data: .inf\n", 3, "expansion_factor_real_data: .nan\n"),
    ("QNT111", "mu_dtype: bf16\n", 3, "mu_dtype: bfloat16\n"),
    ("QNT112", "mu_dtype: int32\n", 3, "mu_dtype: float32\n"),
    ("PIPE101", "ici_pipeline_parallelism: 4\nnum_layers_per_pipeline_stage: 3\n", 4,
     "ici_pipeline_parallelism: 4\nnum_layers_per_pipeline_stage: 4\n"),
    ("PIPE102",
     "ici_pipeline_parallelism: 4\nnum_layers_per_pipeline_stage: 1\nnum_pipeline_repeats: 3\n", 5,
     "ici_pipeline_parallelism: 4\nnum_layers_per_pipeline_stage: 1\nnum_pipeline_repeats: 4\n"),
    ("PIPE109", "mesh_axes: [stage, fsdp]\nici_pipeline_parallelism: 2\n", 3,
     "mesh_axes: [data, stage, fsdp]\nici_pipeline_parallelism: 2\n"),
    ("PIPE110", "ici_pipeline_parallelism: 4\nsparse_matmul: true\n", 4,
     "ici_pipeline_parallelism: 4\nsparse_matmul: false\n"),
    ("CTX141", "decoder_block: qwen3_next\nhead_dim: 6\npartial_rotary_factor: 0.5\n", 5,
     "decoder_block: qwen3_next\nhead_dim: 8\npartial_rotary_factor: 0.5\n"),
    ("CTX142", "compress_ratios: [4, 0, 2]\n", 3, "compress_ratios: [4, 0, 8]\n"),
    ("CTX143", "constant_bound_config: a,b\n", 3, "constant_bound_config: '1, 2.5'\n"),
    ("CTX144", "use_tokamax_splash: true\nuse_jax_splash: 'false'\n", 3,
     "use_tokamax_splash: true\nuse_jax_splash: false\n"),
    ("CTX161", "ici_context_parallelism: 2\nattention: cudnn_flash_te\npacking: true\n", 5,
     "ici_context_parallelism: 2\nattention: cudnn_flash_te\npacking: false\n"),
    ("CTX161", "ici_context_parallelism: 2\nattention: cudnn_flash_te\n", 3,
     "ici_context_parallelism: 2\nattention: cudnn_flash_te\ncontext_parallel_strategy: ring\n"),
    ("CTX162",
     "model_name: gemma2-9b\nici_context_parallelism: 2\nattention: cudnn_flash_te\n"
     "packing: false\n", 4,
     "model_name: gemma2-9b\nici_context_parallelism: 2\nattention: dot_product\n"),
    ("CTX163", "model_name: gemma2-9b\nattention: cudnn_flash_te\n", 4,
     "model_name: llama2-7b\nattention: cudnn_flash_te\n"),
    ("CTX164", "ici_context_parallelism: 2\nmax_target_length: 4098\n", 4,
     "ici_context_parallelism: 2\nmax_target_length: 4096\n"),
    ("CTX164", "ici_context_parallelism: 3\nmax_target_length: 4098\n", 3,
     "ici_context_parallelism: 3\nmax_target_length: 4098\n"
     "context_parallel_load_balance: false\n"),
    ("CTX165", "base_num_query_heads: 6\nbase_num_kv_heads: 4\n", 4,
     "base_num_query_heads: 8\nbase_num_kv_heads: 4\n"),
    ("CTX165", "base_num_query_heads: 8\nbase_num_kv_heads: 4\nici_tensor_parallelism: 8\n", 5,
     "base_num_query_heads: 8\nbase_num_kv_heads: 8\nici_tensor_parallelism: 8\n"),
    ("MESH101", "model_name: deepseek3-671b\nici_expert_parallelism: 6\n", 4,
     "model_name: deepseek3-671b\nici_expert_parallelism: 8\n"),
    ("MESH106", "per_device_batch_size: 0.3\n", 3, "per_device_batch_size: 0.5\n"),
    ("MESH106", "per_device_batch_size: 0.0625\n", 3, "per_device_batch_size: 0.125\n"),
    ("MESH107", "per_device_batch_size: 0.5\n", 3, "per_device_batch_size: 1\n"),
    ("MESH102", "per_device_batch_size: 1.5\n", 3, "per_device_batch_size: 2\n"),
    ("MOE135", "num_experts: 6\nshard_exp_on_fsdp: true\n", 4,
     "num_experts: 16\nshard_exp_on_fsdp: true\n"),
    ("TE131", f"{OVERLAP}base_emb_dim: 2000\n", 6, f"{OVERLAP}base_emb_dim: 2048\n"),
    ("TE131", f"{OVERLAP}base_mlp_dim: 1000\n", 6, f"{OVERLAP}base_mlp_dim: 1024\n"),
    ("TE131", f"{OVERLAP}max_target_length: 1000\n", 6, f"{OVERLAP}max_target_length: 1024\n"),
    ("TE131", f"{OVERLAP}head_dim: 100\n", 6, f"{OVERLAP}head_dim: 96\n"),
    ("TE131", f"{OVERLAP}base_emb_dim: 2000\n", 6,
     f"{OVERLAP}base_emb_dim: 2000\n".replace("te_mxfp8", "te_fp8_currentscaling")),
    ("TE131", f"{OVERLAP}base_emb_dim: 2000\n", 6,
     f"{OVERLAP}base_emb_dim: 2000\n".replace("full", "disabled")),
    ("CKPT120", "enable_emergency_checkpoint: true\n", 3, "enable_emergency_checkpoint: false\n"),
    ("TE113", f"{BLOCK}ici_tensor_parallelism: 2\n", 6, f"{BLOCK}ici_tensor_parallelism: 1\n"),
    ("TE114", f"{BLOCK}dcn_expert_parallelism: 2\n", 6, f"{BLOCK}dcn_fsdp_parallelism: 2\n"),
    ("TE115", f"{BLOCK}per_device_batch_size: 1.5\n", 6, f"{BLOCK}per_device_batch_size: 3\n"),
    ("TE115", f"{BLOCK}eval_interval: 5\neval_per_device_batch_size: 12.5\n", 2,
     f"{BLOCK}eval_interval: 5\neval_per_device_batch_size: 13\n"),
    ("TE130", "te_comm_gemm_overlap: full\nquantization: te_mxfp8\n", 3,
     "te_comm_gemm_overlap: disabled\n"),
    ("TE130", "te_comm_gemm_overlap: bogus\n", 3, "te_comm_gemm_overlap: DISABLED\n"),
]  # fmt: skip
SLICES = {"OPT117": (16, 2), "TE114": (16, 2)}


def judged(code: str, made: Workload) -> list[Finding]:
    rule = next(rule for rule in all_rules() if rule.code == code)
    return list(rule.findings(made))


def found(code: str, text: str, devices: int = 8, slices: int = 1) -> list[Finding]:
    return judged(code, workload(BASE + text, (), devices, slices))


@pytest.mark.parametrize(("code", "broken", "line", "mended"), CASES)
def test_a_broken_check_is_found_at_its_line_and_a_mended_one_is_silent(
    code: str, broken: str, line: int, mended: str
) -> None:
    devices, slices = SLICES.get(code, (8, 1))
    faults = found(code, broken, devices, slices)
    assert faults
    if line != 2:
        assert line in [fault.line for fault in faults]
    assert all(fault.file == "config.yml" and fault.hint for fault in faults)
    assert found(code, mended, devices, slices) == []


def test_every_arithmetic_rule_has_a_case() -> None:
    table = {row.code for row in all_rules() if row.check is not None}
    elsewhere = ("KEY", "MESH10", "MESH11", "MESH12", "TE118", "MODEL115")
    from moectl.rules.requirements import rows  # noqa: PLC0415

    rowed = {row["code"] for row in rows()}
    missing = {
        code
        for code in table - rowed - {case[0] for case in CASES}
        if not code.startswith(elsewhere)
    }
    assert missing == set()


@pytest.mark.parametrize(("code", "broken", "line", "mended"), CASES)
def test_the_verdict_follows_the_stage_of_the_rule(
    code: str, broken: str, line: int, mended: str
) -> None:
    rule = next(rule for rule in all_rules() if rule.code == code)
    devices, slices = SLICES.get(code, (8, 1))
    codes = [finding.code for finding in refused(BASE + broken, (), devices, slices)]
    assert (code in codes) is (rule.stage == "config")


def test_layers_that_do_not_divide_get_the_layers_and_stages_that_would() -> None:
    text = "dcn_pipeline_parallelism: 4\nnum_layers_per_pipeline_stage: 4\n"
    faults = found("PIPE101", f"model_name: deepseek3-671b\n{text}", 32, 4)
    assert [f.line for f in faults] == [5]
    assert "4 stages x 4 layers a stage = 16" in faults[0].message
    assert "58 pipelined layers (of 61 layers, 3 are dense" in faults[0].message
    assert "pipeline_parallel_layers=56 with" in faults[0].hint
    mended = "pipeline_parallel_layers: 56\nnum_layers_per_pipeline_stage: 2\n"
    text = f"model_name: deepseek3-671b\ndcn_pipeline_parallelism: 4\n{mended}"
    assert found("PIPE101", text, 32, 4) == []
    assert refused(BASE + text + "per_device_batch_size: 4\n", (), 32, 4) == []


def test_a_micro_batch_names_its_arithmetic_and_what_to_write() -> None:
    faults = found("MESH106", "per_device_batch_size: 0.3\n", 8)
    assert "0.3 x 8 GPUs = 2.4 sequences, and MaxText trains on 2 of them" in faults[0].message
    assert faults[0].hint == "per_device_batch_size may be 0.25 or 0.375"
    faults = found("MESH102", "per_device_batch_size: 1.5\nici_fsdp_parallelism: 8\n", 8)
    assert faults[0].hint == "write per_device_batch_size: 1"
    idle = found("MESH107", "per_device_batch_size: 0.5\n", 8)
    assert [(f.severity, f.hint) for f in idle] == [("warning", "write per_device_batch_size: 1")]


def test_a_part_of_a_sequence_a_gpu_is_right_where_other_axes_share_it() -> None:
    """Seen to run with real MaxText on 8 devices, as is an accumulated 1.5."""
    half = "per_device_batch_size: 0.5\nici_fsdp_parallelism: 4\nici_tensor_parallelism: 2\n"
    accumulated = "per_device_batch_size: 1.5\ngradient_accumulation_steps: 2\n"
    for code in ("MESH102", "MESH106", "MESH107"):
        assert found(code, half) == []
        assert found(code, accumulated) == []


def test_every_unmet_condition_of_the_collective_gemm_is_named() -> None:
    text = "base_config: base.yml\nhardware: gpu\nte_comm_gemm_overlap: full\n"
    made = workload(f"{text}ici_tensor_parallelism: 2\n", (), 8, 1)
    fields = [fault.field for fault in judged("TE130", made)]
    assert fields == [
        "hardware", "ici_tensor_sequence_parallelism", "ici_tensor_parallelism", "quantization",
    ]  # fmt: skip
    mended = (
        "te_comm_gemm_overlap: mlp\nici_tensor_sequence_parallelism: 2\nquantization: te_mxfp8\n"
    )
    assert found("TE130", mended) == []


@pytest.mark.parametrize(
    ("layout", "faults"),
    [
        (Layout(processes=Value(2, Origin("a")), gpus=Value(8, Origin("a"))), 1),
        (Layout(processes=Value(8, Origin("a")), gpus=Value(8, Origin("a"))), 0),
        (Layout(gpus_per_process=Value(4, Origin("a"))), 1),
        (Layout(gpus_per_process=Value(1, Origin("a"))), 0),
        (Layout(gpus=Value(8, Origin("a"))), 0),
        (Layout(), 0),
    ],
)
def test_the_block_wants_one_gpu_a_process(layout: Layout, faults: int) -> None:
    made = replace(workload(BASE + BLOCK, (), 8, 1), layout=layout)
    assert len(judged("TE118", made)) == faults
    native = replace(workload(BASE, (), 8, 1), layout=layout)
    assert judged("TE118", native) == []


@pytest.mark.parametrize(("date", "severity"), [("2025-01-10", "error"), ("2026-09-09", "note")])
def test_emergency_checkpoints_fail_in_old_images_only(date: str, severity: str) -> None:
    made = workload(f"{BASE}enable_emergency_checkpoint: true\n", (), 8, 1)
    made = replace(made, image=image(f"ghcr.io/nvidia/jax:maxtext-{date}"))
    assert [fault.severity for fault in judged("CKPT120", made)] == [severity]


def test_what_is_not_known_is_not_judged() -> None:
    text = f"{BASE}te_moe_block: true\nper_device_batch_size: ${{oc.env:B}}\n"
    made = workload(text, (), None, None)
    for code in (
        "TE115",
        "MESH102",
        "MESH106",
        "MESH107",
        "MESH101",
        "PIPE101",
        "CTX164",
        "OPT103",
        "BAT101",
    ):
        assert judged(code, made) == []


@pytest.mark.parametrize(
    ("lines", "mended"),
    [
        ("check_vma: true\n", "check_vma: true\nshard_mode: auto\n"),
        ("opt_type: muon\n", "opt_type: muon\ndecoder_block: llama2\n"),
        ("shard_mode: explicit\n", "shard_mode: explicit\nmodel_name: llama2-7b\n"),
    ],
)
def test_a_default_of_the_code_that_its_check_cannot_read_is_refused(
    lines: str, mended: str
) -> None:
    faults = judged("MODEL115", workload(lines, (), 8, 1))
    assert [f.line for f in faults] == [1]
    assert judged("MODEL115", workload(mended, (), 8, 1)) == []
    assert judged("MODEL115", workload(BASE + lines, (), 8, 1)) == []
    assert "MODEL115" in [f.code for f in refused(lines, (), 8, 1)]


def test_open_replicas_take_the_first_open_degree_and_leave_the_next() -> None:
    text = "dcn_diloco_parallelism: -1\n"
    assert refused(BASE + text, (), 16, 2) == []
    assert refused(f"{BASE}{text}dcn_fsdp_parallelism: -1\n", (), 16, 2)


def test_rules_that_somebody_replaced_are_not_taken_for_maxtexts() -> None:
    text = "per_device_batch_size: 1.5\nlogical_axis_rules: [[activation_batch, []]]\n"
    assert found("MESH102", text) == []


def test_every_dimension_of_a_collective_gemm_is_named_with_its_neighbours() -> None:
    text = (
        f"{OVERLAP}base_emb_dim: 2000\nbase_mlp_dim: 1000\nmax_target_length: 1000\nhead_dim: 100\n"
    )
    faults = found("TE131", text)
    assert [(f.field, f.line, f.severity) for f in faults] == [
        ("base_emb_dim", 6, "error"),
        ("max_target_length", 8, "error"),
        ("base_mlp_dim", 7, "error"),
        ("head_dim", 9, "error"),
    ]
    assert faults[0].hint == "base_emb_dim may be 1920 or 2048"
    assert "2000, no multiple of 128" in faults[0].message
    # Only the MLP is overlapped, and the attention may be of any size.
    mlp = found("TE131", text.replace("full", "MLP"))
    assert [f.field for f in mlp] == ["base_emb_dim", "max_target_length", "base_mlp_dim"]
    assert found("TE131", f"{OVERLAP}per_device_batch_size: 16\nmax_target_length: 1000\n") == []


def test_experts_over_fsdp_are_not_counted_where_the_expert_axis_is_at_fault() -> None:
    text = "num_experts: 6\nshard_exp_on_fsdp: true\nici_expert_parallelism: 2\n"
    assert found("MOE135", text) == []
    assert len(found("MOE135", text.replace("parallelism: 2", "parallelism: 1"))) == 1


@pytest.mark.parametrize("slices", [1, 2, 4])
def test_the_batch_is_judged_however_many_slices_there_are(slices: int) -> None:
    for devices_of in (slices, None):
        made = workload(f"{BASE}per_device_batch_size: 1.5\n", (), 8, devices_of)
        assert [f.field for f in judged("MESH102", made)] == ["per_device_batch_size"]
        whole = workload(f"{BASE}per_device_batch_size: 2\n", (), 8, devices_of)
        assert judged("MESH102", whole) == []


def test_the_batch_of_a_mesh_that_is_none_is_not_judged() -> None:
    text = f"{BASE}per_device_batch_size: 1.5\nici_fsdp_parallelism: 3\n"
    assert judged("MESH102", workload(text, (), 8, 1)) == []
