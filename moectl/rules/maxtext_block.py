"""Rules on the mesh, batch and processes of Transformer Engine's MoEBlock and collective GEMM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moectl.resolve.derived import times
from moectl.rules.maxtext_words import (
    RUN_FILE,
    axis_sizes,
    degree_keys,
    field,
    key_of,
    whole,
    write,
)
from moectl.rules.rule import Fault, rules
from moectl.workload import UNKNOWN, Workload

RULES = rules()
_SOURCE = "MaxText 0.2.5 "
_TYPES = _SOURCE + "configs/types.py:"
# The recipe that scales blocks, and the size that its collective GEMM cannot split.
_BLOCKED, _BLOCK = "te_mxfp8", 128
_BLOCK_AXES = frozenset({"fsdp", "expert"})


@RULES.rule(
    "TE113",
    "MoEBlock beside another mesh axis",
    reason="The MoEBlock shards tokens over FSDP and expert axes only; another axis multiplies "
    "the tokens and buffers of every rank, or is not known to it.",
    remedy="degrees of 1 on every other axis",
    source=_SOURCE + "layers/moe.py:4514",
    stage="later",
)
def block_axes(w: Workload) -> Iterator[Fault]:
    """Find other axes above 1 under te_moe_block."""
    if w.value("te_moe_block") is not True:
        return
    for axis, size in axis_sizes(w).items():
        if axis in _BLOCK_AXES or not whole(size) or size <= 1:
            continue
        keys = degree_keys(axis)
        name = key_of("ici", axis).removeprefix("ici_").removesuffix("_parallelism")
        sentence = (
            f"the MoEBlock shards tokens over FSDP and expert axes only, but {name} is {size} "
            "(MaxText 0.2.5 layers/moe.py:4514)."
        )
        loud = [key for key in keys if w.value(key) not in (1, UNKNOWN)]
        hint = write(w, **dict.fromkeys(keys, 1))
        yield Fault(field(w, (loud or keys)[0]), sentence, w.where(*loud, *keys), hint)


@RULES.rule(
    "TE114",
    "expert groups of the MoEBlock across slices",
    reason="Its expert groups are consecutive ranks, which a slice border would cut.",
    remedy="keep the expert degree inside a slice",
    source=_SOURCE + "layers/moe.py:4514",
    stage="later",
)
def block_groups(w: Workload) -> Iterator[Fault]:
    """Find a DCN expert degree above 1 under te_moe_block."""
    key = key_of("dcn", "expert")
    degree = w.value(key)
    if w.value("te_moe_block") is True and whole(degree) and degree > 1:
        sentence = (
            "the MoEBlock's expert groups are consecutive ranks, so they cannot cross slices, "
            f"but dcn expert is {degree} (MaxText 0.2.5 layers/moe.py:4514)."
        )
        yield Fault(field(w, key), sentence, w.where(key), write(w, **{key: 1}))


@RULES.rule(
    "TE115",
    "micro-batch of the MoEBlock",
    reason="The block receives the sequences of a micro-step cut over FSDP x EP in whole numbers.",
    remedy="a whole number of sequences a GPU",
    source=_SOURCE + "utils/max_utils.py:1307-1320",
    stage="later",
)
def block_batch(w: Workload) -> Iterator[Fault]:
    """Find a micro-batch, of training or evaluation, that FSDP x EP does not divide."""
    if w.value("te_moe_block") is not True:
        return
    loaded, steps = w.value("global_batch_size_to_load"), w.value("gradient_accumulation_steps")
    micro, sizes = w.value("micro_batch_size_to_train_on"), axis_sizes(w)
    fsdp, expert = sizes.get("fsdp", UNKNOWN), sizes.get("expert", UNKNOWN)
    if not whole(loaded, steps, micro, fsdp, expert) or not steps or fsdp * expert < 1:
        return
    size = max(loaded // steps, micro)
    interval, evaluated = w.value("eval_interval"), w.value("micro_batch_size_to_eval_on")
    if interval is UNKNOWN or (whole(interval) and interval > 0):
        if not whole(interval, evaluated):
            return
        size = max(size, evaluated)
    shards = fsdp * expert
    per_device = w.value("per_device_batch_size")
    if size > 0 and size % shards == 0 and micro % shards == 0 and loaded % steps == 0:
        return
    wrong = size if size % shards or size <= 0 else micro
    sentence = (
        f"the MoEBlock wants a micro-batch divisible by FSDP x EP = {fsdp} x {expert} = "
        f"{shards}, but it is {per_device:g} a GPU = {wrong} sequences "
        "(MaxText 0.2.5 utils/max_utils.py:1317)."
    )
    name = "batch.per_device" if w.kind == RUN_FILE else "per_device_batch_size"
    hint = f"{name} must be a whole number"
    yield Fault(name, sentence, w.where("per_device_batch_size"), hint)


@RULES.rule(
    "TE118",
    "several GPUs in a process of the MoEBlock",
    reason="The block demands exactly one local device a process.",
    remedy="start one process a GPU, e.g. --ntasks-per-node of the GPUs a node",
    source=_SOURCE + "utils/max_utils.py:1289",
    stage="later",
)
def block_processes(w: Workload) -> Iterator[Fault]:
    """Find fewer processes than GPUs under te_moe_block."""
    each = w.layout.gpus_per_process
    processes, gpus = w.layout.processes, w.layout.gpus
    if w.value("te_moe_block") is not True:
        return
    if each is not None and whole(each.value) and each.value > 1:
        sentence = f"te_moe_block wants one GPU a process, and there are {each.value}"
        yield Fault("te_moe_block", sentence, each.origin)
        return
    if each is not None or processes is None or gpus is None:
        return
    if whole(processes.value, gpus.value) and 0 < processes.value < gpus.value:
        sentence = (
            f"te_moe_block wants one GPU a process, and {processes.value} processes have "
            f"{gpus.value} GPUs"
        )
        yield Fault("te_moe_block", sentence, processes.origin)


@RULES.rule(
    "TE130",
    "overlap of Transformer Engine's GEMMs and collectives",
    reason="Its collective GEMM runs with one process a GPU, over a tensor-sequence axis alone, "
    "in a recipe of Transformer Engine.",
    remedy="meet every condition, or write te_comm_gemm_overlap: disabled",
    source=_TYPES + "3903",
    stage="config",
)
def collective_gemm(w: Workload) -> Iterator[Fault]:
    """Find every unmet condition of te_comm_gemm_overlap."""
    key = "te_comm_gemm_overlap"
    said = w.value(key)
    if not isinstance(said, str) or said.lower() == "disabled":
        return
    if said.lower() not in {"mlp", "full"}:
        yield Fault(key, f"{key} is {said!r}; there are disabled, mlp and full", w.where(key))
        return
    if w.value("hardware") not in (UNKNOWN, "gpu_multiprocess"):
        sentence = f"{key} wants hardware gpu_multiprocess, and it is {w.value('hardware')}"
        yield Fault(
            "hardware", sentence, w.where("hardware", key), "write hardware: gpu_multiprocess"
        )
    sequence, tensor = (_degree(w, name) for name in ("tensor_sequence", "tensor"))
    if sequence == 1:
        sentence = f"{key} wants a tensor_sequence degree above 1, and it is 1"
        field = "ici_tensor_sequence_parallelism"
        yield Fault(field, sentence, w.where(field, key), f"write {field}: 2")
    if whole(tensor) and tensor > 1:
        sentence = f"{key} wants a tensor degree of 1, and it is {tensor}"
        field = "ici_tensor_parallelism"
        yield Fault(
            field, sentence, w.where(field, "dcn_tensor_parallelism", key), f"write {field}: 1"
        )
    quantization = w.value("quantization")
    if quantization is not UNKNOWN and not str(quantization or "").startswith("te_"):
        sentence = f"{key} wants a recipe te_…, and quantization is {quantization or 'not set'}"
        hint = "write quantization: te_fp8_currentscaling"
        yield Fault("quantization", sentence, w.where("quantization", key), hint)


@RULES.rule(
    "TE131",
    "collective GEMM in MXFP8 of a dimension that is no multiple of 128",
    reason="Scales of MXFP8 come in blocks that the collective GEMM cannot split, so every "
    "dimension of its operands must be a multiple of 128.",
    remedy="multiples of 128, another recipe, or te_comm_gemm_overlap: disabled",
    source="NVIDIA/TransformerEngine PR 2740; MaxText 0.2.5 layers/quantizations.py:1529",
    stage="later",
)
def collective_blocks(w: Workload) -> Iterator[Fault]:
    """Find every dimension of an overlapped GEMM that is no multiple of 128."""
    overlap = w.value("te_comm_gemm_overlap")
    if w.value("quantization") != _BLOCKED or not isinstance(overlap, str):
        return
    overlap = overlap.lower()
    if overlap not in {"mlp", "full"}:
        return
    experts = w.value("num_experts")
    dense = whole(experts) and experts <= 1
    dimensions: list[tuple[str, Any, str]] = []
    if dense or overlap == "full":
        dimensions.append(("base_emb_dim", w.value("emb_dim"), "the width"))
        tokens = times(w.value("per_device_batch_size"), w.value("max_target_length"))
        dimensions.append(("max_target_length", tokens, "the tokens of a GPU, x its batch,"))
    if dense:
        dimensions.append(("base_mlp_dim", w.value("mlp_dim"), "the MLP's width"))
    if overlap == "full":
        for heads, what in (("num_query_heads", "queries"), ("num_kv_heads", "keys and values")):
            size = times(w.value(heads), w.value("head_dim"))
            dimensions.append(("head_dim", size, f"the {what}, {heads} x head_dim,"))
    told = set()
    for key, size, what in dimensions:
        if key in told or not isinstance(size, int | float) or size % _BLOCK == 0:
            continue
        told.add(key)
        now = w.value(key)
        sentence = f"{what} are {size:g}, no multiple of {_BLOCK}, and te_comm_gemm_overlap is on"
        if not what.endswith(","):
            sentence = sentence.replace(" are ", " is ", 1)
        near = _multiples(now)
        hint = f"{key} may be {' or '.join(map(str, near))}" if near else ""
        where = w.where(key, "te_comm_gemm_overlap", "quantization")
        yield Fault(field(w, key), sentence, where, hint)


def _multiples(size: Any) -> list[int]:
    """Return the multiples of a block on either side of a size."""
    if not whole(size) or size <= 0:
        return []
    below = size // _BLOCK * _BLOCK
    return [multiple for multiple in (below, below + _BLOCK) if multiple > 0]


def _degree(w: Workload, axis: str) -> Any:
    ici, dcn = (w.value(f"{group}_{axis}_parallelism") for group in ("ici", "dcn"))
    return ici * dcn if whole(ici, dcn) else UNKNOWN
