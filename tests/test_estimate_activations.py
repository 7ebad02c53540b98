"""Sizes that saved activations are reckoned from, and logits."""

from __future__ import annotations

from typing import Any

import pytest

from moectl.estimate.activations import logits, sizes_of

DENSE: dict[str, Any] = {
    "base_emb_dim": 64,
    "base_num_query_heads": 4,
    "base_num_kv_heads": 2,
    "base_num_decoder_layers": 3,
    "base_mlp_dim": 256,
    "head_dim": 16,
    "vocab_size": 1000,
    "per_device_batch_size": 2,
    "max_target_length": 128,
}


@pytest.mark.parametrize(
    ("more", "expected"),
    [({}, 0), ({"kv_lora_rank": 32}, 32), ({"kv_lora_rank": 32, "qk_rope_head_dim": 8}, 40)],
)
def test_the_latent_is_its_rank_and_what_is_rotated(more: dict[str, int], expected: int) -> None:
    sizes = sizes_of({**DENSE, **more}, {})
    assert sizes is not None
    assert sizes.names["kv_lora"] == expected


@pytest.mark.parametrize(("more", "expected"), [({}, 256), ({"base_moe_mlp_dim": 96}, 96)])
def test_an_expert_without_a_width_of_its_own_has_that_of_the_layer(
    more: dict[str, int], expected: int
) -> None:
    sizes = sizes_of({**DENSE, **more}, {})
    assert sizes is not None
    assert sizes.names["expert"] == expected


def test_logits_shrink_with_what_cuts_the_vocabulary() -> None:
    sizes = sizes_of(DENSE, {})
    assert sizes is not None
    whole = logits(DENSE, sizes, {})
    assert whole >= sizes.tokens * 1000 * 4
    assert logits(DENSE, sizes, {"tensor": 4}) * 4 == whole
