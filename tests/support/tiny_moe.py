"""A mixture-of-experts model that real MaxText trains in a moment on CPU."""

from __future__ import annotations

from typing import Any

TINY: dict[str, Any] = {
    "base_config": "base.yml",
    "model_name": "default",
    "hardware": "gpu_multiprocess",
    "decoder_block": "mixtral",
    "base_emb_dim": 32,
    "base_num_query_heads": 2,
    "base_num_kv_heads": 2,
    "head_dim": 16,
    "base_mlp_dim": 64,
    "base_moe_mlp_dim": 64,
    "base_num_decoder_layers": 1,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 128,
    "max_target_length": 32,
    "per_device_batch_size": 1,
    "attention": "dot_product",
    "sparse_matmul": False,
    "megablox": False,
    "dataset_type": "synthetic",
    "run_name": "tiny",
}
