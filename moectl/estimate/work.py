"""What one device does in a micro-step: machine work, bytes moved and sent, all but the mesh.

Model FLOPs (`flops`) are what counts; this is what the machine does for them: what is computed
again in the backward pass, every expert on every token where MaxText has no grouped kernel, and
the whole square of attention without a fused kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import comb
from typing import Any

from moectl.estimate import flops
from moectl.estimate.activations import COMPUTE_BYTES, compute_bytes, dropping, padded, places_of
from moectl.estimate.architecture import Architecture
from moectl.facts.yaml_facts import read

_TRANSFERS = 4  # dispatch and combine, forward and backward


@dataclass(frozen=True, slots=True)
class Work:
    """A micro-step of one device.

    Attributes:
        model: the architecture.
        tokens: tokens a device and micro-step.
        sequence: tokens a sequence.
        accumulation: micro-steps an optimizer step.
        model_flops: model FLOPs a device and step, as MaxText counts them.
        attention_gemm, dense_gemm, expert_gemm, logits: FLOPs of all passes of a micro-step.
        attention: FLOPs of the attention core, all passes.
        score_bytes: bytes of scores that go through memory without a fused kernel.
        moved: bytes of element-wise work through memory, all passes.
        dense_dtype, expert_dtype: dtypes of the GEMMs, keys of `dense_tflops` where a GPU has
            them.
        deduplicated: whether a token is sent once to each rank that one of its experts lies on;
            otherwise every routed row is sent by itself.
        rows: routed rows a token that are sent.
        transfers: exchanges a layer and micro-step.
        quantized_gather: whether the experts' weights are gathered quantized.
        offloaded: bytes of activations that go to the host and come back.
        stored: bytes of weights and moments that lie on the host and come and go each step.
        expert_weights: elements of the experts of all layers.
        other_weights: elements of everything else but the vocabulary tables.
        tables: elements of the vocabulary tables.
        fused: whether attention has a fused kernel.
        padded: whether the experts' grouped product is one product over all rows for each local
            expert, so that `expert_gemm` and their element-wise work grow with both.
        bound: rows of a buffer over the rows wanted; 0 without a bound, which holds the tokens
            of all expert-parallel ranks.
        repeats: repeats of a circular pipeline; microbatches of it.
        width: bytes of an element of activations and of weights at work.
        core_dtype: dtype of attention and logits, which are never quantized.
    """

    model: Architecture
    tokens: float
    sequence: int
    accumulation: int
    model_flops: float
    attention_gemm: float
    dense_gemm: float
    expert_gemm: float
    logits: float
    attention: float
    score_bytes: float
    moved: float
    dense_dtype: str
    expert_dtype: str
    deduplicated: bool
    rows: float
    transfers: int
    quantized_gather: bool
    offloaded: float
    expert_weights: float
    other_weights: float
    tables: float
    fused: bool
    padded: bool = False
    bound: float = 0.0
    repeats: int = 1
    microbatches: int = 0
    stored: float = 0.0
    width: int = COMPUTE_BYTES
    core_dtype: str = "bf16"


def work_of(
    model: Architecture,
    values: Mapping[str, Any],
    *,
    offloaded: float = 0.0,
    stored: float = 0.0,
    again: Mapping[str, float] | None = None,
) -> Work | None:
    """Return the work of a micro-step.

    Args:
        model: the architecture.
        values: effective MaxText values: batch, sequence, accumulation, remat, quantization, the
            MoE path and the attention kernel are read.
        offloaded: bytes of activations that a micro-step keeps in host memory.
        stored: bytes of weights and moments that are kept in host memory.
        again: shares of the forward work that are done again, by kind (attention_gemm,
            attention, mlp, experts), in place of what the remat map says.

    Returns:
        None where batch, sequence or accumulation is not known.
    """
    batch, sequence = values.get("per_device_batch_size"), values.get("max_target_length")
    accumulation = values.get("gradient_accumulation_steps", 1)
    numbers = (batch, sequence, accumulation)
    if any(isinstance(n, bool) or not isinstance(n, int | float) or not n > 0 for n in numbers):
        return None
    facts = read("step_model.yaml")
    sequence, accumulation = int(str(sequence)), int(str(accumulation))
    tokens = float(str(batch)) * sequence
    forward = flops.per_token(model, sequence)
    kept = frozenset(places_of(values))
    plain = str(facts["compute_dtypes"].get(values.get("dtype"), "bf16"))
    width = compute_bytes(values)
    fused = values.get("attention") not in facts["unfused"]
    block = values.get("te_moe_block") is True
    if again is None:
        again = _again(model, facts, kept, block=block, fused=fused)
    dense_dtype = _dtype(values.get("quantization"), facts, plain)
    expert_dtype = _dtype(values.get("te_gmm_quantization"), facts, plain) if block else dense_dtype
    rows, multiplied, mixed = _rows(model, values, sequence, block=block)
    core = forward.attention + forward.prediction_attention
    # Forward FLOPs of prediction layers are spread like those of the layers.
    grown = 1.0 + model.prediction / max(1, model.layers)
    backward = float(facts["attention_backward"])
    heads = model.heads * sequence * (model.full if model.delta else model.layers)
    return Work(
        model=model,
        tokens=tokens,
        sequence=sequence,
        accumulation=accumulation,
        model_flops=flops.tokens_per_step(float(str(batch)), sequence, accumulation)
        * forward.training,
        attention_gemm=tokens * forward.attention_gemm * grown * (3 + again["attention_gemm"]),
        dense_gemm=tokens * forward.dense_gemm * (3 + again["mlp"])
        + tokens * forward.router * 3
        + tokens * mixed * model.moe * (3 + again["experts"]),
        expert_gemm=tokens * forward.expert_gemm * grown * multiplied * (3 + again["experts"]),
        logits=tokens * forward.logits * 3,
        attention=tokens * core * (1 + again["attention"] + backward) * (1 if fused else 2),
        score_bytes=0.0
        if fused
        else tokens * heads * facts["score_bytes"] * (2 + again["attention"]),
        moved=_moved(model, facts, tokens, rows, again, quantized=expert_dtype != plain)
        * (width / COMPUTE_BYTES),
        dense_dtype=dense_dtype,
        expert_dtype=expert_dtype,
        deduplicated=block,
        rows=rows if not block else float(model.top_k),
        transfers=_TRANSFERS + (1 if again["experts"] else 0),
        quantized_gather=block and expert_dtype != plain,
        offloaded=offloaded,
        expert_weights=float(model.moe * model.experts * _ffn(model) * model.expert)
        if model.experts > 1
        else 0.0,
        other_weights=_other_weights(forward),
        tables=2.0 * model.vocab * model.emb,
        fused=fused,
        padded=padded(values, read("memory.yaml")),
        bound=_bound(values),
        repeats=_count(values.get("num_pipeline_repeats")) or 1,
        microbatches=_count(values.get("num_pipeline_microbatches")),
        stored=stored,
        width=width,
        core_dtype=plain,
    )


def ranks_hit(experts: int, top_k: int, ranks: int) -> float:
    """Return the expected distinct ranks among `ranks` that the top-k of a token fall on.

    Experts lie evenly on the ranks and are chosen alike: ranks x (1 - C(E - E/r, k) / C(E, k)).
    """
    if ranks <= 1 or experts <= 1:
        return 1.0
    each, top_k = experts // ranks, min(top_k, experts)  # a token has no more than there are
    return ranks * (1 - comb(experts - each, top_k) / comb(experts, top_k))


def _again(
    model: Architecture,
    facts: Mapping[str, Any],
    kept: frozenset[str],
    *,
    block: bool,
    fused: bool,
) -> dict[str, float]:
    """Return the share of the forward work that is done again, by kind.

    The last GEMM of a layer's MLP feeds nothing that its backward pass needs, so it is not.
    """
    spared = {name: not kept.isdisjoint(row) for name, row in facts["spares"].items()}
    gates = model.gates / (model.gates + 1)
    # Only a fused kernel keeps, under that name, the statistics its backward pass needs.
    attention = 0.0 if spared["attention"] and fused else 1.0
    shares = _projections(model)
    total = sum(shares.values())
    done = sum(size for name, size in shares.items() if not spared.get(name, False))
    return {
        "attention_gemm": done / total if total else 0.0,
        "attention": attention,
        "mlp": 0.0 if spared["mlp"] else gates,
        # The MoEBlock has no names for what is inside it.
        "experts": 0.0 if spared["experts"] and not block else gates,
    }


def _projections(model: Architecture) -> dict[str, float]:
    """Return weights of the projections by what spares doing them again."""
    emb, heads, latent = model.emb, model.heads, model.latent
    out = float(emb * heads * model.value)
    if latent is None:
        return {
            "query": float(emb * heads * model.query),
            "key": float(emb * model.kv_heads * model.query),
            "value": float(emb * model.kv_heads * model.value),
            "out": out,
        }
    rank = latent.query_rank
    return {
        "query_wa": float(emb * rank),
        "query": float((rank or emb) * heads * model.query),
        "key_wa": float(emb * (latent.rank + latent.rope)),
        "key": float(latent.rank * heads * latent.nope),
        "value": float(latent.rank * heads * model.value),
        "out": out,
    }


def _rows(
    model: Architecture, values: Mapping[str, Any], sequence: int, *, block: bool
) -> tuple[float, float, float]:
    """Return rows of expert buffers a token, rows multiplied over rows wanted, and mask FLOPs.

    The mask is what dispatches and combines by one product each where experts have a fixed
    capacity; FLOPs a token and layer.
    """
    if model.experts <= 1:
        return 0.0, 1.0, 0.0
    factor = _bound(values) or 1.0
    if block:
        return model.top_k * factor, 1.0, 0.0
    if dropping(values):
        capacity = float(str(values.get("capacity_factor")))
        slots = model.top_k * capacity
        return slots, capacity, 2 * 2.0 * sequence * slots * model.emb
    if values.get("sparse_matmul") is False:
        return float(model.experts), model.experts / model.top_k, 0.0
    return model.top_k * factor, 1.0, 0.0


def _moved(
    model: Architecture,
    facts: Mapping[str, Any],
    tokens: float,
    rows: float,
    again: Mapping[str, float],
    *,
    quantized: bool,
) -> float:
    """Return bytes that element-wise steps move through memory in a micro-step."""
    move = facts["movement"]
    extra = move["quantized"] if quantized else 0.0
    # What is received and given back is as long as the rows that came; inside, XLA works on
    # the whole buffer.
    real = min(rows, float(model.top_k)) if model.experts > 1 else 0.0
    routed = (move["row_width"] + extra) * model.emb * real
    routed += (move["row_expert"] + extra / 2) * model.expert * rows
    once = 1 + (1 if again["experts"] else 0) + move["backward"]
    token = move["norm_width"] * model.emb
    token += move["head_query"] * model.heads * model.query
    token += move["head_value"] * model.heads * model.value
    redone = 1 + (1 if again["attention_gemm"] else 0) + move["backward"]
    shared = move["row_expert"] * (model.expert * model.shared * model.moe)
    shared += move["row_expert"] * model.mlp * model.dense
    layers = model.moe * routed * once + model.layers * token * redone + shared * redone
    return float(tokens * layers)


def _other_weights(forward: flops.Flops) -> float:
    gemms = forward.attention_gemm + forward.dense_gemm + forward.router
    return gemms / 2


def _ffn(model: Architecture) -> int:
    return (model.gates + 1) * model.emb


def _dtype(name: Any, facts: Mapping[str, Any], plain: str) -> str:
    """Return the dtype of products under a quantization; `plain` where there is none."""
    found = str(facts["dtypes"].get(name or "", "bf16")) if isinstance(name, str | None) else "bf16"
    return plain if found == "bf16" else found


def _bound(values: Mapping[str, Any]) -> float:
    """Return the rows of a bounded receive buffer over the rows wanted, 0 without a bound."""
    ragged = values.get("ragged_buffer_factor")
    return float(ragged) if isinstance(ragged, int | float) and ragged > 0 else 0.0


def _count(value: Any) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if whole and value > 0 else 0
