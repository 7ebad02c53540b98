"""What profiles add to a report: figures of where their devices' time went, and a row a class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.logs.xplane import FACTS, read_trace
from moectl.report.figure import Figure
from moectl.report.kernel_classes import UNKNOWN, classes, layers
from moectl.report.kernels import Breakdown, ClassTime, breakdown
from moectl.report.statistics import quantile

NONE = "there is no profile; launch with `--profile xplane`, then MaxText writes one"


@dataclass(frozen=True, slots=True)
class Traced:
    """What one profile says.

    Attributes:
        path: the profile.
        devices: its devices, each by itself.
    """

    path: str
    devices: tuple[Breakdown, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form; times in s."""
        return {"path": self.path, "devices": [_row(device) for device in self.devices]}


def traced(path: Path) -> Traced:
    """Read a profile.

    Raises:
        LocalFilesError: it cannot be read, or JAX, which reads it, cannot be imported.
        TraceError: it is no profile, or holds no device.
    """
    return Traced(str(path), tuple(breakdown(device) for device in read_trace(path)))


def unknown_share(device: Breakdown) -> float:
    """Return which share of the kernels' time no class knows, 0 to 1."""
    whole = sum(one.seconds for one in device.classes)
    held = sum(one.seconds for one in device.classes if one.id == UNKNOWN)
    return held / whole if whole else 0.0


def profile(traces: Sequence[Traced]) -> Iterator[Figure]:
    """Yield the figures of a run's profiles; every one is the median over their devices."""
    devices = [device for one in traces for device in one.devices]
    if not devices:
        yield Figure("profile.window_s", "time that was profiled", None, "s", why=NONE)
        return
    places = tuple(one.path for one in traces)
    over = f"median over {len(devices)} devices of the" if len(devices) > 1 else "the"

    def figure(
        name: str, title: str, of: Callable[[Breakdown], float], what: str, unit: str = "s"
    ) -> Figure:
        value = quantile([of(device) for device in devices], 0.5)
        return Figure(f"profile.{name}", title, value, unit, f"{over} {what}", places, digits=6)

    for name, title, of, what, unit in _WHOLE:
        yield figure(name, title, of, what, unit)
    held = {one.id for device in devices for one in device.classes}
    for one in classes():
        if one.id not in held:
            continue

        def time_of(device: Breakdown, name: str = one.id) -> float:
            row = _of(device, name)
            return row.busy if row else 0.0

        yield figure(
            f"classes.{one.id}.busy_s", one.title, time_of,
            "time in which at least one of its kernels ran",
        )  # fmt: skip
        if one.kind == "moving":

            def bare(device: Breakdown, name: str = one.id) -> float:
                row = _of(device, name)
                return row.exposed if row else 0.0

            yield figure(
                f"classes.{one.id}.exposed_s", f"{one.title}, exposed", bare,
                "time in which its kernels ran and nothing computed",
            )  # fmt: skip
    yield from _latencies(devices, over, places)
    for name, title in layers():

        def part(device: Breakdown, name: str = name) -> float:
            return dict(device.layers).get(name, 0.0)

        if any(part(device) for device in devices):
            yield figure(
                f"layers.{name}_s", f"kernels of: {title}", part,
                "sum of the times of the kernels whose operation stands in that part of the model",
            )  # fmt: skip


def _latencies(
    devices: Sequence[Breakdown], over: str, places: tuple[str, ...]
) -> Iterator[Figure]:
    titles = {one.id: one.title for one in classes()}
    for name in read(FACTS)["latencies"]:
        rows = [row for device in devices if (row := _of(device, name)) and row.latency]
        for field, word in (("p5", "5 %"), ("median", "median"), ("p95", "95 %")):
            values = [getattr(row.latency, field) for row in rows]
            if values:
                count = sum(row.latency.count for row in rows if row.latency)
                yield Figure(
                    f"profile.latency_s.{name}.{field}",
                    f"{titles[name]}, one kernel, {word}",
                    quantile(values, 0.5),
                    "s",
                    f"{over} quantile of the durations of {count} kernels, helpers left out",
                    places,
                    digits=6,
                )


_WHOLE: tuple[tuple[str, str, Callable[[Breakdown], float], str, str], ...] = (
    (
        "window_s", "time that was profiled", lambda one: one.window,
        "time of its steps, or from its first kernel to the end of its last", "s",
    ),
    (
        "computing_s", "time in which something computed", lambda one: one.computing,
        "time in which at least one kernel of compute ran", "s",
    ),
    (
        "communication_s", "communication and copies", lambda one: one.moving,
        "time in which at least one kernel that moves data ran", "s",
    ),
    (
        "exposed_s", "communication and copies, exposed", lambda one: one.exposed,
        "time in which data was moved and nothing computed", "s",
    ),
    (
        "overlapped_s", "communication and copies, overlapped",
        lambda one: one.moving - one.exposed,
        "time in which data was moved while something computed", "s",
    ),
    ("idle_s", "idle", lambda one: one.idle, "time in which no kernel ran", "s"),
    (
        "unknown_share", "share of names that no class knows", unknown_share,
        "time of kernels that no class knows over that of all kernels", "",
    ),
)  # fmt: skip


def _of(device: Breakdown, name: str) -> ClassTime | None:
    return next((one for one in device.classes if one.id == name), None)


def _row(device: Breakdown) -> dict[str, Any]:
    titles = dict(layers())
    return {
        "device": device.device,
        "window_s": device.window,
        "steps": device.steps,
        "idle_s": device.idle,
        "computing_s": device.computing,
        "communication_s": device.moving,
        "exposed_communication_s": device.exposed,
        "unknown_share": unknown_share(device),
        "classes": [
            {
                "class": one.id,
                "title": one.title,
                "kind": one.kind,
                "seconds": one.seconds,
                "busy_s": one.busy,
                "exposed_s": one.exposed,
                "kernels": one.kernels,
                "latency_s": asdict(one.latency) if one.latency else None,
            }
            for one in device.classes
        ],
        "layers": [
            {"layer": name, "title": titles[name], "seconds": taken}
            for name, taken in device.layers
        ],
        "unknown": [{"kernel": name, "seconds": taken} for name, taken in device.unknown],
    }
