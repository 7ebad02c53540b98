"""Rules on experts, batch and checkpoints that only a later stage than the config check decides."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from moectl.mesh import divisors
from moectl.rules.maxtext_words import (
    RUN_FILE,
    axis_sizes,
    degree_keys,
    field,
    own_rules,
    whole,
    write,
)
from moectl.rules.rule import Fault, rules
from moectl.workload import Workload

RULES = rules()
_SOURCE = "MaxText 0.2.5 "
_BATCH_AXES = ("data", "fsdp", "fsdp_transpose", "expert")
# The image from which on each process has its own directory.
_FIXED = "2025-05-01"


@RULES.rule(
    "MESH101",
    "experts that the expert degree does not divide",
    reason="Every expert shard holds the same number of experts; the config check passes it, "
    "and the run dies when weights are cut.",
    remedy="a degree that divides the experts",
    source=_SOURCE + "layers/moe.py:4480",
    stage="later",
)
def experts(w: Workload) -> Iterator[Fault]:
    """Find num_experts that is no multiple of ici x dcn of the expert axis."""
    count, size = w.value("num_experts"), w.value("expert_parallel_size")
    if not whole(count, size) or count <= 1 or size < 1 or count % size == 0:
        return
    ici, dcn = (w.value(key) for key in degree_keys("expert"))
    legal = [d for d in reversed([*divisors(count)]) if w.devices is None or d <= w.devices]
    sentence = (
        f"{count} experts are not divisible by EP {size} (ici {ici} x dcn {dcn}); the config "
        "check passes it, and the run dies when weights are cut (MaxText 0.2.5 "
        "layers/moe.py:4480)."
    )
    hint = f"EP may be {', '.join(map(str, legal))}"
    keys = degree_keys("expert")
    yield Fault(field(w, keys[0]), sentence, w.where(*keys, "num_experts"), hint)


@RULES.rule(
    "MESH102",
    "micro-batch that the batch axes do not divide",
    reason="Sequences are cut over the data, FSDP and expert axes in whole numbers.",
    remedy="a per_device_batch_size of 1 or more, in whole numbers",
    source=_SOURCE + "configs/base.yml:704 (activation_batch)",
    stage="later",
)
def batch_axes(w: Workload) -> Iterator[Fault]:
    """Find a micro-batch that is no multiple of the shards of the batch, or no whole number."""
    per_device = w.value("per_device_batch_size")
    micro, sizes = w.value("micro_batch_size_to_train_on"), axis_sizes(w)
    if w.value("te_moe_block") is not False or not whole(micro) or own_rules(w):
        return
    shares = [sizes.get(axis, 1) for axis in _BATCH_AXES]
    if not whole(*shares) or prod(shares) < 1:
        return
    shards = prod(shares)
    if micro > 0 and micro % shards == 0:
        return
    fraction = w.devices is not None and per_device * w.devices != micro
    exact = f"{per_device} x {w.devices} GPUs = {per_device * w.devices:g}" if fraction else ""
    aside = f" ({exact}, which is no whole number)" if fraction else ""
    sentence = (
        f"a micro-batch of {micro} sequences{aside} cannot be cut over data x FSDP x expert = "
        f"{shards} shards; the run dies at its first step."
    )
    total = max(shards, micro // shards * shards)
    if w.kind == RUN_FILE:
        hint = f"--global-batch {total}"
    else:
        least = total / w.devices if w.devices else 1
        hint = write(w, per_device_batch_size=int(least) if least == int(least) else least)
    where = w.where("per_device_batch_size", *degree_keys("fsdp", "data", "expert"))
    name = "batch.per_device" if w.kind == RUN_FILE else "per_device_batch_size"
    yield Fault(name, sentence, where, hint)


@RULES.rule(
    "MOE135",
    "experts that FSDP does not divide",
    reason="shard_exp_on_fsdp cuts whole experts over the FSDP axes.",
    remedy="turn shard_exp_on_fsdp off",
    source=_SOURCE + "layers/moe.py:921, configs/base.yml:370",
    stage="later",
)
def experts_on_fsdp(w: Workload) -> Iterator[Fault]:
    """Find shard_exp_on_fsdp with experts that are no multiple of the FSDP degree."""
    key = "shard_exp_on_fsdp"
    count, fsdp = w.value("num_experts"), w.value("fsdp_size")
    if w.value(key) is not True or not whole(count, fsdp) or count <= 1 or own_rules(w):
        return
    if fsdp > 1 and count % fsdp:
        sentence = f"shard_exp_on_fsdp: {count} experts are not divisible by FSDP {fsdp}"
        yield Fault(
            field(w, key), sentence, w.where(key, *degree_keys("fsdp")), write(w, **{key: False})
        )


@RULES.rule(
    "CKPT120",
    "emergency checkpoints with one process a GPU",
    reason="Images before May 2025 let all processes of a node write into one local directory, "
    "which fails; since then each process has its own.",
    remedy="an image of May 2025 or later",
    source="AI-Hypercomputer/maxtext PR 1281; MaxText 0.2.5 common/emergency_checkpointing.py:65",
    stage="later",
)
def emergency(w: Workload) -> Iterator[Fault]:
    """Find emergency checkpoints with hardware gpu_multiprocess."""
    key = "enable_emergency_checkpoint"
    if w.value(key) is not True or w.value("hardware") != "gpu_multiprocess":
        return
    date = w.image.date if w.image is not None else None
    old = date is not None and date < _FIXED
    sentence = "every process of a node writes emergency checkpoints; "
    if old:
        sentence += f"the image of {date} gives them one directory, where they collide"
        yield Fault(key, sentence, w.where(key))
    else:
        sentence += "MaxText 0.2.5 gives each its own directory, images before May 2025 one"
        hint = "make sure of the image's date"
        yield Fault(key, sentence, w.where(key), hint, severity="note")
