"""The mesh MaxText lays out: degrees by axis, slices, and what stands for experts and sequence.

Formulas: MaxText 0.2.5 configs/types.py and utils/max_utils.py; unknown in, unknown out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.resolve.derived_slices import counted, dcn_degrees
from moectl.workload import UNKNOWN

# Axis of the mesh to the middle of its two keys, where they differ (configs/types.py:5575).
_KEYS = {"stage": "pipeline", "model": "tensor"}
_CODE = "maxtext_code.yaml"
_FIXED = frozenset({"attn_dp", "attn_dp_expert", "dcp", "pcp"})
_AXES = frozenset(
    {
        *("diloco", "data", "stage", "fsdp", "fsdp_transpose", "sequence", "context"),
        *("context_usp_ulysses", "context_autoregressive", "tensor", "tensor_sequence"),
        *("model", "expert", "autoregressive", *_FIXED),
    }
)


def times(*numbers: Any) -> Any:
    """Multiply numbers; UNKNOWN if one is unknown or none."""
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
        return UNKNOWN
    return prod(numbers)


def degree(values: Mapping[str, Any], group: str, axis: str) -> Any:
    """Return a raw degree, e.g. of ("ici", "fsdp"); 1 for an axis without a key."""
    key = f"{group}_{_KEYS.get(axis, axis)}_parallelism"
    return values.get(key, 1)


def _axes(values: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return the mesh axes, those of the experts and those of the sequence."""
    custom = values.get("custom_mesh_and_rule")
    if custom is UNKNOWN:
        return UNKNOWN, UNKNOWN, UNKNOWN
    row = read(_CODE)["meshes"].get(custom) if custom else None
    if row:
        return row["axes"], tuple(row["experts"]), tuple(row["sequence"])
    rules = values.get("logical_axis_rules")
    axes = values.get("mesh_axes")
    if not isinstance(axes, list) or UNKNOWN in axes:
        axes = UNKNOWN
    return axes, _ruled(rules, "exp"), _ruled(rules, "activation_length")


def _ruled(rules: Any, logical: str) -> Any:
    """Return the mesh axes of a logical axis (configs/types.py:3570 axes_for_logical)."""
    if not isinstance(rules, list):
        return UNKNOWN
    for rule in rules:
        if isinstance(rule, list) and len(rule) > 1 and rule[0] == logical:
            mapped = rule[1]
            if isinstance(mapped, str):
                return (mapped,)
            return tuple(a for a in mapped or () if isinstance(a, str))
    return ()


def _size(values: Mapping[str, Any], axes: Any) -> Any:
    """Return the devices along axes; -1 if a degree is still open."""
    if axes is UNKNOWN:
        return UNKNOWN
    size: Any = 1
    for axis in axes:
        ici = values.get(f"ici_{axis}_parallelism", 1)
        dcn = values.get(f"dcn_{axis}_parallelism", 1)
        if -1 in (ici, dcn):
            return -1
        size = times(size, ici, max(dcn, 1) if isinstance(dcn, int) else dcn)
    return size


def mesh(values: Mapping[str, Any], devices: int | None, slices: int | None) -> dict[str, Any]:
    """Return the mesh, see `moectl.resolve.derived`."""
    axes, experts, sequence = _axes(values)
    whole: Any = UNKNOWN if devices is None else devices
    ici, dcn = _listed(values, "ici", axes), _listed(values, "dcn", axes)
    count = counted(values, whole, slices, ici)
    each: Any = UNKNOWN
    if isinstance(whole, int) and isinstance(count, int) and count:
        each = whole // count
    sharding = values.get("context_sharding")
    if axes is not UNKNOWN and values.get("custom_mesh_and_rule") and sequence:
        sharding = sequence[0]
    context: Any = UNKNOWN
    if isinstance(sharding, str):
        context = times(
            values.get(f"ici_{sharding}_parallelism", 1),
            values.get(f"dcn_{sharding}_parallelism", 1),
        )
    diloco = _diloco(values, dcn, count)
    listed, dcn = dcn, _replicated(values, dcn, diloco)
    filled, filled_dcn = _filled(ici, each), _filled(dcn, count)
    sizes = _sizes_of(axes, ici, dcn, filled, filled_dcn, count)
    return {
        "num_target_devices": _target(values, whole),
        "num_slices": count,
        "hardware_slices": UNKNOWN if slices is None else slices,
        "devices_per_slice": each,
        "mesh_axes": axes,
        "context_sharding": sharding,
        "dcn_product": times(*dcn_degrees(values)),
        "ici_parallelism": ici,
        "dcn_parallelism": dcn,
        "dcn_listed": listed,
        "ici_mesh": filled,
        "dcn_mesh": filled_dcn,
        "expert_axes": experts,
        "sequence_axes": sequence if sequence is UNKNOWN else list(sequence),
        "eval_sequence_axes": _eval_sequence(values, sequence),
        "has_context_axis": UNKNOWN if axes is UNKNOWN else sharding in axes,
        "has_ulysses_axis": UNKNOWN
        if axes is UNKNOWN
        else values.get("ulysses_context_sharding") in axes,
        "context_parallel_strategy": _lower(values.get("context_parallel_strategy")),
        "ep_rank": _size(values, experts),
        "axis_sizes": sizes,
        "expert_parallel_size": _along(sizes, ("expert",)),
        "context_parallel_size": context,
        "fsdp_size": _along(sizes, ("fsdp", "fsdp_transpose")),
        "dcn_diloco_parallelism": diloco,
        "num_diloco_replicas": times(values.get("ici_diloco_parallelism", 1), diloco),
    }


