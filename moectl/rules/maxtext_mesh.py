"""Rules on the mesh: MaxText wants the degrees to be the devices, inside slices and across."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from moectl.mesh import nearest_legal
from moectl.rules.maxtext_words import key_of, write
from moectl.rules.rule import Fault, rules
from moectl.workload import UNKNOWN, Workload

RULES = rules()
_SAID = {"ici": "inside a slice", "dcn": "across slices"}
_BASE = "MaxText 0.2.5 "


def _open(w: Workload, group: str) -> list[str]:
    """Return the keys of a group that are -1."""
    axes, degrees = w.value("mesh_axes"), w.value(f"{group}_parallelism")
    if not (isinstance(axes, list) and isinstance(degrees, list)):
        return []
    return [key_of(group, a) for a, d in zip(axes, degrees, strict=False) if d == -1]


def _known(degrees: Any) -> bool:
    return isinstance(degrees, list) and all(isinstance(degree, int) for degree in degrees)


def _product(w: Workload, group: str) -> str:
    """Write the product of a group, e.g. "fsdp 4 x expert 4 = 16"."""
    axes, degrees = w.value("mesh_axes"), w.value(f"{group}_parallelism")
    parts = [f"{a} {d}" for a, d in zip(axes, degrees, strict=False) if d != 1]
    return f"{' x '.join(parts) or '1'} = {prod(degrees)}"


def _said_keys(w: Workload, group: str) -> list[str]:
    """Return the keys of a group in the order in which they matter for a place."""
    axes, degrees = w.value("mesh_axes"), w.value(f"{group}_parallelism")
    if not (isinstance(axes, list) and isinstance(degrees, list)):
        return []
    keys = [key_of(group, a) for a, d in zip(axes, degrees, strict=False) if d != 1]
    said = [key for key in keys if w.said(key) is not None]
    return [*reversed(said), *keys]


@RULES.rule(
    "MESH110",
    "more than one -1 inside a slice",
    reason="MaxText fills one open degree; with two it cannot tell which gets what.",
    remedy="give all but one of them a number",
    source=_BASE + "utils/max_utils.py:464",
    stage="config",
)
def two_open_ici(w: Workload) -> Iterator[Fault]:
    """Find two ICI degrees of -1, however many devices there are."""
    yield from _two_open(w, "ici")


@RULES.rule(
    "MESH111",
    "more than one -1 across slices",
    reason="MaxText fills one open degree; with two it cannot tell which gets what. With one "
    "slice it does not look.",
    remedy="give all but one of them a number",
    source=_BASE + "utils/max_utils.py:464, utils/maxtext_utils.py:2063",
    stage="config",
)
def two_open_dcn(w: Workload) -> Iterator[Fault]:
    """Find two DCN degrees of -1 on several slices."""
    slices = w.value("num_slices")
    if isinstance(slices, int) and slices > 1:
        yield from _two_open(w, "dcn")


def _two_open(w: Workload, group: str) -> Iterator[Fault]:
    keys = _open(w, group)
    if len(keys) < 2:
        return
    said = [key for key in keys if w.said(key) is not None]
    where = w.where(*reversed(said))
    defaults = [key for key in keys if key not in said]
    by_default = f" ({', '.join(defaults)} by default)" if defaults else ""
    sentence = f"{' and '.join(keys)} are -1{by_default}; one degree {_SAID[group]} may be"
    yield Fault((said or keys)[-1], sentence, where, write(w, **{(defaults or keys)[0]: 1}))


@RULES.rule(
    "MESH112",
    "degree inside a slice that leaves no mesh",
    reason="A degree is 1 or more, or -1 for what is left.",
    remedy="write 1 or more, or -1",
    source=_BASE + "utils/max_utils.py:468-480",
    stage="config",
)
def no_degree(w: Workload) -> Iterator[Fault]:
    """Find ICI degrees of 0 or below -1, and DCN degrees on several slices."""
    slices = w.value("num_slices")
    several = isinstance(slices, int) and slices > 1
    axes = w.value("mesh_axes")
    if axes is UNKNOWN:
        return
    for group in ("ici", "dcn") if several else ("ici",):
        degrees = w.value(f"{group}_parallelism")
        if not isinstance(degrees, list):
            continue
        for axis, degree in zip(axes, degrees, strict=False):
            if isinstance(degree, int) and degree < 1 and degree != -1:
                key = key_of(group, axis)
                sentence = f"{key} is {degree}; a degree is 1 or more, or -1 for what is left"
                yield Fault(key, sentence, w.where(key))


@RULES.rule(
    "MESH113",
    "degrees against the devices of a slice",
    reason="The product of the ICI degrees must be the devices of one slice.",
    remedy="change a degree, the number of GPUs, or leave one degree -1",
    source=_BASE + "utils/max_utils.py:462-485",
    stage="config",
)
def devices_per_slice(w: Workload) -> Iterator[Fault]:
    """Find ICI degrees whose product is not devices / slices."""
    degrees, slices = w.value("ici_parallelism"), w.value("num_slices")
    if w.devices is None or not _known(degrees) or not isinstance(slices, int):
        return
    if slices == 0 or degrees.count(-1) > 1 or any(d < 1 and d != -1 for d in degrees):
        return
    each = w.devices // slices
    size = prod(d for d in degrees if d != -1)
    arithmetic = f"{w.devices} GPUs / {slices} slice{'s' if slices != 1 else ''} = {each}"
    keys = _said_keys(w, "ici")
    where, field = w.where(*keys, "num_slices"), (keys or ["num_slices"])[0]
    if -1 in degrees:
        if each < size or each % size:
            sentence = (
                f"the ICI degrees other than the -1 multiply to {size}, which does not divide "
                f"the {arithmetic} devices of a slice"
            )
            yield Fault(field, sentence, where, _repair(w, each, keys))
        return
    if size != each:
        sentence = f"the ICI degrees are {_product(w, 'ici')}, but a slice has {arithmetic} devices"
        yield Fault(field, sentence, where, _repair(w, each, keys))


def _repair(w: Workload, each: int, keys: Sequence[str]) -> str:
    """Say the nearest legal value of one degree, the others kept."""
    for key in keys:
        now = w.effective.get(key)
        degrees = w.value("ici_parallelism")
        if not isinstance(now, int) or now < 1:
            continue
        others = prod(d for d in degrees if d != -1) // now
        if others < 1 or each < others or each % others:
            continue
        if -1 in degrees:
            legal = [d for d in range(1, each // others + 1) if (each // others) % d == 0]
            near = nearest_legal(now, legal)
        else:
            near = [each // others]
        if near:
            return f"{key} may be {' or '.join(map(str, near))}, the others kept"
    return ""


@RULES.rule(
    "MESH114",
    "degrees against the slices",
    reason="The product of the DCN degrees must be the number of slices, whether num_slices or "
    "the hardware says it.",
    remedy="change a DCN degree, or leave one -1",
    source=_BASE + "utils/max_utils.py:462-485, jax 0.12.0.1 jax/_src/mesh_utils.py:953",
    stage="config",
)
def slices(w: Workload) -> Iterator[Fault]:
    """Find DCN degrees whose product is not the number of slices."""
    degrees, count = w.value("dcn_parallelism"), w.value("num_slices")
    if not _known(degrees) or not isinstance(count, int) or count < 2:
        return
    if degrees.count(-1) > 1 or any(d < 1 and d != -1 for d in degrees):
        return
    size = prod(d for d in degrees if d != -1)
    keys = _said_keys(w, "dcn")
    where, field = w.where(*keys, "num_slices"), (keys or ["num_slices"])[0]
    if (count < size or count % size) if -1 in degrees else size != count:
        said = _product(w, "dcn") if -1 not in degrees else f"{size} without the -1"
        sentence = f"the DCN degrees are {said}, but there are {count} slices"
        yield Fault(field, sentence, where)
        return
    hardware = w.value("hardware_slices")
    if isinstance(hardware, int) and hardware != count:
        sentence = f"num_slices is {count}, but the hardware makes {hardware} slices of the GPUs"
        yield Fault("num_slices", sentence, w.where("num_slices"), "leave num_slices out")


@RULES.rule(
    "MESH115",
    "DCN degrees on a single slice",
    reason="DCN degrees are across slices; with one slice there is nothing across.",
    remedy="move them to the ICI degrees, or start more slices",
    source=_BASE + "configs/types.py:5347",
    stage="config",
)
def dcn_on_one_slice(w: Workload) -> Iterator[Fault]:
    """Find DCN degrees above 1 where there is one slice."""
    product, count = w.value("dcn_product"), w.value("num_slices")
    if isinstance(product, int) and isinstance(count, int) and abs(product) > 1 and count <= 1:
        keys = _said_keys(w, "dcn")
        field = keys[0] if keys else "num_slices"
        sentence = f"the DCN degrees multiply to {product}, but there is {count} slice"
        moved = field.replace("dcn_", "ici_", 1)
        hint = f"{moved} instead of {field}, or start more slices" if keys else ""
        yield Fault(field, sentence, w.where(field), hint)


@RULES.rule(
    "MESH116",
    "num_slices that is no number of slices",
    reason="MaxText divides the devices by it.",
    remedy="leave num_slices out, or -1",
    source=_BASE + "utils/maxtext_utils.py:2040",
    stage="config",
)
def no_slices(w: Workload) -> Iterator[Fault]:
    """Find num_slices of 0, below -1, or more than there are devices."""
    said = w.effective.get("num_slices")
    if not isinstance(said, int) or said == -1:
        return
    if said < 1 or (w.devices is not None and said > w.devices):
        sentence = f"num_slices is {said}" + (f" for {w.devices} GPUs" if w.devices else "")
        yield Fault("num_slices", sentence, w.where("num_slices"))


@RULES.rule(
    "MESH117",
    "mesh axes that are no mesh",
    reason="A mesh has each axis once.",
    remedy="leave mesh_axes out; degrees size the axes",
    source="jax 0.12.0.1 jax.sharding.Mesh",
    stage="config",
)
def repeated_axes(w: Workload) -> Iterator[Fault]:
    """Find a mesh axis named twice."""
    axes = w.value("mesh_axes")
    if isinstance(axes, list) and len(set(axes)) < len(axes):
        sentence = f"mesh_axes names an axis twice: {', '.join(axes)}"
        yield Fault("mesh_axes", sentence, w.where("mesh_axes"))


@RULES.rule(
    "MESH105",
    "num_slices against the hardware",
    reason="MaxText takes num_slices for true and lays the mesh over slices that are not there.",
    remedy="leave num_slices out",
    source=_BASE + "utils/max_utils.py:412",
    stage="later",
)
def said_slices(w: Workload) -> Iterator[Fault]:
    """Find num_slices that differs from the slices of the hardware."""
    said = w.effective.get("num_slices")
    if isinstance(said, int) and w.slices is not None and said not in {-1, w.slices}:
        sentence = f"num_slices is {said}, but the hardware makes {w.slices} slices of the GPUs"
        yield Fault("num_slices", sentence, w.where("num_slices"))


@RULES.rule(
    "MESH121",
    "tensor or sequence axis across slices",
    reason="These axes exchange activations in every layer, which the network between slices "
    "slows down; MaxText's own file calls them never recommended there.",
    remedy="move the degree to the ICI axis, and FSDP or data across slices",
    source=_BASE + "configs/base.yml:772-780",
    severity="warning",
    stage="advice",
)
def slow_axes(w: Workload) -> Iterator[Fault]:
    """Find DCN degrees above 1 of axes that want the fabric of a slice."""
    for axis in ("sequence", "tensor", "tensor_sequence", "autoregressive"):
        key = key_of("dcn", axis)
        degree = w.effective.get(key)
        if isinstance(degree, int) and degree > 1:
            yield Fault(key, f"{key} is {degree}", w.where(key))
