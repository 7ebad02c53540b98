"""A run made small: nothing grows, nothing is turned on, what hangs together stays together."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.facts.yaml_facts import read
from moectl.shrink.rules import CannotShrinkError, shrink

FACTS = read("shrink.yaml")
DEEPSEEK: dict[str, Any] = {
    "base_emb_dim": 7168, "base_num_query_heads": 128, "base_num_kv_heads": 128,
    "base_mlp_dim": 18432, "base_moe_mlp_dim": 2048, "base_num_decoder_layers": 61,
    "first_num_dense_layers": 3, "num_experts": 256, "num_experts_per_tok": 8,
    "shared_experts": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "n_routing_groups": -1,
    "attention_type": "mla", "routed_score_func": "sigmoid", "decoder_block": "deepseek",
    "vocab_size": 129280, "mtp_num_layers": 0, "dtype": "bfloat16", "weight_dtype": "float32",
    "remat_policy": "custom",
}  # fmt: skip
KEYS = [*FACTS["sizes"], FACTS["layers"]["key"], *FACTS["layers"]["cycle_keys"]]
AXES = ("data", "fsdp", "expert", "tensor", "pipeline", "context")


def test_deepseek_keeps_its_kinds_of_layers_and_axes() -> None:
    small = shrink(DEEPSEEK, {"fsdp": 16, "expert": 8, "data": 1}, 4)
    assert small.degrees == {"fsdp": 2, "expert": 2, "data": 1}
    assert small.devices == 4
    assert small.sizes["base_num_decoder_layers"] == 3
    assert small.sizes["first_num_dense_layers"] == 1
    assert small.sizes["base_num_kv_heads"] == small.sizes["base_num_query_heads"] == 4
    assert small.sizes["base_moe_mlp_dim"] < small.sizes["base_mlp_dim"]
    assert not {"shared_experts", "n_routing_groups", "mtp_num_layers"} & small.sizes.keys()
    kept = "; ".join(small.kept)
    for word in ("mla", "sigmoid", "shared experts", "first dense", "custom", "fsdp x expert"):
        assert word in kept


def test_grouped_queries_stay_grouped_and_alternating_layers_alternate() -> None:
    values = {
        "base_num_query_heads": 64, "base_num_kv_heads": 8, "base_num_decoder_layers": 24,
        "inhomogeneous_layer_cycle_interval": 2, "base_mlp_dim": 2880, "base_moe_mlp_dim": 2880,
    }  # fmt: skip
    sizes = shrink(values, {"fsdp": 16, "data": 1}, 8).sizes
    assert (sizes["base_num_query_heads"], sizes["base_num_kv_heads"]) == (4, 2)
    assert sizes["base_num_decoder_layers"] == 4
    assert sizes["base_mlp_dim"] == sizes["base_moe_mlp_dim"]


@given(
    st.dictionaries(st.sampled_from(KEYS), st.integers(-1, 10**6) | st.booleans() | st.text()),
    st.dictionaries(st.sampled_from(AXES), st.integers(1, 64)),
    st.sampled_from([1, 2, 4, 8]),
)
def test_nothing_grows_and_nothing_is_turned_on(
    values: dict[str, Any], mesh: dict[str, int], node: int
) -> None:
    try:
        small = shrink(values, mesh, node)
    except CannotShrinkError:
        axes = [size for size in mesh.values() if size > 1]
        least = prod([2] * len(axes))
        fills = set(FACTS["mesh"]["fills"]) & mesh.keys()
        assert least > 16 or not fills or least * node > 16
        return
    for key, value in small.sizes.items():
        assert 0 < value < values[key]
    assert small.degrees.keys() == mesh.keys()
    assert small.devices % node == 0
    assert small.devices <= FACTS["mesh"]["devices"]
    for axis, size in mesh.items():
        assert size == 1 or small.degrees[axis] > 1
    for one, other in FACTS["equal"]:
        both = [values.get(one), values.get(other)]
        if all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in both):
            after = [small.sizes.get(one, both[0]), small.sizes.get(other, both[1])]
            assert both[0] != both[1] or after[0] == after[1]
    assert shrink({**values, **small.sizes}, small.degrees, node).sizes == {}


def test_a_mesh_of_too_many_axes_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(CannotShrinkError, match="takes 64 devices when every axis is 2"):
        shrink({}, dict.fromkeys(AXES, 2), 1)
