"""Memory rules: what does not fit is found at its line, and what ran stays clean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.facts import hardware, maxtext
from moectl.findings import Finding
from moectl.rules.memory import RULES
from moectl.rules.memory_case import mesh_sizes
from moectl.values import Origin, Value
from moectl.workload import MARK, UNKNOWN, Layout, Piece, Text, Workload

FILE = "bs 16's $(cfg).yml"
PUBLISHED: dict[str, Any] = {
    "model_name": "deepseek3-671b",
    "dcn_fsdp_parallelism": 8,
    "ici_fsdp_parallelism": 1,
    "ici_expert_parallelism": 8,
    "per_device_batch_size": 16,
    "max_target_length": 4096,
    "remat_policy": "full",
    "sparse_matmul": False,
    "capacity_factor": 1.25,
    "weight_dtype": "bfloat16",
}


def workload(
    config: dict[str, Any],
    *,
    gpus: int | None = 64,
    gpu: str | None = "b200",
    environment: dict[str, str] | None = None,
    kind: str = "MaxText config",
    flags: str | None = None,
    **more: Any,
) -> Workload:
    catalogue = maxtext.load("0.2.5")
    values = dict(catalogue.base) | dict(catalogue.model(str(config.get("model_name", ""))) or {})
    said = {
        key: Value(value, Origin("config", FILE, line, 1))
        for line, (key, value) in enumerate(config.items(), start=1)
    }
    return Workload(
        kind=kind,
        origin=Origin("config", FILE, 1, 1),
        maxtext="0.2.5",
        jaxlib="0.12.0.1",
        is_maxtext=True,
        config=said,
        effective=values | config,
        devices=gpus,
        hardware=None if gpu is None else hardware.platform(gpu),
        environment={
            name: Text.of(text, Origin("export", "run.sh", 40 + line, 8))
            for line, (name, text) in enumerate((environment or {}).items())
        },
        flags=None if flags is None else Text.of(flags, Origin("export", "run.sh", 9, 8)),
        **more,
    )


def found(w: Workload) -> list[Finding]:
    return [finding for rule in RULES.all for finding in rule.findings(w)]


def one(w: Workload) -> Finding:
    (finding,) = found(w)
    return finding


def test_a_batch_from_a_larger_gpu_is_an_error_with_limit_range_and_what_fits() -> None:
    finding = one(workload(PUBLISHED))
    assert (finding.code, finding.severity) == ("MEM111", "error")
    assert (finding.file, finding.line) == (FILE, 5)
    assert "58.7 GiB of weights and moments" in finding.message
    assert "b200-hgx has 179.1 GiB" in finding.message
    assert "memory fraction 0.97" in finding.message
    assert "per_device_batch_size=7 at memory fraction 0.93" in finding.hint


def test_at_a_known_fraction_the_published_limits_are_said() -> None:
    w = workload(PUBLISHED, environment={"XLA_PYTHON_CLIENT_MEM_FRACTION": ".93"}, kind="script")
    finding = one(w)
    assert finding.code == "MEM111"
    assert "a pool of 165.9 GiB at memory fraction 0.93" in finding.message
    assert "plans with 101.8 GiB" in finding.message
    assert "what should fit is per_device_batch_size=7 at memory fraction 0.93" in finding.hint


def test_a_slop_factor_in_the_flags_changes_what_the_scheduler_plans_with() -> None:
    flags = "--xla_gpu_memory_limit_slop_factor=90 --xla_gpu_memory_limit_slop_factor=80"
    assert "plans with 91.5 GiB" in one(workload(PUBLISHED, flags=flags)).message
    broken = "--xla_gpu_memory_limit_slop_factor=1e3"
    assert "plans with 108.6 GiB" in one(workload(PUBLISHED, flags=broken)).message


@pytest.mark.parametrize("name", ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"])
def test_a_batch_on_the_edge_is_a_warning_that_names_the_fraction_that_fits(name: str) -> None:
    w = workload(PUBLISHED | {"per_device_batch_size": 8}, environment={name: "0.93"})
    finding = one(w)
    assert (finding.code, finding.severity) == ("MEM112", "warning")
    assert "XLA_CLIENT_MEM_FRACTION=0.95 would hold it" in finding.hint
    assert (
        found(workload(PUBLISHED | {"per_device_batch_size": 8}, environment={name: ".95"})) == []
    )


def test_without_environment_the_edge_is_a_warning_too() -> None:
    finding = one(workload(PUBLISHED | {"per_device_batch_size": 8}))
    assert finding.code == "MEM112"
    assert "at the default memory fraction 0.75" in finding.message
    assert "XLA_CLIENT_MEM_FRACTION=0.95" in finding.hint


@pytest.mark.parametrize(
    ("batch", "factor"), [(4, 1.25), (6, 1.25), (7, 1.25), (7, 1.0), (8, 1.0), (5, 2.0), (2, 4.0)]
)
def test_what_was_seen_to_run_is_clean_at_its_fraction(batch: int, factor: float) -> None:
    changes = {"per_device_batch_size": batch, "capacity_factor": factor}
    w = workload(PUBLISHED | changes, environment={"XLA_PYTHON_CLIENT_MEM_FRACTION": ".93"})
    assert found(w) == []


def test_capacity_counts_and_the_finding_stands_at_its_line() -> None:
    changes = {"per_device_batch_size": 7, "capacity_factor": 4.0}
    w = workload(PUBLISHED | changes, environment={"XLA_PYTHON_CLIENT_MEM_FRACTION": ".93"})
    finding = one(w)
    assert (finding.code, finding.line, finding.field) == ("MEM111", 9, "capacity_factor")
    assert "capacity_factor=1.0 instead of 4 spares" in finding.hint


def test_gradient_accumulation_is_explained_where_it_is_said() -> None:
    changes = {"per_device_batch_size": 7, "gradient_accumulation_steps": 2}
    w = workload(PUBLISHED | changes, environment={"XLA_PYTHON_CLIENT_MEM_FRACTION": ".93"})
    finding = one(w)
    assert (finding.code, finding.severity, finding.line) == ("MEM112", "warning", 11)
    assert finding.field == "gradient_accumulation_steps"
    assert "gradient_accumulation_steps=2 saves nothing" in finding.hint
    assert "a buffer of 19.6 GiB" in finding.hint


def test_float32_weights_leave_no_room_for_a_single_sequence() -> None:
    finding = one(workload(PUBLISHED | {"weight_dtype": "float32"}))
    assert finding.code == "MEM111"
    assert "not even one sequence a GPU fits" in finding.hint


def test_without_hardware_it_is_said_how_few_platforms_could_hold_it() -> None:
    layout = Layout(gpus_per_node=Value(8, Origin("--gpus-per-node")))
    finding = one(workload(PUBLISHED, gpu=None, layout=layout))
    assert (finding.code, finding.severity, finding.line) == ("MEM113", "warning", 5)
    only = "of 5 catalogued platforms only b300-hgx (from memory fraction 0.87) could hold that"
    assert only in finding.message
    assert finding.hint.startswith("--hardware judges it for your GPUs; capacity_factor=1.0")
    edge = one(workload(PUBLISHED | {"per_device_batch_size": 8}, gpu=None, layout=layout))
    assert "b200-hgx (from memory fraction 0.95), b300-hgx (from memory fraction 0.64)" in (
        edge.message
    )
    large = one(workload(PUBLISHED | {"per_device_batch_size": 18}, gpu=None, layout=layout))
    assert "b300-hgx (from memory fraction 0.93)" in large.message
    assert found(workload(PUBLISHED | {"per_device_batch_size": 1}, gpu=None, layout=layout)) == []


def test_without_gpus_or_hardware_open_degrees_say_nothing() -> None:
    config = PUBLISHED | {"ici_fsdp_parallelism": -1}
    assert found(workload(config, gpus=None, gpu=None)) == []


@pytest.mark.parametrize(
    ("config", "more"),
    [
        ({"per_device_batch_size": UNKNOWN}, {}),
        ({"dcn_fsdp_parallelism": UNKNOWN}, {}),
        ({"weight_dtype": UNKNOWN}, {}),
        ({"model_name": "somebody's-own"}, {}),
        ({"dcn_fsdp_parallelism": 4}, {}),
        ({"dcn_fsdp_parallelism": -1, "dcn_data_parallelism": -1, "ici_data_parallelism": -1}, {}),
        ({}, {"gpu": "vr"}),
        ({}, {"environment": {"TF_FORCE_UNIFIED_MEMORY": "1"}}),
        ({}, {"environment": {"XLA_CLIENT_MEM_FRACTION": "88"}}),
        ({}, {"environment": {"XLA_CLIENT_MEM_FRACTION": "most"}}),
    ],
    ids=str,
)
def test_what_is_unknown_or_faulty_elsewhere_is_not_judged(
    config: dict[str, Any], more: dict[str, Any]
) -> None:
    assert found(workload(PUBLISHED | config, **more)) == []


def test_an_unknown_fraction_is_no_fraction() -> None:
    text = Text((Piece(MARK, Origin("export", "run.sh", 3, 1)),))
    w = replace(workload(PUBLISHED), environment={"XLA_CLIENT_MEM_FRACTION": text})
    assert "even at memory fraction 0.97" in one(w).message


def test_other_programs_are_not_judged() -> None:
    assert found(replace(workload(PUBLISHED), is_maxtext=False)) == []


def test_experts_cut_over_fsdp_with_expert_parallelism_are_an_error_with_the_bytes() -> None:
    config = PUBLISHED | {"per_device_batch_size": 8, "shard_exp_on_fsdp": True}
    errors = [f for f in found(workload(config, gpu=None, gpus=None)) if f.severity == "error"]
    (finding,) = errors
    assert (finding.code, finding.line) == ("MEM114", 11)
    assert "each rank holds 8 times the expert weights" in finding.message
    assert "458.3 GiB a GPU instead of 58.7 GiB (492112176128 bytes)" in finding.message
    assert finding.hint == "shard_exp_on_fsdp: false"


def test_experts_cut_over_fsdp_without_expert_parallelism_are_fine() -> None:
    config = PUBLISHED | {
        "ici_expert_parallelism": 1,
        "ici_fsdp_parallelism": 8,
        "shard_exp_on_fsdp": True,
        "per_device_batch_size": 1,
    }
    assert [f for f in found(workload(config)) if f.code == "MEM114"] == []
    off = PUBLISHED | {"shard_exp_on_fsdp": False, "per_device_batch_size": 1}
    assert [f for f in found(workload(off)) if f.code == "MEM114"] == []


@pytest.mark.parametrize("tolerance", [1.0, 0.5, UNKNOWN])
def test_a_maxtext_that_is_told_to_tolerate_it_may_start(tolerance: object) -> None:
    config = PUBLISHED | {"shard_exp_on_fsdp": True, "sharding_tolerance": tolerance}
    (finding,) = [f for f in found(workload(config)) if f.code == "MEM114"]
    assert finding.severity == "warning"


OFFLOAD = {
    "model_name": "deepseek3-671b",
    "optimizer_memory_host_offload": True,
    "parameter_memory_host_offload": True,
    "weight_dtype": "bfloat16",
}


def test_offload_without_a_host_limit_is_an_error_when_nobody_says_how_many_processes() -> None:
    w = workload(OFFLOAD, gpus=None, gpu=None, kind="MaxText command")
    finding = one(w)
    assert (finding.code, finding.severity, finding.line) == ("MEM115", "error", 2)
    assert "3749.7 GiB or more over all processes" in finding.message
    assert "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB is not set" in finding.message
    assert "59 processes or more, and nothing here starts that many" in finding.message


def test_a_plain_model_without_weight_table_is_counted_from_its_layers() -> None:
    config = OFFLOAD | {"model_name": "llama3-70b", "weight_dtype": "float32"}
    finding = one(workload(config, gpus=None, gpu=None, kind="MaxText command"))
    layers = 80 * (2 * 8192 * 128 * (64 + 8) + 3 * 8192 * 28672)
    assert f"pins {layers * 8 / 2**30:.1f} GiB or more" in finding.message
    assert (finding.severity, finding.line) == ("error", 2)
    unknown = config | {"base_mlp_dim": UNKNOWN, "decoder_block": UNKNOWN}
    assert found(workload(unknown, gpus=None, gpu=None, kind="script")) == []


@pytest.mark.parametrize(
    ("gpus", "hardware", "layout", "refused"),
    [
        (4, "gpu_multiprocess", Layout(), True),
        (8, "gpu_multiprocess", Layout(), False),
        (64, "gpu_multiprocess", Layout(), False),
        (8, "gpu", Layout(gpus_per_node=Value(8, Origin("--gpus-per-node"))), True),
        (16, "gpu", Layout(processes=Value(2, Origin("#SBATCH"))), True),
        (64, "gpu", Layout(gpus_per_node=Value(8, Origin("--gpus-per-node"))), False),
    ],
)
def test_a_model_without_weight_table_is_shared_by_the_processes_that_are_told(
    gpus: int, hardware: str, layout: Layout, refused: bool
) -> None:
    config = OFFLOAD | {"model_name": "llama3-70b", "weight_dtype": "float32"}
    w = workload(config | {"hardware": hardware}, gpus=gpus, kind="MaxText command", layout=layout)
    told = [finding for finding in found(w) if finding.code == "MEM115"]
    assert [finding.severity for finding in told] == ["error"] * refused


def test_with_some_nodes_told_it_is_a_warning() -> None:
    layout = Layout(nodes=Value(UNKNOWN, Origin("#SBATCH")))
    w = workload(OFFLOAD, gpus=None, gpu=None, kind="script", layout=layout)
    assert one(w).severity == "warning"


def offloaded(environment: dict[str, str], **changes: Any) -> list[Finding]:
    config = PUBLISHED | OFFLOAD | {"per_device_batch_size": 1, "hardware": "gpu_multiprocess"}
    w = workload(config | changes, environment=environment, kind="script")
    return [finding for finding in found(w) if finding.code == "MEM115"]


def test_the_host_limit_is_compared_with_what_one_process_pins() -> None:
    assert offloaded({}) == []  # 58.7 GiB a GPU within 64
    (finding,) = offloaded({"XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": "48"})
    assert "pins 58.7 GiB a GPU" in finding.message
    assert "stops at 48.0 GiB a process" in finding.message
    assert (finding.file, finding.line) == (FILE, 11)
    (finding,) = offloaded({"XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE": "true"})
    assert "stops at 16.0 GiB" in finding.message
    assert offloaded({"XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": "80"}) == []
    assert offloaded({"XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": "lots"}) == []


def test_one_process_with_all_gpus_of_a_node_pins_for_all_of_them() -> None:
    config = PUBLISHED | OFFLOAD | {"per_device_batch_size": 1, "hardware": "gpu"}
    layout = Layout(gpus_per_node=Value(8, Origin("--gpus-per-node")))
    w = workload(config, kind="script", layout=layout)
    (finding,) = [f for f in found(w) if f.code == "MEM115"]
    assert "in a process with 8 GPUs" in finding.message


def test_offloaded_activations_count_for_the_host() -> None:
    changes = {
        "optimizer_memory_host_offload": False,
        "parameter_memory_host_offload": False,
        "remat_policy": "custom",
        "decoder_layer_input": "offload",
        "per_device_batch_size": 24,
    }
    (finding,) = offloaded({}, **changes)
    assert "pins 80.1 GiB a GPU" in finding.message
    assert finding.field == "remat_policy"


def test_a_config_file_without_environment_may_run_with_any_host_limit() -> None:
    assert [f for f in found(workload(OFFLOAD, gpus=None, gpu=None)) if f.code == "MEM115"] == []


def test_no_offload_and_a_small_model_say_nothing() -> None:
    plain = {**OFFLOAD, "optimizer_memory_host_offload": False}
    plain["parameter_memory_host_offload"] = False
    assert found(workload(plain, gpus=None, gpu=None, kind="script")) == []
    small = OFFLOAD | {"model_name": "gpt-oss-20b", "parameter_memory_host_offload": False}
    limit = {"XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": "500"}
    assert found(workload(small, gpus=None, gpu=None, kind="script", environment=limit)) == []


HOSTILE: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([UNKNOWN, None, True, "", "8", "nan", [], {}, 10**400, -(10**400), 0, -1, 3]),
    st.floats(),
    st.integers(),
)
KEYS = st.sampled_from([
    *PUBLISHED, *OFFLOAD, "shard_exp_on_fsdp", "gradient_accumulation_steps", "mu_dtype",
    "ragged_buffer_factor", "num_vocab_tiling", "base_emb_dim", "base_num_decoder_layers",
    "num_experts", "vocab_size", "num_experts_per_tok", "ici_data_parallelism", "quantization",
    "dcn_data_parallelism", "opt_type", "logical_axis_rules", "sharding_tolerance", "head_dim",
    "first_num_dense_layers", "decoder_layer_input", "te_moe_block", "hardware", "decoder_block",
])  # fmt: skip


@given(
    st.dictionaries(KEYS, HOSTILE, max_size=3),
    st.sampled_from([None, "b200"]),
    st.sampled_from([None, 64, 1]),
    st.sampled_from(["", "nan", "inf", "1e400", "-1", ".93", "٣"]),
    st.sampled_from([{}, OFFLOAD, {"shard_exp_on_fsdp": True}]),
)
@settings(max_examples=200, deadline=None)
def test_no_value_makes_a_rule_fail(
    changes: dict[str, Any], gpu: str | None, gpus: int | None, text: str, more: dict[str, Any]
) -> None:
    environment = {"XLA_CLIENT_MEM_FRACTION": text, "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": text}
    w = workload(
        PUBLISHED | more | changes, gpus=gpus, gpu=gpu, environment=environment, kind="script"
    )
    for finding in found(w):
        assert "\n" not in finding.message
        assert finding.hint


def test_open_degrees_are_filled_from_the_gpus() -> None:
    w = workload(PUBLISHED | {"ici_fsdp_parallelism": -1, "dcn_fsdp_parallelism": 1}, gpus=32)
    sizes = mesh_sizes(w)
    assert sizes is not None
    assert (sizes["fsdp"], sizes["expert"], sizes["data"]) == (4, 8, 1)
    assert mesh_sizes(replace(w, devices=12)) is None


@pytest.mark.parametrize("rule", RULES.all, ids=lambda rule: rule.code)
def test_every_rule_says_why_and_what_to_do(rule: Any) -> None:
    assert rule.reason
    assert rule.remedy
    assert rule.source
    assert rule.stage in {"later", "silent", "advice"}
