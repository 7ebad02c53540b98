"""Rules on meshes and rules that MaxText brings along, and on axes that somebody replaces."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.resolve.effective import based_on
from moectl.rules.maxtext_words import (
    whole,
)
from moectl.rules.rule import Fault, rules
from moectl.workload import UNKNOWN, Workload

RULES = rules()
_SOURCE = "MaxText 0.2.5 "
_TYPES = _SOURCE + "configs/types.py:"
# Ring meshes inside a TPU pod and the degrees they want (utils/max_utils.py:565).
_RINGS = {"hybrid_ring_64x4": [1, 4, 64], "hybrid_ring_32x8": [1, 8, 32]}
_CODE = "maxtext_code.yaml"


@RULES.rule(
    "MESH118",
    "ring mesh of a TPU pod",
    reason="custom_mesh lays a mesh out as rings of a TPU pod of 256 chips.",
    remedy="leave custom_mesh out",
    source=_SOURCE + "utils/max_utils.py:565",
    stage="config",
)
def ring_mesh(w: Workload) -> Iterator[Fault]:
    """Find custom_mesh where MaxText looks at it: on several slices, or with split axes."""
    name, count = w.value("custom_mesh"), w.value("num_slices")
    if not isinstance(name, str) or not name or not whole(count):
        return
    if count > 1 or w.value("allow_split_physical_axes"):
        mesh = w.value("ici_mesh")
        if name not in _RINGS:
            yield Fault("custom_mesh", f"there is no custom_mesh {name!r}", w.where("custom_mesh"))
        elif isinstance(mesh, list) and sorted(set(mesh)) != _RINGS[name]:
            sentence = f"custom_mesh {name} wants degrees of {_RINGS[name]} inside a slice"
            yield Fault("custom_mesh", sentence, w.where("custom_mesh"))


@RULES.rule(
    "MESH119",
    "mesh and rules of MaxText that have no file",
    reason="MaxText knows the name, and ships no file of axes and rules for it.",
    remedy="leave custom_mesh_and_rule out; degrees size MaxText's own mesh",
    source=_TYPES + "4101",
    stage="config",
)
def mesh_without_file(w: Workload) -> Iterator[Fault]:
    """Find custom_mesh_and_rule, or that of evaluation, of a legal name without a file."""
    for key in ("custom_mesh_and_rule", "custom_mesh_and_rule_for_eval"):
        name = w.value(key)
        if isinstance(name, str) and name and name not in (table := read(_CODE)["meshes"]):
            hint = f"one of {', '.join(table)}"
            yield Fault(key, f"MaxText has no file of {name}", w.where(key), hint)


@RULES.rule(
    "MESH120",
    "logical axis rules that are none",
    reason="Each rule is a list of a logical axis and the mesh axes it is split over.",
    remedy="e.g. [['embed', ['fsdp']]]",
    source=_SOURCE + "configs/pyconfig.py:467",
    stage="config",
)
def axis_rules(w: Workload) -> Iterator[Fault]:
    """Find logical_axis_rules that are no list, or hold what is no list."""
    key = "logical_axis_rules"
    for said, argument in ((w.config.get(key), False), (w.arguments.get(key), True)):
        if said is None or said.value is UNKNOWN or not said.value:
            continue
        rule = said.value
        if isinstance(rule, list):
            odd = [r for r in rule if not _is_rule(r, argument=argument)]
            if not odd:
                continue
            rule = odd[0]
        elif isinstance(rule, dict) and based_on(w.config) is None:
            continue  # it replaces nothing
        yield Fault(key, f"{key} holds {rule!r}, which is no rule", said.origin)


def _is_rule(rule: Any, *, argument: bool) -> bool:
    """Whether MaxText can look at a rule; the command line's are looked up by their first."""
    if not rule:
        return not argument
    if argument and isinstance(rule, list) and isinstance(rule[0], list | dict):
        return False
    return isinstance(rule, str | list | dict)


