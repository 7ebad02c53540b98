"""Rules on attention and context parallelism that are arithmetic, or a later stage decides."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, prod
from typing import Any

from moectl.mesh import nearest_legal
from moectl.rules.maxtext_words import (
    axis_sizes,
    catalogue,
    degree_keys,
    field,
    own_rules,
    real,
    whole,
    write,
)
from moectl.rules.rule import Fault, rules
from moectl.workload import UNKNOWN, Workload

RULES = rules()
_SOURCE = "MaxText 0.2.5 "
_TYPES = _SOURCE + "configs/types.py:"
# Decoders whose heads are rotated in part (configs/types.py:5366).
_PARTLY_ROTATED = ("qwen3_next", "qwen3_5")
_LEAST_RATIO = 4
_HEAD_AXES = ("tensor", "tensor_sequence", "autoregressive")
_TE = "cudnn_flash_te"
_DECODING_AXIS = "ici_context_autoregressive_parallelism"
_GPU = ("gpu", "gpu_multiprocess")
# Decoders with layers that attend to a window only (models/*.py, AttentionType.LOCAL_SLIDING).
_WINDOWED = ("gemma2", "gemma3", "gemma4", "gemma4_small", "gpt_oss", "olmo3")


@RULES.rule(
    "CTX141",
    "rotated part of a head that is no number of pairs",
    reason="Dimensions are rotated in pairs.",
    remedy="let head_dim x partial_rotary_factor be even",
    source=_TYPES + "5373",
    stage="config",
)
def rotary_pairs(w: Workload) -> Iterator[Fault]:
    """Find an odd number of rotated dimensions."""
    head, factor = w.value("head_dim"), w.value("partial_rotary_factor")
    if w.value("decoder_block") in _PARTLY_ROTATED and real(head, factor) and isfinite(factor):
        rotated = int(head * factor)
        if rotated % 2:
            sentence = f"head_dim {head} x partial_rotary_factor {factor:g} = {rotated} is odd"
            keys = ("partial_rotary_factor", "head_dim")
            yield Fault(keys[0], sentence, w.where(*keys))


@RULES.rule(
    "CTX142",
    "compression ratio between 1 and 3",
    reason="A layer compresses by 4 or more, or not at all.",
    remedy="0, or 4 and more",
    source=_TYPES + "5529",
    stage="config",
)
def compress_ratios(w: Workload) -> Iterator[Fault]:
    """Find ratios that are neither 0 nor at least 4."""
    ratios = w.value("compress_ratios")
    for ratio in ratios if isinstance(ratios, list) else ():
        if whole(ratio) and ratio != 0 and ratio < _LEAST_RATIO:
            sentence = f"compress_ratios holds {ratio}"
            yield Fault("compress_ratios", sentence, w.where("compress_ratios"))
            return


@RULES.rule(
    "CTX143",
    "bounds that are no numbers",
    reason="constant_bound_config is a list of numbers, or numbers between commas.",
    remedy="e.g. [0.0, 1.0]",
    source=_TYPES + "2771",
    stage="config",
)
def constant_bounds(w: Workload) -> Iterator[Fault]:
    """Find other texts."""
    value = w.effective.get("constant_bound_config", UNKNOWN)
    if value in (UNKNOWN, "") or isinstance(value, list):
        return
    try:
        parts = value.split(",") if isinstance(value, str) else None
        if parts is not None and all(float(part) == float(part) or True for part in parts):
            return
    except ValueError:
        pass
    sentence = f"constant_bound_config is {value!r}"
    yield Fault("constant_bound_config", sentence, w.where("constant_bound_config"))


@RULES.rule(
    "CTX144",
    "two splash kernels",
    reason="There is one attention kernel.",
    remedy="turn one of them off",
    source=_SOURCE + "configs/pyconfig.py:564",
    stage="config",
)
def two_splash_kernels(w: Workload) -> Iterator[Fault]:
    """Find both kernels on; MaxText looks at raw values here, so the text "false" is on."""
    keys = ("use_tokamax_splash", "use_jax_splash")
    known = catalogue(w)
    if known is None:
        return
    model = known.model(str(w.effective.get("model_name"))) or {}
    for key in keys:
        said = w.arguments.get(key)
        raw: Any = said.value if said else model.get(key)
        if raw is None and not said:
            config = w.config.get(key)
            raw = config.value if config else w.effective.get(key)
        none = isinstance(raw, str) and raw.lower() == "none"
        if raw is UNKNOWN or none or not raw:
            return
    yield Fault(keys[1], f"{keys[0]} and {keys[1]} are both on", w.where(*keys))


@RULES.rule(
    "CTX161",
    "packing over context parallelism",
    reason="Transformer Engine packs over a cut sequence only in a balanced ring; MaxText raises "
    "when it sets up the loop, whatever the data.",
    remedy="packing: false, or context_parallel_strategy: ring with context_parallel_load_balance",
    source=_SOURCE + "utils/train_utils.py:338-349",
    stage="later",
)
def packed_context(w: Workload) -> Iterator[Fault]:
    """Find packing with cudnn_flash_te over a context axis, outside a balanced ring."""
    size = w.value("context_parallel_size")
    ring = w.value("context_parallel_strategy") == "ring"
    balanced = w.value("context_parallel_load_balance")
    if not whole(size) or size <= 1 or w.value("packing") is not True or balanced is UNKNOWN:
        return
    if w.value("context_parallel_strategy") is UNKNOWN or (ring and balanced):
        return
    if w.value("attention") == _TE and w.value("hardware") in _GPU:
        axis = w.value("context_sharding")
        sentence = f"packing is on, and the sequence is cut over {size} devices of axis {axis}"
        where = w.where("packing", *degree_keys(axis), "attention")
        yield Fault("packing", sentence, where, write(w, packing=False))


@RULES.rule(
    "CTX162",
    "window over context parallelism",
    reason="Transformer Engine attends to a window over a cut sequence only in a balanced ring "
    "with packed data.",
    remedy="no context parallelism, or another attention kernel",
    source=_SOURCE + "layers/attention_op.py:2717",
    stage="later",
)
def window_over_context(w: Workload) -> Iterator[Fault]:
    """Find cudnn_flash_te with windowed layers over a context axis."""
    size = w.value("context_parallel_size")
    if not whole(size) or size <= 1 or w.value("attention") != _TE or not _windowed(w):
        return
    packed = w.value("packing") and w.value("dataset_type") != "synthetic"
    if packed or UNKNOWN in (w.value("packing"), w.value("dataset_type")):
        return  # that case is another rule's
    sentence = f"layers with a window, and the sequence is cut over {size} devices"
    where = w.where(*degree_keys(w.value("context_sharding")), "attention", "model_name")
    yield Fault("attention", sentence, where)


def _windowed(w: Workload) -> bool:
    sliding = w.value("attention_type") == "local_sliding"
    return sliding or w.value("decoder_block") in _WINDOWED


@RULES.rule(
    "CTX163",
    "window under cudnn_flash_te",
    reason="Transformer Engine takes a window with a causal mask only, so MaxText builds the "
    "padding mask full and leaves causality and the window to the kernel.",
    remedy="nothing to do; compare losses with dot_product once",
    source=_SOURCE + "layers/attention_op.py:2672-2745; AI-Hypercomputer/maxtext PR 1086",
    severity="note",
    stage="advice",
)
def window(w: Workload) -> Iterator[Fault]:
    """Find windowed layers under cudnn_flash_te."""
    if w.value("attention") == _TE and _windowed(w):
        model = w.value("decoder_block")
        sentence = f"decoder {model} has layers with a window, which cudnn_flash_te masks itself"
        yield Fault("attention", sentence, w.where("attention"))


@RULES.rule(
    "CTX164",
    "sequence that context parallelism does not divide",
    reason="The sequence is cut into equal parts; load balancing gives every device two of them.",
    remedy="a length that is a multiple",
    source=_SOURCE + "utils/max_utils.py:875-880",
    stage="later",
)
def sequence_parts(w: Workload) -> Iterator[Fault]:
    """Find max_target_length that is no multiple of the context degree, or of twice it."""
    size, length = w.value("context_parallel_size"), w.value("max_target_length")
    balanced = w.value("context_parallel_load_balance")
    if not whole(size, length) or size <= 1 or balanced is UNKNOWN:
        return
    keys = degree_keys(w.value("context_sharding"))
    swapped = balanced and _swaps(w)
    if swapped and size % 2:
        sentence = f"load balancing swaps pairs, and the sequence is cut over {size} devices"
        hint = "an even degree, or " + write(w, context_parallel_load_balance=False)
        yield Fault(field(w, keys[0]), sentence, w.where(*keys), hint)
    parts = 2 * size if swapped else size
    if length % parts:
        twice = f"2 x {size}" if swapped else str(size)
        sentence = f"max_target_length {length} is not divisible by {twice} = {parts} parts"
        near = nearest_legal(length, [length // parts * parts, (length // parts + 1) * parts], 1)
        hint = f"max_target_length may be {' or '.join(map(str, filter(None, near)))}"
        yield Fault("max_target_length", sentence, w.where("max_target_length", *keys), hint)


def _swaps(w: Workload) -> bool:
    """Whether the sequence is reordered in swapped halves (utils/train_utils.py:362)."""
    strategy = w.value("context_parallel_reorder_strategy")
    if strategy == "auto":
        ring = w.value("context_parallel_strategy") == "ring"
        striped = w.value("packing") is True and ring and w.value("hardware") in _GPU
        return not striped
    return bool(strategy == "dual_chunk_swap")


@RULES.rule(
    "CTX165",
    "heads that do not divide",
    reason="Query heads share key and value heads in equal groups, and heads are not cut.",
    remedy="head counts that divide",
    source=_SOURCE + "layers/attentions.py:563-640",
    stage="later",
)
def heads(w: Workload) -> Iterator[Fault]:
    """Find query heads that key heads do not divide, and key heads that tensor axes do not."""
    query, keyed = w.value("num_query_heads"), w.value("num_kv_heads")
    if w.value("attention_type") in (UNKNOWN, "mla", "compressed") or not whole(query, keyed):
        return
    names = ("base_num_kv_heads", "base_num_query_heads")
    if keyed <= 0 or query % keyed:
        sentence = f"{query} query heads are not divisible by {keyed} key and value heads"
        yield Fault(names[0], sentence, w.where(*names, "model_name"))
        return
    if w.value("fused_qkv") is not False or w.value(_DECODING_AXIS) not in (1, UNKNOWN):
        return  # these projections are not cut by heads
    shares = [axis_sizes(w).get(axis, 1) for axis in _HEAD_AXES]
    if not whole(*shares) or own_rules(w) or w.value("decoder_block") in _WINDOWED:
        return
    if prod(shares) > 1 and keyed % prod(shares):
        said = " x ".join(f"{a} {s}" for a, s in zip(_HEAD_AXES, shares, strict=True) if s != 1)
        sentence = f"{keyed} key and value heads are not divisible by {said} = {prod(shares)}"
        keys = degree_keys(*_HEAD_AXES)
        yield Fault(field(w, keys[0]), sentence, w.where(*keys))
