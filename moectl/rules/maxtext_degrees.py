"""Degrees of the mesh in words: their product, who makes the slices, what would be legal."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from moectl.findings import Severity
from moectl.mesh import divisors, nearest_legal
from moectl.resolve.derived_slices import PARTITION
from moectl.rules.maxtext_words import RUN_FILE, key_of
from moectl.values import Value
from moectl.workload import Workload


def open_keys(w: Workload, group: str) -> list[str]:
    """Return the keys of a group that are -1."""
    axes, degrees = w.value("mesh_axes"), w.value(f"{group}_parallelism")
    if not (isinstance(axes, list) and isinstance(degrees, list)):
        return []
    return [key_of(group, a) for a, d in zip(axes, degrees, strict=False) if d == -1]


def known(degrees: Any) -> bool:
    """Whether these are degrees, none of them unknown."""
    return isinstance(degrees, list) and all(isinstance(degree, int) for degree in degrees)


def number(value: Value | None) -> int | None:
    """Return the whole number of a value of the layout, or None."""
    return value.value if value is not None and isinstance(value.value, int) else None


def product_of(w: Workload, group: str) -> str:
    """Write the product of a group, e.g. "fsdp 4 x expert 4 = 16"."""
    axes, degrees = w.value("mesh_axes"), w.value(f"{group}_parallelism")
    parts = [f"{a} {d}" for a, d in zip(axes, degrees, strict=False) if d != 1]
    return f"{' x '.join(parts) or '1'} = {prod(degrees)}"


def gpus(w: Workload) -> str:
    """Say how many GPUs there are."""
    return f"{w.devices} GPU{'s' if w.devices != 1 else ''}"


def said_keys(w: Workload, group: str) -> list[str]:
    """Return the keys of a group in the order in which they matter for a place."""
    axes, degrees = w.value("mesh_axes"), w.value(f"{group}_parallelism")
    if not (isinstance(axes, list) and isinstance(degrees, list)):
        return []
    keys = [key_of(group, a) for a, d in zip(axes, degrees, strict=False) if d != 1]
    said = [key for key in keys if w.said(key) is not None]
    return [*reversed(said), *keys]


def severity(w: Workload) -> Severity | None:
    """Return the severity of what hangs on slices that a platform makes; None for the rule's own.

    How many NVLink domains an allocation spreads over is the scheduler's choice, and a file
    without a command does not show whether its launcher exports JAX_PARTITION_INDEX.
    """
    if w.slices is None or w.kind == RUN_FILE or number(w.layout.nodes) == 1:
        return None
    if not _possible(w):
        return None
    if w.hardware is None:
        nodes = number(w.layout.nodes)
        return "warning" if nodes is not None else None
    fabric = w.hardware.domain_gpus > w.hardware.gpus_per_node
    return "warning" if fabric or (w.batch is None and w.manifest is None) else None


def _possible(w: Workload) -> bool:
    """Whether some number of slices would fit the degrees of both groups."""
    groups = [w.value(f"{group}_parallelism") for group in ("ici", "dcn")]
    if w.devices is None or not all(known(degrees) for degrees in groups):
        return True
    return any(
        _covers(groups[0], w.devices // slices) and _covers(groups[1], slices)
        for slices in divisors(w.devices)
    )


def _covers(degrees: list[int], size: int) -> bool:
    """Whether degrees multiply to a size, or can be filled up to it; two open ones count too."""
    rest = prod(degree for degree in degrees if degree != -1)
    if rest < 1:
        return False
    return size % rest == 0 if -1 in degrees else size == rest


def made_by(w: Workload) -> str:
    """Say what makes the slices, where the files do not."""
    if w.slices is None or w.slices < 2 or w.kind == RUN_FILE or w.effective["num_slices"] != -1:
        return ""
    nodes = number(w.layout.nodes)
    whose = w.hardware.name if w.hardware is not None else "every known platform of such nodes"
    if w.hardware is None and nodes is None:
        return ""
    unit = "NVLink domain" if w.hardware is not None and w.slices != nodes else "node"
    return f" ({whose} makes each {unit} a slice, unless {PARTITION[0]} says otherwise)"


def dcn_at_fault(w: Workload) -> bool:
    """Whether the slices follow DCN degrees that do not divide the devices (MESH114 says it)."""
    count = w.value("num_slices")
    follows = w.slices is None and w.effective.get("num_slices") == -1
    return bool(follows and w.devices and count > 1 and w.devices % count)


def repairs(w: Workload, group: str, products: Iterable[int]) -> str:
    """Say the nearest legal values of each degree that can be changed, the others kept.

    Args:
        w: the workload.
        group: "ici" or "dcn".
        products: the products of the degrees (without a -1) that would be legal.
    """
    degrees = w.value(f"{group}_parallelism")
    if not known(degrees):
        return ""
    products = list(products)
    whole = prod(d for d in degrees if d != -1)
    found = []
    for key in dict.fromkeys(said_keys(w, group)):
        now = w.effective.get(key)
        if not isinstance(now, int) or now < 1 or whole % now:
            continue
        others = whole // now
        legal = [product // others for product in products if product % others == 0]
        if near := [near for near in nearest_legal(now, legal) if near != now]:
            found.append(f"{key} may be {' or '.join(map(str, near))}")
    return f"{', or '.join(found)}, the others kept" if found else ""
