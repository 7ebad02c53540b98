"""Rules on slices: DCN degrees, num_slices and the hardware must agree about how many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from moectl.mesh import divisors
from moectl.resolve.derived_slices import PARTITION, domains, node_is_domain
from moectl.rules.maxtext_degrees import (
    dcn_at_fault,
    gpus,
    known,
    made_by,
    number,
    product_of,
    repairs,
    said_keys,
    severity,
)
from moectl.rules.maxtext_words import RUN_FILE
from moectl.rules.rule import Fault, rules
from moectl.workload import Workload

RULES = rules()
_BASE = "MaxText 0.2.5 "


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
    if not known(degrees) or not isinstance(count, int) or count < 2:
        return
    if degrees.count(-1) > 1 or any(d < 1 and d != -1 for d in degrees):
        return
    size = prod(d for d in degrees if d != -1)
    keys = said_keys(w, "dcn")
    where, field = w.where(*keys, "num_slices"), (keys or ["num_slices"])[0]
    if dcn_at_fault(w):
        sentence = (
            f"the DCN degrees are {product_of(w, 'dcn')} slices, which do not divide {gpus(w)}"
        )
        yield Fault(field, sentence, where, repairs(w, "dcn", _possible(w)))
        return
    if (count < size or count % size) if -1 in degrees else size != count:
        said = product_of(w, "dcn") if -1 not in degrees else f"{size} without the -1"
        sentence = f"the DCN degrees are {said}, but there are {count} slices{made_by(w)}"
        legal = divisors(count) if -1 in degrees else [count]
        yield Fault(field, sentence, where, repairs(w, "dcn", legal), severity(w))
        return
    hardware = w.value("hardware_slices")
    if isinstance(hardware, int) and hardware != count:
        sentence = f"num_slices is {count}, but the hardware makes {hardware} slices of the GPUs"
        where = w.where("num_slices")
        yield Fault("num_slices", sentence, where, "leave num_slices out", severity(w))


def _possible(w: Workload) -> Iterable[int]:
    """Return the numbers of slices that the devices can be."""
    ici = w.value("ici_parallelism")
    size = prod(ici) if known(ici) and -1 not in ici else 0
    if w.devices is not None and size > 0 and w.devices % size == 0:
        return [w.devices // size]
    nodes = number(w.layout.nodes)
    return divisors(nodes or w.devices or 1)


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
        keys = said_keys(w, "dcn")
        field = keys[0] if keys else "num_slices"
        sentence = f"the DCN degrees multiply to {product}, but there is {count} slice"
        if count == 1 and w.slices == 1 and number(w.layout.nodes) == 1:
            sentence += ", as all GPUs are of one node"
        moved = field.replace("dcn_", "ici_", 1)
        hint = f"{moved} instead of {field}, or start more slices" if keys else ""
        yield Fault(field, sentence, w.where(field), hint, severity(w))


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
    "MESH105",
    "num_slices against the hardware",
    reason="MaxText takes num_slices for true and lays the mesh over slices that are not there.",
    remedy="leave num_slices out",
    source=_BASE + "utils/max_utils.py:412",
    stage="later",
)
def said_slices(w: Workload) -> Iterator[Fault]:
    """Find a num_slices of 1 where the hardware makes several; more than 1 is MESH114's."""
    said = w.effective.get("num_slices")
    if said == 1 and w.slices is not None and w.slices > 1:
        sentence = f"num_slices is {said}, but the hardware makes {w.slices} slices of the GPUs"
        yield Fault("num_slices", sentence, w.where("num_slices"), "", severity(w))


@RULES.rule(
    "MESH122",
    "slices that the platform does not make",
    reason="XLA makes each host a slice where NVLink ends at the host, and each NVLink domain "
    "where it spans hosts; the ICI degrees must be the GPUs of one slice. Not seen here: it "
    "needs such a cluster.",
    remedy="let the ICI degrees be the GPUs of a node or NVLink domain, the rest DCN degrees, or "
    "export JAX_PARTITION_INDEX, the same for the nodes of a slice",
    source=_BASE + "utils/elastic_utils.py:175, openxla xla/pjrt/distributed/topology_util.cc",
    severity="warning",
    stage="later",
)
def wide_slice(w: Workload) -> Iterator[Fault]:
    """Find slices, as the degrees want them, of which the platform makes another number."""
    count, nodes = w.value("num_slices"), number(w.layout.nodes)
    if w.slices is not None or not isinstance(count, int) or w.batch is None:
        return
    if nodes is None or nodes < 2 or w.devices is None or count < 1 or nodes % count:
        return
    ici, size = w.value("ici_parallelism"), w.devices // count
    if any(name in w.environment for name in PARTITION) or not known(ici):
        return
    if -1 not in ici and prod(ici) != size:
        return
    each = w.devices // nodes
    usual: int | None = nodes
    if w.hardware is None:
        whose = f"on every known platform of {each} GPUs a node each node is a slice of its own"
        if not node_is_domain(w.devices, nodes):
            return
    else:
        usual = domains(nodes, w.hardware)
        whose = f"the {nodes} nodes lie in {usual} NVLink domain{'s' if usual != 1 else ''}"
        whose += f", if {w.hardware.name} is filled, and each is a slice"
        if each != w.hardware.gpus_per_node:
            return
    if usual is None or count == usual or w.kind == RUN_FILE:
        return
    keys = said_keys(w, "ici") or ["num_slices"]
    wide = nodes // count
    sentence = (
        f"a slice has {size} GPUs = {wide} node{'s' if wide != 1 else ''} of {each}, and {whose}"
    )
    yield Fault(keys[0], sentence, w.where(*keys, *said_keys(w, "dcn")))
