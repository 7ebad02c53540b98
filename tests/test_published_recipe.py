"""Every value of the published DeepSeek-V3 recipe is in what is rendered.

The recipe: NVIDIA's technical blog on dropless MoE training in JAX with Transformer Engine, and
NVIDIA/JAX-Toolbox docs/frameworks/maxtext/deepseek-v3-moe/README.md @8fe3109.
"""

from __future__ import annotations

from typing import Any

import pytest

from moectl.actions.plan import Wishes
from moectl.actions.render import Rendered, render
from moectl.render.slurm import launch_script
from moectl.settings.files import preset

# MaxText keys of the recipe that MaxText 0.2.5 has, as published.
KEYS: dict[str, Any] = {
    "model_name": "deepseek3-671b",
    "max_target_length": 4096,
    "hardware": "gpu_multiprocess",
    "per_device_batch_size": 6,
    "gradient_accumulation_steps": 1,
    "steps": 15,
    "attention": "cudnn_flash_te",
    "remat_policy": "custom",
    "quantization": "te_fp8_currentscaling",
    "te_moe_block": True,
    "te_gmm_quantization": "te_mxfp8",
    "ragged_buffer_factor": 2.0,
    "te_ep_overflow_check_every_n_steps": 20,
    "prefuse_moe_weights": True,
    "sparse_matmul": True,
    "weight_dtype": "bfloat16",
    "mu_dtype": "bfloat16",
    "profiler": "xplane",
    "scan_layers": True,
    "shardy": True,
    "skip_first_n_steps_for_profiler": 4,
    "logits_dot_in_fp32": False,
    "use_iota_embed": False,
    "n_routing_groups": -1,
    "topk_routing_group": -1,
    "capacity_factor": 1.0,
    "megablox": False,
    "ici_data_parallelism": 1,
    "ici_fsdp_parallelism": 8,
    "ici_tensor_parallelism": 1,
    "ici_expert_parallelism": 8,
    "dcn_data_parallelism": 1,
    "dcn_fsdp_parallelism": 2,
    "dcn_tensor_parallelism": 1,
    "dcn_expert_parallelism": 1,
    "shard_optimizer_over_data": False,
    "shard_exp_on_fsdp": False,
}
# The nested map custom_remat_config, which became top-level keys.
REMAT = {
    "mlpwi": "device",
    "mlpwi_0": "device",
    "mlpwi_1": "device",
    "mlpwo": "device",
    "moe_mlpwi_0": "offload",
    "moe_mlpwi_1": "offload",
    "moe_mlpwo": "device",
    "query_proj": "remat",
    "key_proj": "remat",
    "value_proj": "remat",
    "query_wa_proj": "device",
    "kv_wa_proj": "device",
    "out_proj": "device",
    "context": "device",
}
FLAGS: dict[str, Any] = {
    "xla_gpu_all_reduce_combine_threshold_bytes": 33554432,
    "xla_gpu_all_gather_combine_threshold_bytes": 6442450944,
    "xla_gpu_reduce_scatter_combine_threshold_bytes": 201326592,
    "xla_gpu_experimental_enable_nccl_symmetric_buffers": False,
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUDNN,DYNAMIC_SLICE_FUSION",
    "xla_gpu_experimental_max_unroll_factor": 8,
    "xla_gpu_memory_limit_slop_factor": 99,
}
VARIABLES = {
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.88",
    "CUDA_DEVICE_MAX_CONNECTIONS": "16",
    "XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE": "false",
    "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": "180",
}
# Keys the launcher of the publication read, which MaxText refuses.
LAUNCHER_KEYS = (
    "pgle", "zero_one", "use_segment", "custom_remat_enabled", "custom_remat_config", "nodes",
)  # fmt: skip


@pytest.fixture(scope="module")
def rendered() -> Rendered:
    return render("deepseek3-671b", Wishes(options={"gpus": (128, "--gpus")}))


@pytest.mark.parametrize("key", KEYS)
def test_a_published_key_has_its_published_value(key: str, rendered: Rendered) -> None:
    value = rendered.job.effective[key]
    assert value == KEYS[key]
    assert isinstance(value, bool) is isinstance(KEYS[key], bool)


@pytest.mark.parametrize("name", REMAT)
def test_the_nested_remat_map_became_top_level_keys(name: str, rendered: Rendered) -> None:
    assert rendered.job.config[name].value == REMAT[name]


@pytest.mark.parametrize("flag", FLAGS)
def test_a_published_flag_has_its_published_value(flag: str, rendered: Rendered) -> None:
    assert rendered.job.xla_flags[flag].value == FLAGS[flag]


@pytest.mark.parametrize("name", VARIABLES)
def test_a_published_variable_has_its_published_value(name: str, rendered: Rendered) -> None:
    assert rendered.job.environment[name].value == VARIABLES[name]


@pytest.mark.parametrize("key", LAUNCHER_KEYS)
def test_a_key_of_the_launcher_is_told_to_nobody_and_explained(
    key: str, rendered: Rendered
) -> None:
    assert key not in rendered.job.config
    assert key not in rendered.job.arguments
    assert key in " ".join(preset("deepseek3-671b").notes)


def test_nodes_became_the_nodes_of_the_launch(rendered: Rendered) -> None:
    assert (rendered.job.nodes, rendered.job.processes_per_node) == (32, 4)
    assert "#SBATCH --nodes=32" in rendered.files["launch.sbatch"]


def test_pgle_became_its_variables_with_a_window_before_the_trace(rendered: Rendered) -> None:
    said = {name: value.value for name, value in rendered.job.environment.items()}
    assert said["JAX_ENABLE_PGLE"] == "true"
    first_traced = rendered.job.effective["skip_first_n_steps_for_profiler"]
    assert int(said["JAX_PGLE_PROFILING_RUNS"]) < first_traced


def test_use_segment_became_a_switch_of_the_placement(rendered: Rendered) -> None:
    without = render("deepseek3-671b", Wishes(sets=["cluster.segment=false"]))
    assert "--segment" in launch_script(rendered.job)
    assert "#SBATCH --segment" not in launch_script(without.job)


def test_the_published_mesh_is_sixteen_by_eight_in_two_slices(rendered: Rendered) -> None:
    job = rendered.job
    above = {axis: degree.total for axis, degree in job.mesh.degrees.items() if degree.total > 1}
    assert above == {"fsdp": 16, "expert": 8}
    assert (job.mesh.slices, job.batch.global_batch) == (2, 768)


def test_the_image_adds_its_own_flags_before_ours(rendered: Rendered) -> None:
    first = next(iter(rendered.job.xla_flags))
    assert first == "xla_gpu_enable_latency_hiding_scheduler"
    assert "baked into the image" in str(rendered.job.xla_flags[first].origin)


def test_what_the_recipe_is_warned_of_is_accepted_with_a_reason(rendered: Rendered) -> None:
    warnings = [f for f in rendered.job.findings if f.severity == "warning"]
    assert {f.code for f in warnings} >= {"XLA306", "XLA308"}
    assert all("published recipe" in f.accepted for f in warnings)
