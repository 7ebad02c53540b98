"""The dimensions of a step, and the activations, logits and expert buffers that hang on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.sharding import ITEM_BYTES

COMPUTE_BYTES = 2  # of bfloat16, in which runs were measured and layouts count gathered weights
_CUSTOM = "custom"
_INPUT = "decoder_layer_input"
_PLACES = frozenset({"device", "offload"})
_LOGIT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """The dimensions of a model and step that activations hang on."""

    tokens: float
    emb: int
    vocab: int
    layers: int
    dense: int
    names: Mapping[str, float]

    def layers_of(self, which: str) -> int:
        """Return how many layers hold an activation: all, dense or moe."""
        return {"all": self.layers, "dense": self.dense, "moe": self.layers - self.dense}[which]


def sizes_of(values: Mapping[str, Any], mesh: Mapping[str, int]) -> Sizes | None:
    """Return the dimensions of a step; None where one of them is not known."""
    batch, sequence = values.get("per_device_batch_size"), values.get("max_target_length")
    emb, vocab = whole(values, "base_emb_dim"), whole(values, "vocab_size")
    layers = whole(values, "base_num_decoder_layers")
    if not isinstance(batch, int | float) or not isinstance(sequence, int) or sequence < 1:
        return None
    if isinstance(batch, bool) or not 0 < batch < 1e6 or not (emb and vocab and layers):
        return None
    experts = whole(values, "num_experts") or 1
    dense = layers if experts == 1 else min(layers, whole(values, "first_num_dense_layers") or 0)
    heads = whole(values, "base_num_query_heads") or 1
    shared = whole(values, "shared_experts") or 0
    latent = values.get("attention_type") == "mla"
    head_dim = whole(values, "head_dim") or 128
    query = (
        (whole(values, "qk_nope_head_dim") or 0) + (whole(values, "qk_rope_head_dim") or 0)
        if latent
        else head_dim
    )
    names: dict[str, float] = {
        "emb": emb,
        "heads": heads,
        "kv_heads": heads if latent else whole(values, "base_num_kv_heads") or heads,
        "query": query,
        "key": query,
        "value": (whole(values, "v_head_dim") or head_dim) if latent else head_dim,
        "q_lora": whole(values, "q_lora_rank") or 0,
        "kv_lora": (whole(values, "kv_lora_rank") or 0) + (whole(values, "qk_rope_head_dim") or 0),
        "mlp": whole(values, "base_mlp_dim") or 0,
        "expert": whole(values, "base_moe_mlp_dim") or whole(values, "base_mlp_dim") or 0,
        "shared": (shared if experts > 1 else 0) * (whole(values, "base_moe_mlp_dim") or 0),
        "slots": 0.0 if experts == 1 else _slots(values, mesh, experts),
    }
    return Sizes(batch * sequence, emb, vocab, layers, dense, names)


def _slots(values: Mapping[str, Any], mesh: Mapping[str, int], experts: int) -> float:
    """Return the rows of expert buffers a token: top-k times the capacity that is set aside."""
    top_k = whole(values, "num_experts_per_tok") or 1
    factor = values.get("capacity_factor")
    ragged = values.get("ragged_buffer_factor")
    if values.get("sparse_matmul") is False:
        return top_k * float(str(factor)) if dropping(values) else float(experts)
    if isinstance(ragged, int | float) and ragged > 0:
        return top_k * float(ragged)
    # Without a bound the buffer must hold every token of the expert-parallel group.
    return float(top_k * mesh.get("expert", 1))


def dropping(values: Mapping[str, Any]) -> bool:
    """Return whether experts have a fixed capacity and drop what is over it."""
    factor = values.get("capacity_factor")
    whole_factor = isinstance(factor, int | float) and not isinstance(factor, bool)
    return values.get("sparse_matmul") is False and whole_factor and float(str(factor)) > 0


def activations(values: Mapping[str, Any], sizes: Sizes) -> tuple[int, int, str]:
    """Return bytes of activations kept on the GPU, kept on the host, and the spread's row."""
    facts = read("memory.yaml")
    untagged = set(facts["untagged_with"]) if values.get("te_moe_block") is True else set()
    # One tensor has one of the two names.
    untagged |= set(facts["fused" if values.get("fused_mlp") is not True else "split"])
    untagged |= {name for name, key in facts["switched"].items() if values.get(key) is not True}
    each = sizes.tokens * compute_bytes(values)
    per_tensor = {
        name: int(each * _elements(text, sizes))
        for name, text in facts["tensors"].items()
        if name not in untagged
    }
    places = places_of(values)
    if values.get("remat_policy") != _CUSTOM:
        places[_INPUT] = "device"
    kept = sum(size for name, size in per_tensor.items() if places.get(name) == "device")
    offloaded = sum(size for name, size in per_tensor.items() if places.get(name) == "offload")
    basis = _row(values).get("spread", "custom")
    if sizes.names["slots"] and not dropping(values) and not values.get("te_moe_block"):
        basis = "native"
    elif sizes.names["slots"] and values.get("sparse_matmul") is not False:
        basis = "dropless"
    elif basis == "full" and not dropping(values):
        basis = "unknown"
    elif basis == "full" and values.get("quantization"):
        basis = "quantized"
    if compute_bytes(values) != COMPUTE_BYTES:
        basis = "unknown"  # what was measured and compiled was in 16 bits
    return kept, offloaded, basis


