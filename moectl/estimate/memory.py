"""GPU memory of a training step: arguments exactly, the rest as a range.

Arguments are the weights and the two moments, cut as MaxText cuts them. What a step needs on
top is one arena that XLA plans: gradients, gathered weights, kept activations, logits and the
buffers of the experts. Its parts are formulas of their own, the factors in them fitted to
published runs (`facts/data/memory.yaml`), so it is given as a range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from moectl.estimate.activations import (
    COMPUTE_BYTES,
    activations,
    compute_bytes,
    expert_buffers,
    logits,
    sizes_of,
    whole,
)
from moectl.estimate.layout import RULES, STACKS, Held, Layout, axis_rules, layout_of
from moectl.facts.yaml_facts import read
from moectl.sharding import ITEM_BYTES
from moectl.workload import UNKNOWN

__all__ = [
    "GIB",
    "Estimate",
    "Term",
    "arguments",
    "axis_rules",
    "estimate",
    "fraction_for",
    "largest_batch",
    "moments_of",
    "offloaded_at_least",
    "pool",
    "scheduler_limit",
]

GIB = 1 << 30
_UNQUANTIZED = frozenset({None, "", "te_no_quant"})
_ABSURD = 1 << 60  # bytes; nobody means that
_PIPELINE = "stage"
# Unless every one of these is known, nothing is estimated.
_STATE = ("weight_dtype", "mu_dtype", "opt_type")
_NEEDED = (
    *("sparse_matmul", "capacity_factor", "ragged_buffer_factor", "remat_policy"),
    *("quantization", "gradient_accumulation_steps", "num_vocab_tiling"),
    *("optimizer_memory_host_offload", "parameter_memory_host_offload", *_STATE),
)


@dataclass(frozen=True, slots=True)
class Term:
    """One part of what a step needs beside its arguments.

    Attributes:
        name: what it is.
        bytes: bytes a GPU, middle estimate.
    """

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """Memory of one GPU in bytes.

    Attributes:
        weights: its share of the weights.
        moments: its share of the optimizer's moments.
        arguments: what of both stays in GPU memory between steps.
        host: what of weights, moments and activations lies in pinned host memory.
        activations_host: what of that are activations.
        weights_host, moments_host: what of it are weights and moments, fetched and written back
            each step.
        mu: what of the moments is the first one.
        terms: the parts of the arena a step needs on top.
        low, middle, high: that arena as a range.
        sure: the part of the arena that is as certain as the weights: gradients.
        basis: the row of `spread` that the range is from.
    """

    weights: int
    moments: int
    arguments: int
    host: int
    terms: tuple[Term, ...]
    low: int
    middle: int
    high: int
    sure: int
    basis: str
    activations_host: int = 0
    weights_host: int = 0
    moments_host: int = 0
    mu: int = 0

    @property
    def measured(self) -> bool:
        """Whether runs of this kind were measured, so that the range means something."""
        return self.basis in read("memory.yaml")["measured"]

    @property
    def compiled(self) -> bool:
        """Whether steps of this kind were compiled by the real compiler."""
        return self.basis in read("memory.yaml")["compiled"]

    @property
    def least(self) -> int:
        """Return what is needed in any case: the low end where it was measured."""
        return self.arguments + (self.low if self.measured else self.sure)

    def total(self, which: str = "middle") -> int:
        """Return arguments and arena together; `which` is low, middle or high."""
        found: int = getattr(self, which)
        return self.arguments + found


def estimate(
    values: Mapping[str, Any],
    mesh: Mapping[str, int],
    release: str,
    layout: Layout | None = None,
) -> Estimate | None:
    """Estimate the memory of one GPU.

    Args:
        values: effective MaxText values.
        mesh: size of every mesh axis by MaxText's axis name.
        release: the MaxText release.
        layout: the layout of the weights, where the caller has it (`layout_of`); who asks for
            many meshes spares looking it up each time.

    Returns:
        None where nothing honest can be said: no weight table for the model, settings the
        table does not follow, pipeline stages, or a size that is not known or absurd.
    """
    try:
        found = _estimate(values, mesh, layout or layout_of(values, release))
    except (OverflowError, ValueError):  # a size that no number holds
        return None
    sound = found is not None and found.weights >= 0 and 0 < found.total("high") < _ABSURD
    return found if sound else None


def _estimate(
    values: Mapping[str, Any], mesh: Mapping[str, int], layout: Layout | None
) -> Estimate | None:
    if layout is None or mesh.get(_PIPELINE, 1) > 1:
        return None
    if not _told(values, _NEEDED) or values.get(RULES) is UNKNOWN:
        return None
    sizes = sizes_of(values, mesh)
    weight_dtype = values.get("weight_dtype")
    if sizes is None or weight_dtype not in ITEM_BYTES:
        return None
    share = layout.held(mesh)
    held = share.parameters(weight_dtype)
    mu, nu = moments_of(values, share)
    moments = mu + nu
    off = {
        "weights": values.get("parameter_memory_host_offload") is True,
        "moments": values.get("optimizer_memory_host_offload") is True,
    }
    kept, offloaded, basis = activations(values, sizes)
    facts = read("memory.yaml")
    # A stack may hold a cycle of unlike layers: the mean of all its layers counts.
    gathered = max(
        (size / max(1, sizes.layers_of(STACKS[name])) for name, size in share.layers.items()),
        default=0.0,
    )
    accumulation = values.get("gradient_accumulation_steps")
    copies = "layer_copies"
    width = compute_bytes(values) / COMPUTE_BYTES
    if basis == "native":
        copies = "compiled_layer_copies"
    elif values.get("te_moe_block") is True and (
        values.get("te_gmm_quantization") not in _UNQUANTIZED
    ):
        copies, width = "quantized_layer_copies", 1
    layer = [
        Term("gathered layers", int(int(gathered) * facts[copies] * width)),
        Term("expert buffers", expert_buffers(values, mesh, sizes, facts)),
    ]
    tables = int(share.tables * facts["vocabulary_copies"] * compute_bytes(values) / COMPUTE_BYTES)
    outputs = [
        Term("vocabulary tables", tables),
        Term("logits", logits(values, sizes, mesh)),
    ]
    if basis == "native":
        copied = int(logits(values, sizes, mesh) * facts["compiled_logits_copies"])
        outputs = [Term("logits", copied)]
    terms = [
        Term("gradients", held),
        Term("gradient accumulation", held if accumulation not in {None, 1} else 0),
        # Offloaded moments come back for the update, all at once (R1: batch 8 with offload).
        Term("moments fetched for the update", moments if off["moments"] else 0),
        # Offloaded weights are moved whole before the forward pass
        # (trainers/pre_train/train.py:520).
        Term("weights fetched for the step", held if off["weights"] else 0),
        Term("kept activations", kept),
        *layer,
        *outputs,
    ]
    middle = sum(term.bytes for term in terms)
    low, high = facts["spread"][basis]
    # Gradients are as certain as the weights; only the rest is spread.
    sure = held + (held if accumulation not in {None, 1} else 0)
    return Estimate(
        weights=held,
        moments=moments,
        arguments=(0 if off["weights"] else held) + (0 if off["moments"] else moments),
        host=(held if off["weights"] else 0) + (moments if off["moments"] else 0) + offloaded,
        terms=tuple(term for term in terms if term.bytes),
        low=sure + int((middle - sure) * low),
        middle=middle,
        high=sure + int((middle - sure) * high),
        sure=sure,
        basis=basis,
        activations_host=offloaded,
        weights_host=held if off["weights"] else 0,
        moments_host=moments if off["moments"] else 0,
        mu=mu,
    )


def arguments(values: Mapping[str, Any], mesh: Mapping[str, int], release: str) -> int | None:
    """Return the bytes of weights and moments a GPU holds, offloaded ones included.

    None where the weight tables cannot tell.
    """
    if not _told(values, _STATE) or values.get("weight_dtype") not in ITEM_BYTES:
        return None
    layout = layout_of(values, release)
    if layout is None:
        return None
    share = layout.held(mesh)
    total = share.parameters(str(values["weight_dtype"])) + sum(moments_of(values, share))
    return total if 0 <= total < _ABSURD else None


def offloaded_at_least(values: Mapping[str, Any], release: str) -> int | None:
    """Return the bytes that all processes together keep in host memory, at least.

    Weights and moments that are offloaded are counted: from the weight tables where there are
    some, else, for decoders that hold nothing unusual, from the dimensions of their layers.
    None where neither tells.
    """
    moments = values.get("optimizer_memory_host_offload") is True
    held = values.get("parameter_memory_host_offload") is True
    if not _told(values, _STATE):
        return None
    dtype, optimizer = values.get("weight_dtype"), values.get("opt_type")
    if dtype not in ITEM_BYTES:
        return None
    rules = values.get(RULES)
    # Over no mesh nothing is cut, whatever the rules are.
    layout = layout_of({**values, RULES: None if rules is UNKNOWN else rules}, release)
    if layout is not None:
        share = layout.held({})
        weight_bytes = share.parameters(dtype)
        moment_bytes = sum(moments_of(values, share))
    else:
        parameters = _plain_parameters(values)
        if parameters is None:
            return None
        weight_bytes = parameters * ITEM_BYTES[dtype]
        # A second moment may take any dtype; one moment of the weights' is the least of Adam.
        moment_bytes = 0 if optimizer == "sgd" else weight_bytes
    total = (weight_bytes if held else 0) + (moment_bytes if moments else 0)
    return total if 0 <= total < _ABSURD else None


def _plain_parameters(values: Mapping[str, Any]) -> int | None:
    """Return the weights of the layers of a plain decoder; embeddings and norms are left out."""
    if values.get("decoder_block") not in read("memory.yaml")["plain_decoders"]:
        return None
    names = ("emb_dim", "num_query_heads", "num_kv_heads", "mlp_dim", "num_decoder_layers")
    emb, heads, kv_heads, mlp, layers = (whole(values, f"base_{name}") or 0 for name in names)
    head_dim, activations = whole(values, "head_dim") or 0, values.get("mlp_activations")
    if not isinstance(activations, list) or values.get("num_experts") != 1:
        return None
    attention = 2 * emb * head_dim * (heads + kv_heads)
    return layers * (attention + emb * mlp * (len(activations) + 1))


def fraction_of(environment: Mapping[str, Any]) -> float:
    """Return the share of GPU memory that XLA's pool takes.

    Args:
        environment: variables to their values; what no share can be counts as not said.
    """
    facts = read("memory.yaml")
    said = next((environment[name] for name in facts["fractions"] if name in environment), None)
    try:
        found = float(str(said))
    except ValueError:
        found = 0.0
    return found if 0 < found <= 1 else float(facts["default_fraction"])


def pool(visible: int, fraction: float) -> int:
    """Return the bytes of XLA's pool on a GPU with `visible` bytes at a memory fraction."""
    return int((visible - read("memory.yaml")["context_bytes"]) * fraction)


