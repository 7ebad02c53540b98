"""What a rule about memory compares: an estimate, the GPU, the fraction, the mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moectl.rules.rule import Fault
from moectl.workload import Workload

if TYPE_CHECKING:
    from moectl.estimate.memory import Estimate
    from moectl.values import Hardware

BATCH = "per_device_batch_size"
ACCUMULATION = "gradient_accumulation_steps"
CAPACITY = "capacity_factor"
GIB = 1 << 30
_USUAL_FACTOR = 1.25  # that of the models' own papers; above it the buffers stand out
_UNIFIED = "TF_FORCE_UNIFIED_MEMORY"  # with it the pool may reach into host memory
_SLOP = "--xla_gpu_memory_limit_slop_factor="


@dataclass(frozen=True, slots=True)
class Case:
    """An estimate and what it is compared with.

    Attributes:
        estimate: memory of one GPU.
        mesh: size of every mesh axis.
        hardware: the platform; None when nobody says.
        visible: memory of its GPU in bytes.
        fraction: the memory fraction in force; None when the file cannot say it.
        most: the largest pool that could be had.
    """

    estimate: Estimate
    mesh: Mapping[str, int]
    hardware: Hardware | None
    visible: int
    fraction: float | None
    most: int


def case(w: Workload) -> Case | None:
    """Return the memory case of a workload, or None where nothing can be told."""
    # Several rules ask in turn about the same workload.
    if not _last or _last[0][0] is not w:
        _last[:] = [(w, _case(w))]
    return _last[0][1]


_last: list[tuple[Workload, Case | None]] = []


def _case(w: Workload) -> Case | None:
    if not w.is_maxtext or _UNIFIED in w.environment:
        return None
    visible = _visible(w.hardware) if w.hardware is not None else 0
    if visible is None:
        return None
    fraction = fraction_of(w)
    mesh = mesh_sizes(w)
    if fraction is False or not mesh:
        return None
    from moectl.estimate import memory  # noqa: PLC0415
    from moectl.facts.yaml_facts import read  # noqa: PLC0415

    found = memory.estimate(dict(w.effective), mesh, release_of(w))
    if found is None:
        return None
    known = fraction if isinstance(fraction, float) else None
    most = known if known is not None else read("memory.yaml")["largest_fraction"]
    return Case(found, mesh, w.hardware, visible, known, memory.pool(visible, most))


def fractions() -> Sequence[str]:
    """Return the variables that say the memory fraction, the one that counts first."""
    from moectl.facts.yaml_facts import read  # noqa: PLC0415

    return list(read("memory.yaml")["fractions"])


def fraction_of(w: Workload) -> float | bool | None:
    """Return the memory fraction in force; None when it is open, False when it is faulty.

    A script that sets none of the variables runs with whatever its submitter or image sets, so
    only a value that is written counts.
    """
    texts = [w.environment[name] for name in fractions() if name in w.environment]
    if not texts or not texts[0].known:
        return None
    try:
        value = float(texts[0].text)
    except ValueError:
        return False
    return value if 0 < value <= 1 else False


def mesh_sizes(w: Workload) -> dict[str, int] | None:
    """Return the devices along each mesh axis, or None where a degree is open or unknown."""
    from moectl.facts import maxtext  # noqa: PLC0415

    catalogue = maxtext.load(w.maxtext)
    ici: dict[str, Any] = {}
    dcn: dict[str, Any] = {}
    for axis in catalogue.mesh_axes:
        keys = catalogue.axes.get(axis)
        if keys is not None and keys.ici:
            ici[axis] = w.value(keys.ici)
            dcn[axis] = w.value(keys.dcn) if keys.dcn else 1
    sides = []
    slices = _product(dcn.values())
    across = None if w.slices is None else w.slices
    within = None if w.devices is None else w.devices // max(1, across or slices or 1)
    for side, target in ((dcn, across or slices), (ici, within)):
        filled = _filled(side, target)
        if filled is None:
            return None
        sides.append(filled)
    sizes = {axis: sides[0][axis] * sides[1][axis] for axis in ici}
    if w.devices is not None and _product(sizes.values()) != w.devices:
        return None
    return sizes


def release_of(w: Workload) -> str:
    """Return the MaxText release without the name of an image it was read from."""
    return w.maxtext.partition(" ")[0]


def _product(degrees: Any) -> int | None:
    product = 1
    for degree in degrees:
        if isinstance(degree, bool) or not isinstance(degree, int):
            return None
        product *= max(1, degree)
    return product


def _filled(degrees: Mapping[str, Any], target: int | None) -> dict[str, int] | None:
    product = _product(degrees.values())
    open_axes = [axis for axis, degree in degrees.items() if degree == -1]
    if product is None or len(open_axes) > 1 or any(d < 1 for d in degrees.values() if d != -1):
        return None
    if open_axes and (target is None or target % product):
        return None
    rest = dict.fromkeys(open_axes, (target or 0) // product)
    return {**degrees, **rest}


def _visible(hardware: Hardware) -> int | None:
    found = hardware.figures.get("hbm_visible_bytes")
    return found if isinstance(found, int) else None


def platforms(w: Workload) -> dict[str, tuple[int, int]]:
    """Return the catalogued platforms that have as many GPUs a node as is said.

    Each with the memory of its GPU and the largest pool that could be had, in bytes.
    """
    from moectl.estimate import memory  # noqa: PLC0415
    from moectl.facts import hardware  # noqa: PLC0415
    from moectl.facts.yaml_facts import read  # noqa: PLC0415

    said = w.layout.gpus_per_node
    each = said.value if said is not None and isinstance(said.value, int) else None
    fraction = fraction_of(w)
    share = fraction if isinstance(fraction, float) else read("memory.yaml")["largest_fraction"]
    found = {}
    for name in hardware.names():
        platform = hardware.platform(name)
        visible = _visible(platform)
        if visible is not None and each in {None, platform.gpus_per_node}:
            found[name] = visible, memory.pool(visible, share)
    return found


def fault(w: Workload, found: Case, verdict: str, *, at_most: bool = False) -> Fault:
    """Return the fault of an estimate that is too large for the platform.

    Args:
        w: the workload.
        found: its estimate.
        verdict: what of the estimate does not fit.
        at_most: whether it is compared with the largest pool that could be had.
    """
    from moectl.estimate import memory  # noqa: PLC0415

    assert found.hardware is not None  # noqa: S101 - both callers have looked
    open_share, how = (
        (_largest_fraction(), "even at ") if at_most else (_default_fraction(), "at the default ")
    )
    share = found.fraction if found.fraction is not None else open_share
    how = how if found.fraction is None else "at "
    pool = memory.pool(found.visible, share)
    left = pool - found.estimate.arguments
    slop = _slop(w)
    planned = memory.scheduler_limit(pool, found.estimate.arguments, slop)
    name = found.hardware.name
    message = (
        f"{words(found.estimate)}; {name} has {gib(found.visible)}, a pool of {gib(pool)} {how}"
        f"memory fraction {share:g}, which leaves {gib(max(0, left))} for a step (XLA's scheduler "
        f"plans with {gib(planned)}): {verdict}"
    )
    return Fault(
        blamed(w),
        message,
        w.where(blamed(w), BATCH, "model_name"),
        advice(w, found, found.most),
    )


def words(estimate: Estimate) -> str:
    """Say an estimate: arguments, then the step with its range and its largest parts."""
    parts = sorted(estimate.terms, key=lambda term: (-term.bytes, term.name))[:3]
    largest = ", ".join(f"{term.name} {gib(term.bytes)}" for term in parts)
    return (
        f"a GPU holds {gib(estimate.arguments)} of weights and moments and needs about "
        f"{gib(estimate.middle)} ({gib(estimate.low)} to {gib(estimate.high)}) for a step "
        f"({largest})"
    )


def advice(w: Workload, found: Case, most: int | None) -> str:
    """Say what would fit: the largest batch, the fraction, and what to leave out."""
    advice: list[str] = []
    batch = w.value(BATCH)
    if most is not None and isinstance(batch, int | float):
        advice += _batches(w, found, float(batch))
        needed = fraction_needed(found, found.estimate.total())
        if needed <= _largest_fraction():
            advice.append(f"{fractions()[0]}={needed:g} would hold it")
    extra = next((t for t in found.estimate.terms if t.name == "gradient accumulation"), None)
    if extra is not None:
        advice.append(
            f"{BATCH} is of a micro-step, so {ACCUMULATION}={w.value(ACCUMULATION)} saves "
            f"nothing and adds a buffer of {gib(extra.bytes)}"
        )
    factor = w.value(CAPACITY)
    buffers = next((t for t in found.estimate.terms if t.name == "expert buffers"), None)
    if buffers is not None and isinstance(factor, int | float) and factor > 1:
        spared = int(buffers.bytes * (1 - 1 / factor))
        advice.append(f"{CAPACITY}=1.0 instead of {factor:g} spares {gib(spared)}")
    return "; ".join(advice)


def _batches(w: Workload, found: Case, batch: float) -> list[str]:
    """Say the largest batch that should fit, at the fractions that come into question."""
    from moectl.estimate import memory  # noqa: PLC0415

    shares = (found.fraction,) if found.fraction else (_default_fraction(), fact("common_fraction"))
    said = []
    for share in shares:
        limit = memory.pool(found.visible, share)
        largest = memory.largest_batch(dict(w.effective), found.mesh, release_of(w), limit)
        if largest is not None and largest < batch:
            said.append(f"{BATCH}={largest} at memory fraction {share:g}")
    if said:
        return [f"what should fit is {' or '.join(said)}"]
    most = memory.pool(found.visible, _largest_fraction())
    if memory.largest_batch(dict(w.effective), found.mesh, release_of(w), most) is None:
        return ["not even one sequence a GPU fits: use more GPUs, or a smaller dtype"]
    return []


def blamed(w: Workload) -> str:
    """Return the key that a memory fault is best mended at."""
    accumulation, factor = w.value(ACCUMULATION), w.value(CAPACITY)
    if isinstance(accumulation, int) and accumulation > 1 and w.said(ACCUMULATION):
        return ACCUMULATION
    if isinstance(factor, int | float) and factor > _USUAL_FACTOR and w.said(CAPACITY):
        return CAPACITY
    return BATCH


def fraction_needed(found: Case, needed: int) -> float:
    """Return the memory fraction, in whole hundredths, that holds `needed` bytes."""
    return fraction_for(needed, found.visible)


def fraction_for(needed: int, visible: int) -> float:
    """Return the same for a GPU of `visible` bytes."""
    from moectl.estimate import memory  # noqa: PLC0415

    return memory.fraction_for(needed, visible)


def _default_fraction() -> float:
    return fact("default_fraction")


def _largest_fraction() -> float:
    return fact("largest_fraction")


def fact(name: str) -> float:
    """Return one number of the memory facts."""
    from moectl.facts.yaml_facts import read  # noqa: PLC0415

    return float(read("memory.yaml")[name])


def _slop(w: Workload) -> int:
    """Return the slop factor in force: the last one that XLA_FLAGS says."""
    text = w.flags.text if w.flags is not None else ""
    said = text.rpartition(_SLOP)[2].split(" ")[0] if _SLOP in text else ""
    short = said.isascii() and said.isdigit() and len(said) < 6
    return int(said) if short else int(fact("default_slop"))


def gib(size: int) -> str:
    """Write bytes in GiB."""
    return f"{size / GIB:.1f} GiB"