def _eval_sequence(values: Mapping[str, Any], sequence: Any) -> Any:
    """Return the axes of the sequence in evaluation (configs/types.py:4161)."""
    custom = values.get("custom_mesh_and_rule_for_eval")
    if custom is UNKNOWN or sequence is UNKNOWN:
        return UNKNOWN
    row = read(_CODE)["meshes"].get(custom) if custom else None
    return list(row["sequence"] if row else sequence)


def _lower(text: Any) -> Any:
    return text.lower() if isinstance(text, str) else text


def _target(values: Mapping[str, Any], devices: Any) -> Any:
    """Return the devices that batches are made for (configs/types.py:4386)."""
    internal, topology = values.get("internal_compile"), values.get("compile_topology")
    if internal is UNKNOWN or topology is UNKNOWN:
        return UNKNOWN
    if internal:
        return values.get("internal_compile_num_devices", UNKNOWN)
    if topology:
        each = read(_CODE)["topologies"].get(topology)
        return times(each, values.get("compile_topology_num_slices"))
    return devices


def _listed(values: Mapping[str, Any], group: str, axes: Any) -> Any:
    """Return the degrees in the order of the axes (configs/types.py:3653)."""
    if axes is UNKNOWN:
        return UNKNOWN
    configured = values.get(f"{group}_parallelism")
    if configured is UNKNOWN:
        return UNKNOWN
    if configured and len(configured) == len(axes) and any(a not in _AXES for a in axes):
        return list(configured)
    return [degree(values, group, a) if a in _AXES - _FIXED else 1 for a in axes]


def _filled(degrees: Any, target: Any) -> Any:
    """Return the degrees with the one -1 filled; UNKNOWN where that cannot be."""
    if degrees is UNKNOWN or any(not isinstance(d, int) for d in degrees):
        return UNKNOWN
    if degrees.count(-1) != 1:
        return degrees if -1 not in degrees else UNKNOWN
    rest = -prod(degrees)
    if not isinstance(target, int) or rest <= 0 or target % rest or not target:
        return UNKNOWN
    return [target // rest if d == -1 else d for d in degrees]


def _sizes_of(axes: Any, ici: Any, dcn: Any, filled: Any, filled_dcn: Any, slices: Any) -> Any:
    """Return the devices along every axis, all slices together; one slice has no DCN mesh.

    A degree that is said is known however many devices there are.
    """
    if UNKNOWN in (axes, ici, dcn):
        return UNKNOWN
    sizes: dict[str, Any] = {}
    for index, axis in enumerate(axes):
        inside, across = ici[index], dcn[index]
        if inside == -1:
            inside = UNKNOWN if filled is UNKNOWN else filled[index]
        if slices == 1:
            across = 1
        elif across == -1:
            across = UNKNOWN if filled_dcn is UNKNOWN else filled_dcn[index]
        sizes[axis] = times(inside, across)
    return sizes


def _along(sizes: Any, wanted: Sequence[str]) -> Any:
    if sizes is UNKNOWN:
        return UNKNOWN
    return times(*(sizes.get(axis, 1) for axis in wanted))


def _diloco(values: Mapping[str, Any], dcn: Any, slices: Any) -> Any:
    said = values.get("dcn_diloco_parallelism", 1)
    if said != -1:
        return said
    if dcn is UNKNOWN or not isinstance(slices, int):
        return UNKNOWN
    others = times(*(d for d in dcn if d != -1))
    return slices // others if isinstance(others, int) and others > 0 else UNKNOWN


def _replicated(values: Mapping[str, Any], dcn: Any, diloco: Any) -> Any:
    """Return the DCN degrees with the replicas that were open (configs/types.py:5628-5634).

    MaxText writes them over the first open degree, whosever that is.
    """
    if values.get("dcn_diloco_parallelism", 1) != -1 or dcn is UNKNOWN or -1 not in dcn:
        return dcn
    first = dcn.index(-1)
    return [*dcn[:first], diloco, *dcn[first + 1 :]]