def places_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the activations that the remat policy keeps: "device" or "offload" by name."""
    if values.get("remat_policy") == _CUSTOM:
        names = read("memory.yaml")["tensors"]
        said = {name: values.get(name, "remat") for name in names}
        return {name: str(place) for name, place in said.items() if place in _PLACES}
    row = _row(values)
    device = dict.fromkeys(row.get("device", ()), "device")
    return device | dict.fromkeys(row.get("host", ()), "offload")


def _row(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a remat policy keeps; one that nobody knows keeps nothing."""
    policy = values.get("remat_policy") or "none"
    rows: Mapping[Any, Mapping[str, Any]] = read("memory.yaml")["policies"]
    return rows.get(policy, {"spread": "unknown"}) if isinstance(policy, str) else {}


def compute_bytes(values: Mapping[str, Any]) -> int:
    """Return the bytes of an element of MaxText's dtype; two where nobody says."""
    dtype = values.get("dtype")
    return ITEM_BYTES.get(dtype, COMPUTE_BYTES) if isinstance(dtype, str) else COMPUTE_BYTES


def _elements(text: str, sizes: Sizes) -> float:
    """Return the elements a token that an activation holds in all its layers."""
    return sum(
        prod([sizes.names[name] for name in names]) * sizes.layers_of(which)
        for names, which in _terms(text)
    )


@cache
def _terms(text: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the products of a formula, each with the layers it exists in."""
    terms = (term.partition(":") for term in text.split(" + "))
    return tuple((tuple(product.split("*")), which) for product, _, which in terms)


def logits(values: Mapping[str, Any], sizes: Sizes, mesh: Mapping[str, int]) -> int:
    """Return the bytes of the logits in float32, as far as they are cut or tiled."""
    tiles = values.get("num_vocab_tiling")
    cut = prod(mesh.get(axis, 1) for axis in ("tensor", "tensor_sequence"))
    cut *= tiles if isinstance(tiles, int) and tiles > 0 else 1
    return int(sizes.tokens * sizes.vocab * _LOGIT_BYTES / cut)


def expert_buffers(
    values: Mapping[str, Any], mesh: Mapping[str, int], sizes: Sizes, facts: Mapping[str, Any]
) -> int:
    """Return the bytes of the buffers that routed tokens pass through in one layer."""
    wide, inner, local = facts["moe_width_rows"], facts["moe_expert_rows"], 1
    rows = facts["padded_rows"]
    sparse = padded(values, facts)
    dense = values.get("sparse_matmul") is False and not dropping(values)
    if sparse:
        local = max(1, (whole(values, "num_experts") or 1) // mesh.get("expert", 1))
        wide, inner = rows["fused" if values.get("prefuse_moe_weights") is True else "split"]
    elif dense:
        wide, inner = rows["dense"]
    if (sparse or dense) and values.get("mlp_bias") is True:
        wide, inner = wide + rows["bias"][0], inner + rows["bias"][1]
    row = wide * sizes.emb + inner * sizes.names["expert"]
    return int(sizes.tokens * sizes.names["slots"] * local * row * compute_bytes(values))


def padded(values: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Return whether the experts' grouped product is one product for each local expert."""
    native = values.get("te_moe_block") is not True and values.get("sparse_matmul") is not False
    kernel = any(values.get(key) is True for key in facts["grouped_kernels"])
    return native and not kernel and (whole(values, "num_experts") or 1) > 1


def whole(values: Mapping[str, Any], key: str) -> int | None:
    """Return a value that is a whole number above zero, else None."""
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
