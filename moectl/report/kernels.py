"""Where the time of a profile went: by class of kernel, hidden or exposed, by part of the model.

All figures are of one device; those of several are put side by side and summed up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from moectl.logs.xplane import Device, Kernel
from moectl.report.kernel_classes import UNKNOWN, Booked, booked, classes, layer_of
from moectl.report.spans import Span, common, length, own, union
from moectl.report.statistics import quantile

NS = 1e-9
_SHOWN_UNKNOWN = 10


@dataclass(frozen=True, slots=True)
class Latency:
    """How long the kernels of a class took, one by one; helpers of them left out.

    Attributes:
        count: kernels.
        p5, median, p95, longest: s.
    """

    count: int
    p5: float
    median: float
    p95: float
    longest: float


@dataclass(frozen=True, slots=True)
class ClassTime:
    """The time of one class on one device, or on all of them.

    Attributes:
        id: the class.
        title: its name for people.
        kind: compute or moving.
        seconds: time of its kernels, each by itself.
        busy: time in which at least one of them ran.
        exposed: of that, the time in which nothing computed; for compute as `busy`.
        kernels: how many.
        latency: how long they took.
    """

    id: str
    title: str
    kind: str
    seconds: float
    busy: float
    exposed: float
    kernels: int
    latency: Latency | None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Where the time of a device went.

    Attributes:
        device: its name.
        window: s from the first kernel to the end of the last, or of its steps together.
        steps: steps in it; 0 where the profile does not say.
        idle: s in which nothing ran.
        computing: s in which something computed.
        moving: s in which something was moved.
        exposed: of `moving`, s in which nothing computed.
        classes: by class, those without a kernel left out.
        layers: part of the model to the time of its kernels, in s.
        unknown: names of kernels that no class knows, with their time in s, longest first.
    """

    device: str
    window: float
    steps: int
    idle: float
    computing: float
    moving: float
    exposed: float
    classes: tuple[ClassTime, ...]
    layers: tuple[tuple[str, float], ...]
    unknown: tuple[tuple[str, float], ...]


@dataclass(slots=True)
class _Class:
    spans: list[Span] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    taken: float = 0.0
    kernels: int = 0


def breakdown(device: Device) -> Breakdown:
    """Return where the time of a device went.

    Where the profile tells the device's steps, what lies outside of them does not count.
    """
    window = union(device.steps) or _reach(device)
    found: dict[str, _Class] = {}
    layers: dict[str, float] = {}
    unknown: dict[str, float] = {}
    for line in device.lines:
        for kernel, spans in own(line):
            inside = common(spans, window)
            if not inside:
                continue
            where: Booked = booked(kernel.name, kernel.operation)
            taken = length(inside)
            held = found.setdefault(where.id, _Class())
            held.spans += inside
            held.taken += taken
            held.kernels += 1
            if not where.part:
                held.durations.append((kernel.end - kernel.start) * NS)
            layer = layer_of(kernel)
            layers[layer] = layers.get(layer, 0.0) + taken
            if where.id == UNKNOWN:
                unknown[kernel.name] = unknown.get(kernel.name, 0.0) + taken
    kinds = {one.id: one.kind for one in classes()}
    unions = {name: union(held.spans) for name, held in found.items()}
    computing = union(s for name, held in unions.items() if kinds[name] == "compute" for s in held)
    moving = union(s for name, held in unions.items() if kinds[name] == "moving" for s in held)
    whole, hidden = length(window), length(common(moving, computing))
    rows = []
    for one in classes():
        if one.id not in found:
            continue
        held, spans = found[one.id], unions[one.id]
        busy = length(spans)
        covered = length(common(spans, computing)) if one.kind == "moving" else 0.0
        rows.append(
            ClassTime(
                one.id,
                one.title,
                one.kind,
                held.taken * NS,
                busy * NS,
                (busy - covered) * NS,
                held.kernels,
                _latency(held.durations),
            )
        )
    return Breakdown(
        device.name,
        whole * NS,
        len(device.steps),
        (whole - length(union([*computing, *moving]))) * NS,
        length(computing) * NS,
        length(moving) * NS,
        (length(moving) - hidden) * NS,
        tuple(rows),
        _longest(layers),
        _longest(unknown)[:_SHOWN_UNKNOWN],
    )


def _longest(times: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Return names with their times, ns in and s out, the longest first."""
    held = sorted(times.items(), key=lambda item: (-item[1], item[0]))
    return tuple((name, taken * NS) for name, taken in held)


def _reach(device: Device) -> list[Span]:
    """Return the time from a device's first kernel to the end of its last."""
    kernels: Iterable[Kernel] = (kernel for line in device.lines for kernel in line)
    spans = [(kernel.start, kernel.end) for kernel in kernels]
    return [(min(start for start, _ in spans), max(end for _, end in spans))] if spans else []


def _latency(durations: Sequence[float]) -> Latency | None:
    if not durations:
        return None
    p5, median, p95 = (quantile(durations, share) for share in (0.05, 0.5, 0.95))
    return Latency(len(durations), p5, median, p95, max(durations))
