"""Mesh arithmetic: which ICI and DCN degrees a number of GPUs gets.

A slice is the set of nodes that carries one ICI mesh. MaxText wants the product of the ICI
degrees to be the devices of a slice and the product of the DCN degrees to be the number of
slices (utils/max_utils.py fill_unspecified_mesh_axes); both are chosen here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod


class MeshError(ValueError):
    """The degrees cannot be: one sentence with the arithmetic."""


@dataclass(frozen=True, slots=True)
class MeshRequest:
    """What is asked of a mesh.

    Attributes:
        gpus: devices in all.
        gpus_per_node: devices a node; a slice is whole nodes.
        domain_gpus: usable devices of one NVLink domain.
        ici: wished ICI degrees by axis; at most one -1.
        dcn: wished DCN degrees by axis; at most one -1.
        pinned_ici: axes of `ici` that must stay as wished.
        pinned_dcn: axes of `dcn` that must stay as wished.
        slice_gpus: devices a slice at most; None is one domain.
        weight_shards: devices the weights are cut over at most; None is all.
        experts: number of experts, which the expert degree must divide; None if unknown.
    """

    gpus: int
    gpus_per_node: int
    domain_gpus: int
    ici: Mapping[str, int]
    dcn: Mapping[str, int]
    pinned_ici: frozenset[str] = frozenset()
    pinned_dcn: frozenset[str] = frozenset()
    slice_gpus: int | None = None
    weight_shards: int | None = None
    experts: int | None = None


def solve(request: MeshRequest) -> tuple[dict[str, int], dict[str, int]]:
    """Return the ICI and the DCN degrees, every -1 and every free axis decided.

    Pinned axes stay. The expert degree shrinks only below its wish, to a divisor of it; FSDP
    fills the slice; the slices go to FSDP until the weights are cut over `weight_shards`
    devices, and to data beyond.

    Raises:
        MeshError: no such degrees exist.
    """
    if request.gpus % request.gpus_per_node:
        raise MeshError(f"{request.gpus} GPUs are not whole nodes of {request.gpus_per_node}")
    ici = _ici(request)
    dcn = _dcn(request, ici)
    if prod(ici.values()) * prod(dcn.values()) != request.gpus:
        raise MeshError(
            f"the degrees ICI {_said(ici)} and DCN {_said(dcn)} make "
            f"{prod(ici.values()) * prod(dcn.values())} GPUs, not {request.gpus}"
        )
    return (
        {axis: degree for axis, degree in ici.items() if degree != 1},
        {axis: degree for axis, degree in dcn.items() if degree != 1},
    )


def _fill_axis(degrees: Mapping[str, int], pinned: frozenset[str], group: str) -> str | None:
    """Return the axis that takes what is left: the -1, else FSDP unless it is pinned."""
    open_axes = [axis for axis, degree in degrees.items() if degree == -1]
    if len(open_axes) > 1:
        raise MeshError(f"only one {group} degree may be -1, not {' and '.join(open_axes)}")
    if open_axes:
        return open_axes[0]
    return None if "fsdp" in pinned else "fsdp"


def _ici(request: MeshRequest) -> dict[str, int]:
    fill = _fill_axis(request.ici, request.pinned_ici, "ICI")
    limit = request.slice_gpus or request.domain_gpus
    degrees = {a: d for a, d in request.ici.items() if a not in {fill, "expert"}}
    others = prod(degrees.values())
    if fill != "expert":
        wish = request.ici.get("expert", 1)
        if "expert" in request.pinned_ici:
            degrees["expert"] = wish
        else:
            degrees["expert"] = next(
                (
                    d
                    for d in divisors(wish)
                    if request.gpus % (d * others) == 0
                    and d * others <= max(limit, others)
                    and (request.experts or d) % d == 0
                ),
                1,
            )
    fixed = prod(degrees.values())
    if fill is None:
        size = fixed
    else:
        size = next(
            (
                s
                for s in divisors(request.gpus)
                if s <= max(limit, fixed) and s % request.gpus_per_node == 0 and s % fixed == 0
            ),
            0,
        )
        if size == 0:
            raise MeshError(
                f"the ICI degrees {_said(degrees)} multiply to {fixed}, which divides no slice: "
                f"a slice is whole nodes of {request.gpus_per_node} GPUs, at most {limit} GPUs, "
                f"and must divide {request.gpus}"
            )
        degrees[fill] = size // fixed
    if request.gpus % size or size % request.gpus_per_node:
        raise MeshError(
            f"the ICI degrees {_said(degrees)} multiply to {size}; a slice must be whole nodes "
            f"of {request.gpus_per_node} GPUs and divide {request.gpus}"
        )
    return degrees


def _dcn(request: MeshRequest, ici: Mapping[str, int]) -> dict[str, int]:
    slices = request.gpus // prod(ici.values())
    fill = _fill_axis(request.dcn, request.pinned_dcn, "DCN")
    free = {fill, *({"fsdp", "data"} - request.pinned_dcn)} - {None}
    degrees = {a: d for a, d in request.dcn.items() if a not in free}
    fixed = prod(degrees.values())
    if slices % fixed or (not free and slices != fixed):
        raise MeshError(
            f"the DCN degrees {_said(degrees)} multiply to {fixed}, but {request.gpus} GPUs in "
            f"slices of {prod(ici.values())} are {slices} slices"
        )
    left = slices // fixed
    if not free:
        return degrees
    if fill != "fsdp" or request.weight_shards is None or "data" in request.pinned_dcn:
        if fill is None:
            fill = "data"
        degrees[fill] = left
        return degrees
    cut = prod(ici.get(axis, 1) for axis in ("fsdp", "fsdp_transpose", "expert"))
    degrees["fsdp"] = next(d for d in divisors(left) if d * cut <= request.weight_shards or d == 1)
    degrees["data"] = left // degrees["fsdp"]
    return degrees


def divisors(number: int) -> Iterator[int]:
    """Yield the divisors of a positive number, greatest first."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    yield from sorted({*small, *(number // d for d in small)}, reverse=True)


def nearest_legal(wish: int, legal: Iterable[int], count: int = 2) -> list[int]:
    """Return up to `count` legal numbers on either side of `wish`, in order."""
    numbers = sorted(set(legal))
    below = [n for n in numbers if n < wish][-count:]
    above = [n for n in numbers if n > wish][:count]
    return [*below, *above]


def _said(degrees: Mapping[str, int]) -> str:
    return " x ".join(f"{axis} {degree}" for axis, degree in degrees.items() if degree != 1) or "1"
