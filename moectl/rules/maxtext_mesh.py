"""Rules on the mesh: MaxText wants the degrees to be the devices, inside slices and across."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from moectl.findings import Severity
from moectl.mesh import divisors
from moectl.resolve.derived_slices import node_is_domain
from moectl.rules.maxtext_degrees import (
    dcn_at_fault,
    gpus,
    known,
    made_by,
    number,
    open_keys,
    product_of,
    repairs,
    said_keys,
    severity,
)
from moectl.rules.maxtext_words import key_of, write
from moectl.rules.rule import Fault, rules
from moectl.workload import UNKNOWN, Workload

RULES = rules()
_SAID = {"ici": "inside a slice", "dcn": "across slices"}
_BASE = "MaxText 0.2.5 "


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
    if isinstance(slices, int):
        if slices > 1:
            yield from _two_open(w, "dcn", severity(w))
        return
    nodes = number(w.layout.nodes)
    certain = nodes is not None and nodes > 1 and node_is_domain(w.devices, nodes)
    if w.effective.get("num_slices") == -1 and (w.devices or 2) > 1:
        yield from _two_open(w, "dcn", None if certain else "warning")


def _two_open(w: Workload, group: str, weight: Severity | None = None) -> Iterator[Fault]:
    keys = open_keys(w, group)
    if len(keys) < 2:
        return
    said = [key for key in keys if w.said(key) is not None]
    where = w.where(*reversed(said))
    defaults = [key for key in keys if key not in said]
    by_default = f" ({', '.join(defaults)} by default)" if defaults else ""
    sentence = f"{' and '.join(keys)} are -1{by_default}; one degree {_SAID[group]} may be"
    if weight == "warning":
        sentence += ", wherever there are several slices"
    hint = write(w, **{(defaults or keys)[0]: 1})
    yield Fault((said or keys)[-1], sentence, where, hint, weight)


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
    if w.devices is None or not known(degrees):
        return
    if degrees.count(-1) > 1 or any(d < 1 and d != -1 for d in degrees):
        return
    size = prod(d for d in degrees if d != -1)
    keys = said_keys(w, "ici")
    where, field = w.where(*keys, "num_slices"), (keys or ["num_slices"])[0]
    if not isinstance(slices, int):
        if w.devices % size:
            hint = repairs(w, "ici", divisors(w.devices))
            sentence = f"the ICI degrees {_multiply(w)}, which does not divide the {gpus(w)}"
            yield Fault(field, sentence, where, hint)
        return
    if slices < 1 or dcn_at_fault(w):
        return
    each = w.devices // slices
    arithmetic = f"{gpus(w)} / {slices} slice{'s' if slices != 1 else ''} = {each}"
    weight = None if w.devices % size else severity(w)
    if -1 in degrees:
        if each < size or each % size:
            sentence = (
                f"the ICI degrees {_multiply(w)}, which does not divide "
                f"the {arithmetic} devices of a slice{made_by(w)}"
            )
            yield Fault(field, sentence, where, repairs(w, "ici", divisors(each)), weight)
        return
    if size != each:
        sentence = (
            f"the ICI degrees are {product_of(w, 'ici')}, but a slice has {arithmetic} "
            f"devices{made_by(w)}"
        )
        hints = [repairs(w, "ici", [each])]
        if w.slices is None and w.effective.get("num_slices") == -1 and w.devices % size == 0:
            hints.append(repairs(w, "dcn", [w.devices // size]))
        hint = "; or ".join(hint for hint in hints if hint)
        yield Fault(field, sentence, where, hint, weight)


def _multiply(w: Workload) -> str:
    """Say what the degrees inside a slice come to."""
    degrees = w.value("ici_parallelism")
    besides = "other than the -1 " if -1 in degrees else ""
    return f"{besides}multiply to {prod(d for d in degrees if d != -1)}"


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