def fraction_for(needed: int, visible: int) -> float:
    """Return the memory fraction, in whole hundredths, whose pool holds `needed` bytes."""
    usable = visible - read("memory.yaml")["context_bytes"]
    hundredths: int = ceil(needed / usable * 100)
    return hundredths / 100


def scheduler_limit(pool_bytes: int, arguments_bytes: int, slop: int) -> int:
    """Return what XLA's scheduler plans with: the pool without arguments, times its slop."""
    return max(0, (pool_bytes - arguments_bytes) * slop // 100)


def largest_batch(
    values: Mapping[str, Any], mesh: Mapping[str, int], release: str, limit: int
) -> int | None:
    """Return the largest whole batch a device whose middle estimate is within `limit` bytes.

    None when not even one sequence fits.
    """
    first = estimate({**values, "per_device_batch_size": 1}, mesh, release)
    second = estimate({**values, "per_device_batch_size": 2}, mesh, release)
    if first is None or second is None or first.total() > limit:
        return None
    # Every part is a constant or grows evenly with the batch.
    step = max(1, second.total() - first.total())
    return 1 + (limit - first.total()) // step


def _told(values: Mapping[str, Any], keys: Sequence[str]) -> bool:
    """Return whether each of the keys has a scalar: nothing unknown, and no list."""
    scalars = (str, int, float, type(None))  # bool is an int
    return all(isinstance(values.get(key), scalars) for key in keys)


def moments_of(values: Mapping[str, Any], share: Held) -> tuple[int, int]:
    """Return the bytes of both moments: mu in mu_dtype, nu in weight_dtype (MaxText 0.2.5).

    SGD without momentum has none; muon keeps mu alone for its matrices, which counts as half.
    """
    dtype = str(values.get("weight_dtype"))
    said = values.get("mu_dtype")
    mu_dtype = said if isinstance(said, str) and said in ITEM_BYTES else dtype
    optimizer = values.get("opt_type")
    if optimizer == "sgd":
        return 0, 0
    return share.first_moment(mu_dtype), (0 if optimizer == "muon" else share.second_moment(dtype))
