"""How a mesh lies on NVLink domains, as far as traffic hangs on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Degrees of a mesh, and how many ranks of each group share an NVLink domain.

    MaxText orders a slice's devices with the expert axis innermost, then tensor, context, FSDP
    and stages (configs/base.yml mesh_axes), and slices outermost (jax mesh_utils
    create_hybrid_device_mesh).

    Attributes:
        gpus: devices in all.
        fsdp, expert, tensor, context, data, stages: devices along each axis; data holds
            everything that replicates.
        fsdp_near, expert_near: those of one group in one domain.
        data_far: domains over which the replicas lie.
        whole: whether all weights but the experts are held whole, so that nothing is gathered.
    """

    gpus: int
    fsdp: int
    expert: int
    tensor: int
    context: int
    data: int
    stages: int
    fsdp_near: int
    expert_near: int
    data_far: int
    whole: bool = False


_FSDP = ("fsdp", "fsdp_transpose")
_TENSOR = ("tensor", "tensor_sequence", "tensor_transpose")
_CONTEXT = ("context", "context_usp_ulysses", "context_autoregressive")
_DATA = ("data", "diloco", "autoregressive")
_STAGES = ("pipeline", "stage")


def spread_of(ici: Mapping[str, int], dcn: Mapping[str, int], domain: int) -> Spread:
    """Return how a mesh is spread.

    Args:
        ici: degrees inside a slice, by the name in MaxText's key (fsdp, expert, pipeline, ...);
            an axis that is not named has 1.
        dcn: degrees across slices.
        domain: GPUs of an NVLink domain that are used.
    """
    fsdp_ici, fsdp_dcn = _degree(ici, _FSDP), _degree(dcn, _FSDP)
    expert_ici, expert_dcn = ici.get("expert", 1), dcn.get("expert", 1)
    tensor_ici, tensor = _degree(ici, _TENSOR), _degree(ici, _TENSOR) * _degree(dcn, _TENSOR)
    context_ici, context = _degree(ici, _CONTEXT), _degree(ici, _CONTEXT) * _degree(dcn, _CONTEXT)
    data_ici, data_dcn = _degree(ici, _DATA), _degree(dcn, _DATA)
    stages = _degree(ici, _STAGES) * _degree(dcn, _STAGES)
    fsdp, expert, data = fsdp_ici * fsdp_dcn, expert_ici * expert_dcn, data_ici * data_dcn
    expert_near = _near(expert_ici, domain)
    inner = expert_ici * tensor_ici * context_ici
    fsdp_near = _near(fsdp_ici, domain // inner)
    data_near = _near(data_ici, domain // (inner * fsdp_ici))
    return Spread(
        gpus=fsdp * expert * tensor * context * data * stages,
        fsdp=fsdp,
        expert=expert,
        tensor=tensor,
        context=context,
        data=data,
        stages=stages,
        fsdp_near=fsdp_near,
        expert_near=expert_near,
        data_far=max(1, data // data_near),
    )


def _degree(degrees: Mapping[str, int], names: tuple[str, ...]) -> int:
    product = 1
    for name in names:
        product *= degrees.get(name, 1)
    return product


def _near(degree: int, room: int) -> int:
    """Return the largest divisor of a degree for which there is room."""
    if degree <= room:
        return degree
    return next((d for d in range(max(1, room), 1, -1) if degree % d == 0), 1)
