"""Values MaxText computes from its settings, by its own names; unknown in, unknown out.

Formulas: MaxText 0.2.5 configs/types.py `set_derived_and_validate_values`, where not said
otherwise. What MaxText refuses to compute is UNKNOWN here; a rule says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, isfinite, log2
from typing import Any

from moectl.resolve.derived_mesh import degree, mesh, times
from moectl.workload import UNKNOWN

__all__ = ["degree", "derived", "scales", "times"]

_DENSE_FIRST = "deepseek"


def derived(values: Mapping[str, Any], devices: int | None, slices: int | None) -> dict[str, Any]:
    """Return what MaxText derives.

    Args:
        values: effective values, see `moectl.resolve.effective`.
        devices: devices of the job; None when nobody says.
        slices: slices that the hardware makes of them (see `derived_slices.slices_of`); None
            when they follow the degrees: `num_slices`, else the product of the DCN degrees,
            else, with an open DCN degree, the devices over the product of the ICI degrees.

    Returns:
        MaxText's derived values, and besides them: `devices_per_slice`, `dcn_product` (of the
        raw degrees), `ici_mesh` and `dcn_mesh` (degrees with -1 filled, or UNKNOWN),
        `hardware_slices`, `dcn_listed`
        (before open replicas are filled), `axis_sizes` (axis to devices, all
        slices together), `expert_axes`, `sequence_axes`, `expert_parallel_size`,
        `context_parallel_size`, `ep_rank` (-1 when a degree is -1), `num_stages`,
        `model_layers` (decoder layers), `fsdp_size`.
    """
    found: dict[str, Any] = {}
    found |= _dimensions(values)
    found |= mesh(values, devices, slices)
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
