"""Values MaxText computes from its settings, by its own names; unknown in, unknown out.

Formulas: MaxText 0.2.5 configs/types.py `set_derived_and_validate_values`, where not said
otherwise. What MaxText refuses to compute is UNKNOWN here; a rule says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, isfinite, log2, prod
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.workload import UNKNOWN

# Axis of the mesh to the middle of its two keys, where they differ (configs/types.py:5575).
_KEYS = {"stage": "pipeline", "model": "tensor"}
_FIXED = frozenset({"attn_dp", "attn_dp_expert", "dcp", "pcp"})
_AXES = frozenset(
    {
        *("diloco", "data", "stage", "fsdp", "fsdp_transpose", "sequence", "context"),
        *("context_usp_ulysses", "context_autoregressive", "tensor", "tensor_sequence"),
        *("model", "expert", "autoregressive", *_FIXED),
    }
)
_DCN = (
    *("data", "pipeline", "fsdp", "fsdp_transpose", "sequence", "context"),
    *("context_usp_ulysses", "tensor", "tensor_sequence", "expert"),
    *("context_autoregressive", "autoregressive"),
)
_DENSE_FIRST = "deepseek"


def derived(values: Mapping[str, Any], devices: int | None, slices: int | None) -> dict[str, Any]:
    """Return what MaxText derives.

    Args:
        values: effective values, see `moectl.resolve.effective`.
        devices: devices of the job; None when nobody says.
        slices: slices that the hardware makes of them; None when they follow the DCN degrees.

    Returns:
        MaxText's derived values, and besides them: `devices_per_slice`, `dcn_product` (of the
        raw degrees), `ici_mesh` and `dcn_mesh` (degrees with -1 filled, or UNKNOWN),
        `hardware_slices`, `axis_sizes` (axis to devices, all
        slices together), `expert_axes`, `sequence_axes`, `expert_parallel_size`,
        `context_parallel_size`, `ep_rank` (-1 when a degree is -1), `num_stages`,
        `model_layers` (decoder layers), `fsdp_size`.
    """
    found: dict[str, Any] = {}
    found |= _dimensions(values)
    found |= _mesh(values, found, devices, slices)
    found |= _batch(values, found)
    found |= _pipeline(values, found)
    found |= _schedule(values)
    return found


def _schedule(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return steps and schedule, where -1 means the other (configs/types.py:4265)."""
    steps, schedule = values.get("steps"), values.get("learning_rate_schedule_steps")
    ratios = values.get("compress_ratios")
    known = isinstance(ratios, list) and all(isinstance(ratio, int) for ratio in ratios)
    return {
        "steps": schedule if steps == -1 else steps,
        "learning_rate_schedule_steps": steps if schedule == -1 else schedule,
        "max_compress_ratio": max(ratios or [0]) if known else UNKNOWN,
    }


def times(*numbers: Any) -> Any:
    """Multiply numbers; UNKNOWN if one is unknown or none."""
    if any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
        return UNKNOWN
    return prod(numbers)


def scales(scale: Any) -> tuple[int, int, int, int] | None:
    """Return the powers of two of embedding, heads, MLP and layers for a parameter scale.

    None where MaxText refuses the scale (configs/types.py:3633 get_individual_scales).
    """
    if not isinstance(scale, int) or isinstance(scale, bool) or scale <= 0:
        return None
    power = floor(log2(scale))
    if 2**power != scale:
        return None
    base, rest = divmod(power, 3)
    heads = base + (rest > 0)
    return base + (rest > 1), heads, heads, base


def _dimensions(values: Mapping[str, Any]) -> dict[str, Any]:
    powers = scales(values.get("global_parameter_scale"))
    names = {
        "emb_dim": 0,
        "num_query_heads": 1,
        "num_kv_heads": 1,
        "mlp_dim": 2,
        "moe_mlp_dim": 2,
        "num_decoder_layers": 3,
    }
    return {
        name: times(2 ** powers[which], values.get(f"base_{name}")) if powers else UNKNOWN
        for name, which in names.items()
    }


def degree(values: Mapping[str, Any], group: str, axis: str) -> Any:
    """Return a raw degree, e.g. of ("ici", "fsdp"); 1 for an axis without a key."""
    key = f"{group}_{_KEYS.get(axis, axis)}_parallelism"
    return values.get(key, 1)


