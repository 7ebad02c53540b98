"""Chooses the mesh and the batch for the number of GPUs asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from math import prod
from typing import Any

from moectl.errors import UsageError, ValueUsageError
from moectl.facts.maxtext import Catalogue
from moectl.facts.yaml_facts import read
from moectl.job import Batch, Degree, Mesh
from moectl.mesh import MeshError, MeshRequest, divisors, nearest_legal, solve
from moectl.resolve.merge import Effective
from moectl.resolve.weights import WeightsError, narrowed
from moectl.settings.flatten import place
from moectl.values import Hardware, Value

MAX_GPUS = 16_384


def axes(catalogue: Catalogue) -> tuple[str, ...]:
    """Return the names of the axes a degree can be given for, e.g. "fsdp", "pipeline"."""
    keys = (catalogue.axes[axis].ici for axis in catalogue.mesh_axes)
    return tuple(key.removeprefix("ici_").removesuffix("_parallelism") for key in keys if key)


def fitted(
    effective: Effective, hardware: Hardware, catalogue: Catalogue, model: Mapping[str, Any]
) -> tuple[Mesh, Value | None]:
    """Return the mesh of the job, and the logical axis rules it needs (None: MaxText's own).

    Args:
        effective: the merged settings; `gpus` must be among them.
        hardware: the platform.
        catalogue: keys of the MaxText release.
        model: effective MaxText values, mesh degrees aside.

    Raises:
        UsageError: unknown axes, a number of GPUs that cannot be (with what is legal near
            it), or degrees that cannot be (with the arithmetic).
    """
    wish = request(effective, hardware, model, axes(catalogue))
    try:
        return _fit(wish, catalogue, model)
    except (MeshError, WeightsError) as error:
        near = _near(wish, catalogue, model)
        hint = f"; {_listed(near)} GPUs are possible" if near else ""
        where = place(effective.origin("gpus"))
        raise UsageError(f"{where}: {wish.gpus} GPUs: {error}{hint}") from None


def _fit(
    wish: MeshRequest, catalogue: Catalogue, model: Mapping[str, Any]
) -> tuple[Mesh, Value | None]:
    """Return the first mesh whose weights can be cut."""
    first: MeshError | WeightsError | None = None
    for tried in _attempts(wish):
        try:
            ici, dcn = solve(tried)
            degrees = {axis: Degree(ici.get(axis, 1), dcn.get(axis, 1)) for axis in axes(catalogue)}
            rules = narrowed(model, degrees, catalogue)
        except (MeshError, WeightsError) as error:
            first = first or error
            continue
        size = prod(ici.values())
        return Mesh(degrees, wish.gpus // size, size), rules
    assert first is not None  # noqa: S101 - there is at least the wished degree
    raise first


def _attempts(wish: MeshRequest) -> Iterator[MeshRequest]:
    """Yield the wish, then what may help when a weight cannot be cut.

    Where every GPU holds weights, that is a larger expert degree, which leaves FSDP fewer
    cuts; where a data degree can take GPUs, it is a smaller slice.
    """
    yield wish
    limit = wish.slice_gpus or wish.domain_gpus
    if wish.weight_shards is not None:
        sizes = [s for s in divisors(wish.gpus) if s < limit and s % wish.gpus_per_node == 0]
        yield from (replace(wish, slice_gpus=size) for size in sizes)
        # Or the weights are cut inside a slice only, and data takes the slices.
        for size in (min(limit, wish.gpus), *sizes):
            yield replace(wish, slice_gpus=size, weight_shards=min(size, wish.weight_shards))
        return
    wished = wish.ici.get("expert", 1)
    if "expert" in wish.pinned_ici or wished == -1 or wish.experts is None:
        return
    for degree in sorted(divisors(wish.experts)):
        if wished < degree <= limit and degree % wished == 0:
            yield replace(wish, ici={**wish.ici, "expert": degree})


def _near(wish: MeshRequest, catalogue: Catalogue, model: Mapping[str, Any]) -> list[int]:
    """Return the nearest possible numbers of GPUs on either side, at most one each."""
    found: list[int] = []
    node = wish.gpus_per_node
    below = range(wish.gpus // node * node - node, 0, -node)
    above = range(wish.gpus // node * node + node, MAX_GPUS + 1, node)
    for counts in (below, above):
        for count in islice(counts, 96):
            try:
                _fit(replace(wish, gpus=count), catalogue, model)
            except (MeshError, WeightsError):
                continue
            found.append(count)
            break
    return found


def check_count(gpus: Any, effective: Effective, hardware: Hardware) -> None:
    """Refuse a number of GPUs that is not whole nodes within the limits.

    Raises:
        ValueUsageError: with what is legal near it.
    """
    node = hardware.gpus_per_node
    if isinstance(gpus, int) and 1 <= gpus <= MAX_GPUS and gpus % node == 0:
        return
    legal = f"{hardware.name} has {node} GPUs a node, so it is a multiple of {node}"
    if isinstance(gpus, int):
        near = nearest_legal(gpus, range(node, MAX_GPUS + 1, node), 1)
        legal += f" from {node} to {MAX_GPUS}, e.g. {_listed(near)}"
    origin = effective.origin("gpus")
    what = origin.layer if origin.layer.startswith("--") else "gpus"
    where = "" if origin.layer.startswith("--") else place(origin)
    raise ValueUsageError(what, gpus, legal, where=where)


def request(
    effective: Effective, hardware: Hardware, model: Mapping[str, Any], known: tuple[str, ...]
) -> MeshRequest:
    """Return what the settings ask of the mesh."""
    wished: dict[str, dict[str, int]] = {}
    pinned: dict[str, frozenset[str]] = {}
    for group in ("ici", "dcn"):
        section = effective.section(f"parallelism.{group}")
        for axis in section:
            _check_axis(group, axis, section[axis].value, known, effective)
        wished[group] = {axis: value.value for axis, value in section.items()}
        pinned[group] = frozenset(
            axis
            for axis, value in section.items()
            if value.value != -1 and effective.said_by_person(f"parallelism.{group}.{axis}")
        )
    domain = _domain_gpus(effective, hardware)
    fsdp_only = any(
        model.get(key) == value for key, value in read("launch.yaml")["no_data_degree"].items()
    )
    experts = model.get("num_experts")
    return MeshRequest(
        gpus=effective.get("gpus"),
        gpus_per_node=hardware.gpus_per_node,
        domain_gpus=domain,
        ici=wished["ici"],
        dcn=wished["dcn"],
        pinned_ici=pinned["ici"],
        pinned_dcn=pinned["dcn"],
        slice_gpus=effective.get("parallelism.slice_gpus"),
        # A data degree would multiply every rank's tokens in the MoEBlock, so there is none.
        weight_shards=None if fsdp_only else (effective.get("parallelism.weight_shards")),
        experts=experts if isinstance(experts, int) and experts > 1 else None,
    )


def _domain_gpus(effective: Effective, hardware: Hardware) -> int:
    """Return the GPUs of an NVLink domain that a slice may take.

    Raises:
        ValueUsageError: more nodes than a domain has.
    """
    most = max(1, hardware.domain_gpus // hardware.gpus_per_node)
    title = f"an NVLink domain of {hardware.name}"
    usable = None
    for key in ("nodes_per_domain", "usable_nodes"):
        path = f"cluster.{key}"
        said = effective.get(path)
        if said and said > most:
            legal = f"{title} has {most} node{'' if most == 1 else 's'}"
            raise ValueUsageError(path, said, legal, where=place(effective.origin(path)))
        if said:
            usable, most, title = said, said, "an NVLink domain of this site"
    return usable * hardware.gpus_per_node if usable else hardware.usable_domain_gpus


def _check_axis(
    group: str, axis: str, degree: int, known: tuple[str, ...], effective: Effective
) -> None:
    from moectl.errors import UnknownNameError  # noqa: PLC0415 - a fault pays for it

    path = f"parallelism.{group}.{axis}"
    where = place(effective.origin(path))
    if axis not in known:
        raise UnknownNameError("mesh axis", axis, known, where=where)
    if degree < 1 and degree != -1:
        raise ValueUsageError(
            path, degree, "a degree is 1 or more, or -1 for what is left", where=where
        )


def batch_path(effective: Effective) -> str:
    """Return which of the two fields decides the batch: the one said with more force."""
    if effective.get("batch.global") is None:
        return "batch.per_device"
    per_device = effective.layers.get("batch.per_device", 0)
    stronger = per_device > effective.layers["batch.global"]
    return "batch.per_device" if stronger else "batch.global"


def batch(effective: Effective, the_mesh: Mesh) -> Batch:
    """Return the batch arithmetic.

    Global batch = per-device batch x GPUs x accumulation (MaxText configs/types.py,
    calculate_global_batch_sizes).

    Raises:
        UsageError: a global batch that does not divide, or contradicts a per-device batch.
    """
    gpus = the_mesh.slices * the_mesh.gpus_per_slice
    accumulation = effective.get("batch.accumulation")
    length = effective.get("batch.sequence_length")
    wanted = effective.get("batch.global")
    per_device = effective.get("batch.per_device")
    layers = effective.layers
    if batch_path(effective) != "batch.global":
        wanted = None
    if wanted is None:
        total = float(per_device or 12) * gpus * accumulation
        if total != int(total):
            raise UsageError(
                f"{place(effective.origin('batch.per_device'))}: batch.per_device {per_device} x "
                f"{gpus} GPUs x accumulation {accumulation} is {total}, not whole sequences"
            )
        return Batch(float(per_device or 12), accumulation, int(total), length)
    unit = gpus * accumulation
    if wanted % unit and (wanted % accumulation or unit % wanted):
        near = [n for n in (wanted // unit * unit, wanted // unit * unit + unit) if n]
        raise ValueUsageError(
            "--global-batch"
            if effective.origin("batch.global").layer == "--global-batch"
            else "batch.global",
            wanted,
            f"{gpus} GPUs x accumulation {accumulation} take a multiple of {unit}, e.g. "
            f"{_listed(near)}",
        )
    implied = wanted / unit
    if (
        per_device is not None
        and implied != per_device
        and layers.get("batch.per_device", 0) == layers["batch.global"]
    ):
        raise UsageError(
            f"{place(effective.origin('batch.global'))}: batch.global {wanted} is {implied:g} a "
            f"GPU, but batch.per_device says {per_device:g}; say one of them"
        )
    return Batch(implied, accumulation, wanted, length)


def _listed(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))
