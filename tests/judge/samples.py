"""Configurations for the judge."""

from __future__ import annotations

from typing import Any

# The published DeepSeek-V3 recipe with only the keys that MaxText 0.2.5 has: 128 GPUs in two
# slices, fsdp 16 (8 inside a slice, 2 across) x expert 8.
DEEPSEEK: dict[str, Any] = {
    "base_config": "base.yml",
    "model_name": "deepseek3-671b",
    "max_target_length": 4096,
    "hardware": "gpu_multiprocess",
    "per_device_batch_size": 6,
    "steps": 15,
    "attention": "cudnn_flash_te",
    "remat_policy": "custom",
    "quantization": "te_fp8_currentscaling",
    "te_moe_block": True,
    "te_gmm_quantization": "te_mxfp8",
    "ragged_buffer_factor": 2.0,
    "te_ep_overflow_check_every_n_steps": 20,
    "prefuse_moe_weights": True,
    "weight_dtype": "bfloat16",
    "mu_dtype": "bfloat16",
    "moe_mlpwi_0": "offload",
    "moe_mlpwi_1": "offload",
    "megablox": False,
    "ici_fsdp_parallelism": 8,
    "ici_expert_parallelism": 8,
    "dcn_data_parallelism": 1,
    "dcn_fsdp_parallelism": 2,
    "dataset_type": "synthetic",
    "enable_checkpointing": False,
    "base_output_directory": "out",
    "run_name": "judged",
}
# Keys of the published recipe that MaxText 0.2.5 has not.
UNKNOWN_IN_RECIPE = {
    "pgle": True,
    "zero_one": False,
    "use_segment": False,
    "custom_remat_enabled": True,
    "nodes": 32,
}


def model(name: str, fsdp: int, expert: int, **keys: Any) -> dict[str, Any]:
    """Return a job that has the train state of a model file judged on one slice."""
    config = {
        "base_config": "base.yml",
        "model_name": name,
        "hardware": "gpu_multiprocess",
        "attention": "dot_product",
        "weight_dtype": "bfloat16",
        "mu_dtype": "bfloat16",
        "per_device_batch_size": 1,
        "steps": 5,
        "ici_fsdp_parallelism": fsdp,
        "ici_expert_parallelism": expert,
        "dcn_data_parallelism": 1,
        "dataset_type": "synthetic",
        "enable_checkpointing": False,
        "base_output_directory": "out",
        "run_name": "judged",
    }
    return {
        "mode": "state",
        "devices": fsdp * expert,
        "slices": 1,
        "config": config | keys,
        "keys": ["num_experts"],
    }
