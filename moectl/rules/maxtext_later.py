"""Rules on experts, batch and checkpoints that only a later stage than the config check decides."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from moectl.mesh import divisors
from moectl.rules.maxtext_words import (
    RUN_FILE,
    axis_sizes,
    degree_keys,
    field,
    own_rules,
    real,
    whole,
    write,
)
from moectl.rules.rule import Fault, rules
from moectl.rules.versions import date_of
from moectl.values import Origin
from moectl.workload import UNKNOWN, Workload

RULES = rules()
_SOURCE = "MaxText 0.2.5 "
_BATCH_AXES = ("data", "stage", "fsdp", "fsdp_transpose", "expert")
_NEAR = 1e-9
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
    "loaded batch that the batch axes do not divide",
    reason="The loaded batch, all accumulated micro-steps together, is cut over the data, stage, "
    "FSDP and expert axes in whole sequences; JAX raises IndivisibleError at the first step.",
    remedy="a batch that is a multiple of the shards",
    source=_SOURCE
    + "configs/base.yml:639 (activation_embed_and_logits_batch), input_data_sharding",
    stage="later",
)
def loaded_batch(w: Workload) -> Iterator[Fault]:
    """Find a loaded batch that is no multiple of its shards."""
    loaded, shards = w.value("global_batch_size_to_load"), _shards(w)
    if not whole(loaded, shards) or loaded <= 0 or loaded % shards == 0:
        return
    total = max(shards, loaded // shards * shards)
    sentence = (
        f"a loaded batch of {loaded} sequences cannot be cut over data x stage x FSDP x expert = "
        f"{shards} shards; the run dies at its first step."
    )
    yield Fault(_name(w), sentence, _place(w), _write(w, total))


@RULES.rule(
    "MESH106",
    "batch that is no whole number of sequences",
    reason="MaxText rounds it down without a word, to nothing if need be, and trains on fewer "
    "sequences than said; with none its loss reads 0.",
    remedy="a per_device_batch_size that makes whole sequences of all GPUs",
    source=_SOURCE + "configs/types.py:4443, trainers/pre_train/train.py:150",
    stage="silent",
)
def whole_batch(w: Workload) -> Iterator[Fault]:
    """Find per_device_batch_size x devices that is no whole number, or less than one."""
    per_device, devices = w.value("per_device_batch_size"), w.value("num_target_devices")
    micro = w.value("micro_batch_size_to_train_on")
    if not real(per_device) or not whole(devices, micro) or per_device <= 0 or devices <= 0:
        return
    exact = per_device * devices
    if micro > 0 and abs(exact - micro) < _NEAR:
        return
    near = sorted({max(1, round(exact)) / devices, (micro + 1) / devices})
    hint = f"{_name(w)} may be {' or '.join(f'{size:g}' for size in near)}"
    sentence = (
        f"{per_device:g} x {devices} GPUs = {exact:g} sequences, and MaxText trains on {micro} "
        "of them"
    )
    yield Fault(_name(w), sentence, w.where("per_device_batch_size"), hint)


@RULES.rule(
    "MESH107",
    "micro-batch smaller than its shards",
    reason="Sequences are cut over the data, FSDP and expert axes; with fewer than there are "
    "shards some GPUs work on padding. It runs.",
    remedy="1 sequence a shard, or more of the GPUs on tensor or context axes",
    source=_SOURCE + "trainers/pre_train/train.py:150; seen to run on 8 CPU devices",
    severity="warning",
    stage="advice",
)
def idle_shards(w: Workload) -> Iterator[Fault]:
    """Find fewer sequences in a micro-step than shards of the batch."""
    micro, shards = w.value("micro_batch_size_to_train_on"), _shards(w)
    if not whole(micro, shards) or not 0 < micro < shards:
        return
    sentence = (
        f"a micro-batch of {micro} sequences is cut over data x stage x FSDP x expert = {shards} "
        f"shards, so {shards - micro} of them have none"
    )
    yield Fault(_name(w), sentence, _place(w), _write(w, shards))


def _shards(w: Workload) -> Any:
    """Return the shards of the batch; UNKNOWN under rules that are not MaxText's own.

    However many slices there are, all axes together are the devices.
    """
    sizes = axis_sizes(w)
    if w.value("te_moe_block") is not False or own_rules(w) or not sizes:
        return UNKNOWN
    shares = [sizes.get(axis, 1) for axis in _BATCH_AXES]
    others = [size for axis, size in sizes.items() if axis not in _BATCH_AXES]
    if w.devices is not None and whole(*sizes.values()) and prod(sizes.values()) != w.devices:
        return UNKNOWN  # there is no such mesh, which its own rules say
    if not whole(*shares) and w.devices is not None and whole(*others) and prod(others) > 0:
        shares = [w.devices // prod(others)] if w.devices % prod(others) == 0 else [UNKNOWN]
    return prod(shares) if whole(*shares) and prod(shares) > 0 else UNKNOWN


def _name(w: Workload) -> str:
    return "batch.per_device" if w.kind == RUN_FILE else "per_device_batch_size"


def _place(w: Workload) -> Origin:
    return w.where("per_device_batch_size", *degree_keys("fsdp", "data", "expert"))


def _write(w: Workload, total: int) -> str:
    """Say what to type for a batch of so many sequences."""
    if w.kind == RUN_FILE:
        return f"--global-batch {total}"
    steps = w.value("gradient_accumulation_steps")
    if w.devices is None or not whole(steps) or steps < 1:
        return f"a batch of {total} sequences"
    return write(w, per_device_batch_size=f"{max(total // steps, 1) / w.devices:g}")


@RULES.rule(
    "MOE135",
    "experts that FSDP does not divide",
    reason="shard_exp_on_fsdp cuts whole experts over the FSDP axes.",
    remedy="turn shard_exp_on_fsdp off",
    source=_SOURCE + "layers/moe.py:921, configs/base.yml:370",
    stage="later",
)
def experts_on_fsdp(w: Workload) -> Iterator[Fault]:
    """Find shard_exp_on_fsdp with experts that are no multiple of the FSDP degree.

    With an expert axis MEM114 says that the two do not go together.
    """
    key = "shard_exp_on_fsdp"
    count, fsdp = w.value("num_experts"), w.value("fsdp_size")
    if w.value(key) is not True or not whole(count, fsdp) or count <= 1 or own_rules(w):
        return
    if w.value("expert_parallel_size") != 1:
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
    if w.image is not None and w.image_said is not None and date_of(w.image.reference):
        return  # VER106 judges an image by its day
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