@RULES.rule(
    "OPT117",
    "replicas that the slices do not divide",
    reason="An open number of DiLoCo replicas is what the other DCN degrees leave of the slices.",
    remedy="give dcn_diloco_parallelism a number",
    source=_TYPES + "5628",
    stage="config",
)
def diloco_replicas(w: Workload) -> Iterator[Fault]:
    """Find dcn_diloco_parallelism of -1 that cannot be filled."""
    key = "dcn_diloco_parallelism"
    if w.effective.get(key) != -1:
        return
    degrees, count = w.value("dcn_listed"), w.value("num_slices")
    if not isinstance(degrees, list) or not whole(*degrees, count):
        return
    others = prod(degree for degree in degrees if degree != -1)
    if others <= 0 or count % others:
        sentence = f"{key} is -1, and the other DCN degrees, {others}, do not divide {count} slices"
        yield Fault(key, sentence, w.where(key))
    elif -1 not in degrees:
        sentence = f"{key} is -1, but the mesh has no axis diloco"
        yield Fault(key, sentence, w.where(key, "mesh_axes"))


@RULES.rule(
    "OPT118",
    "unknown compile topology",
    reason="compile_topology names a TPU slice to compile for; a job on GPUs has none.",
    remedy="leave compile_topology out",
    source=_SOURCE + "utils/accelerator_to_spec_map.py:273",
    stage="config",
)
def compile_topology(w: Workload) -> Iterator[Fault]:
    """Find a topology that MaxText does not know."""
    name = w.value("compile_topology")
    if not isinstance(name, str) or not name or w.value("internal_compile"):
        return
    if name not in read(_CODE)["topologies"]:
        sentence = f"MaxText knows no topology {name!r}"
        yield Fault("compile_topology", sentence, w.where("compile_topology"))


@RULES.rule(
    "OPT103",
    "ZeRO-1 with FSDP",
    reason="shard_optimizer_over_data shards the moments over the data axis, FSDP over its own; "
    "gradients and moments would lie differently.",
    remedy="use one of the two",
    source=_TYPES + "5605",
    stage="config",
)
def zero_with_fsdp(w: Workload) -> Iterator[Fault]:
    """Find shard_optimizer_over_data where the FSDP axes have more than one device."""
    if w.value("shard_optimizer_over_data") is not True:
        return
    axes, count = w.value("mesh_axes"), w.value("num_slices")
    devices = w.value("num_target_devices")
    if not isinstance(axes, list):
        return
    each = devices // max(count, 1) if whole(count, devices) else None
    size = 1
    # What is not known yet is at least 1, so that it takes nothing from what is said.
    for key, there in (("ici_parallelism", each), ("dcn_listed", count if whole(count) else None)):
        degrees = w.value(key)
        if isinstance(degrees, list):
            size *= _fsdp(axes, degrees, there)
    if size > 1:
        sentence = f"shard_optimizer_over_data is on, and the FSDP axes have {size} devices"
        where = w.where("shard_optimizer_over_data", "ici_fsdp_parallelism")
        hint = "write ici_fsdp_parallelism: 1 with ici_data_parallelism: -1, or turn it off"
        yield Fault("shard_optimizer_over_data", sentence, where, hint)


def _fsdp(axes: list[str], degrees: list[Any], devices: int | None) -> int:
    """Return the FSDP devices as MaxText resolves a -1 (configs/types.py:3660); at least those."""
    left = 1
    if devices is not None and whole(*degrees):
        fixed = prod(degree for degree in degrees if degree != -1)
        left = devices // fixed if fixed > 0 and devices > 0 and devices % fixed == 0 else 1
    degrees = [degree if whole(degree) else 1 for degree in degrees]
    sizes = {a: left if d == -1 else d for a, d in zip(axes, degrees, strict=False)}
    return max(sizes.get("fsdp", 1), 1) * max(sizes.get("fsdp_transpose", 1), 1)