def _axes(values: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return the mesh axes, those of the experts and those of the sequence."""
    custom = values.get("custom_mesh_and_rule")
    if custom is UNKNOWN:
        return UNKNOWN, UNKNOWN, UNKNOWN
    row = read("maxtext_code.yaml")["meshes"].get(custom) if custom else None
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


def _mesh(
    values: Mapping[str, Any], known: Mapping[str, Any], devices: int | None, slices: int | None
) -> dict[str, Any]:
    del known
    axes, experts, sequence = _axes(values)
    degrees = [values.get(f"dcn_{axis}_parallelism", 1) for axis in _DCN]
    count = _slices(values, degrees, slices)
    whole: Any = UNKNOWN if devices is None else devices
    each: Any = UNKNOWN
    if isinstance(whole, int) and isinstance(count, int) and count:
        each = whole // count
    ici, dcn = _listed(values, "ici", axes), _listed(values, "dcn", axes)
    sharding = values.get("context_sharding")
    if axes is not UNKNOWN and values.get("custom_mesh_and_rule") and sequence:
        sharding = sequence[0]
    context: Any = UNKNOWN
    if isinstance(sharding, str):
        context = times(
            values.get(f"ici_{sharding}_parallelism", 1),
            values.get(f"dcn_{sharding}_parallelism", 1),
        )
    filled, filled_dcn = _filled(ici, each), _filled(dcn, count)
    sizes = _sizes_of(axes, ici, dcn, filled, filled_dcn, count)
    diloco = _diloco(values, dcn, count)
    return {
        "num_target_devices": UNKNOWN if values.get("compile_topology") else whole,
        "num_slices": count,
        "hardware_slices": UNKNOWN if slices is None else slices,
        "devices_per_slice": each,
        "mesh_axes": axes,
        "context_sharding": sharding,
        "dcn_product": times(*degrees),
        "ici_parallelism": ici,
        "dcn_parallelism": dcn,
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
    row = read("maxtext_code.yaml")["meshes"].get(custom) if custom else None
    return list(row["sequence"] if row else sequence)


def _lower(text: Any) -> Any:
    return text.lower() if isinstance(text, str) else text


def _slices(values: Mapping[str, Any], degrees: Sequence[Any], slices: int | None) -> Any:
    """Return num_slices (utils/max_utils.py:412 get_num_slices)."""
    said, compiled = values.get("num_slices"), values.get("compile_topology_num_slices")
    if said != -1:
        return said if isinstance(said, int) else UNKNOWN
    if not isinstance(compiled, int):
        return UNKNOWN
    if compiled > 0:
        return compiled
    if slices is not None:
        return slices
    more = [*degrees, values.get("dcn_diloco_parallelism", 1)]
    return times(*(max(d, 1) if isinstance(d, int) else d for d in more))


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


def _batch(values: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return batches in sequences (configs/types.py:4437 calculate_global_batch_sizes)."""
    devices = known["num_target_devices"]
    per_device = values.get("per_device_batch_size")
    evaluated = values.get("eval_per_device_batch_size")
    if evaluated == 0:
        evaluated = per_device
    steps = values.get("gradient_accumulation_steps")
    load, micro = _sizes(per_device, values, devices)
    load_eval, micro_eval = _sizes(evaluated, values, devices)
    return {
        "eval_per_device_batch_size": evaluated,
        "micro_batch_size_to_train_on": micro,
        "micro_batch_size_to_eval_on": micro_eval,
        "global_batch_size_to_load": times(load, steps),
        "global_batch_size_to_train_on": times(micro, steps),
        "global_batch_size_to_load_eval": load_eval,
        "global_batch_size_to_eval_on": micro_eval,
    }


def _sizes(per_device: Any, values: Mapping[str, Any], devices: Any) -> tuple[Any, Any]:
    expansion = values.get("expansion_factor_real_data")
    if any(times(number) is UNKNOWN for number in (per_device, expansion, devices)):
        return UNKNOWN, UNKNOWN
    more: Any = expansion if expansion and expansion > 0 else 1
    size: Any = per_device
    if not isfinite(size) or not isfinite(more):
        return UNKNOWN, UNKNOWN
    loaded = devices * more if size < 1 else int(devices * size * more)
    return int(loaded), int(devices * size)


def _pipeline(values: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return stages, repeats and microbatches (configs/types.py:4545-4600)."""
    ici, dcn = values.get("ici_pipeline_parallelism"), values.get("dcn_pipeline_parallelism")
    if not (isinstance(ici, int) and isinstance(dcn, int)):
        return {"using_pipeline_parallelism": UNKNOWN, "num_stages": UNKNOWN}
    layers: Any = values.get("pipeline_parallel_layers")
    if layers == -1:
        layers = known["num_decoder_layers"]
        dense = values.get("first_num_dense_layers")
        if values.get("decoder_block") is UNKNOWN:
            layers = UNKNOWN
        elif values.get("decoder_block") == _DENSE_FIRST and layers is not UNKNOWN:
            layers = layers - dense if isinstance(dense, int) else UNKNOWN
    found = {
        "using_pipeline_parallelism": ici > 1 or dcn > 1,
        "num_stages": ici * dcn,
        "pipeline_parallel_layers": layers,
    }
    if not found["using_pipeline_parallelism"]:
        return found
    stages, held = ici * dcn, values.get("num_layers_per_pipeline_stage")
    repeats: Any = values.get("num_pipeline_repeats")
    if repeats == -1:
        unit = times(stages, held)
        fits = unit is not UNKNOWN and unit and isinstance(layers, int) and layers % unit == 0
        repeats = layers // unit if fits else UNKNOWN
    micro: Any = values.get("num_pipeline_microbatches")
    if micro == -1:
        delayed = values.get("pipeline_delay_activation_forwarding")
        micro = UNKNOWN if delayed is UNKNOWN else 2 * stages if delayed else stages
    return found | {"num_pipeline_repeats": repeats, "num_pipeline_microbatches": micro}
