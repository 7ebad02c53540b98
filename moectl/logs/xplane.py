"""Reads profiles that JAX writes (xplane.pb): the kernels of every device, by line.

MaxText's `profiler: xplane` writes one a host, at
<tensorboard_dir>/plugins/profile/<moment>/<host>.xplane.pb.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl.errors import LocalFilesError, MoectlError
from moectl.facts.yaml_facts import read

FACTS = "kernel_classes.yaml"
SUFFIX = ".xplane.pb"


class TraceError(MoectlError):
    """A profile that holds nothing to tell; one sentence."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} {why}; a profile is what MaxText's profiler: xplane writes")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel, or on CPU one operation.

    Attributes:
        name: its name.
        start: ns from the beginning of the profile.
        end: likewise.
        operation: the HLO operation it is of; empty where the profile does not say.
        scope: path of that operation in the model; empty where the profile does not say.
        module: the compiled program.
    """

    name: str
    start: float
    end: float
    operation: str = ""
    scope: str = ""
    module: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """What ran on one device.

    Attributes:
        name: its name in the profile.
        lines: kernels of each of its streams, or on CPU threads, by start.
        steps: (start, end) of its steps in ns; empty where the profile does not say.
    """

    name: str
    lines: tuple[tuple[Kernel, ...], ...]
    steps: tuple[tuple[float, float], ...] = ()


def read_trace(path: Path) -> list[Device]:
    """Return the devices of a profile that ran something, in the order of their names.

    Raises:
        LocalFilesError: it cannot be read.
        TraceError: it is no profile, or none of it is of a device.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise LocalFilesError(f"{path}: {error.strerror or error}") from None
    return devices(data, str(path))


def devices(data: bytes, name: str) -> list[Device]:
    """Return the devices of a serialized XSpace; see `read_trace`.

    Raises:
        LocalFilesError: JAX, whose reader of profiles it takes, cannot be imported.
        TraceError: it is no profile, or none of it is of a device.
    """
    try:
        from jax.profiler import ProfileData  # noqa: PLC0415
    except ImportError as error:
        raise LocalFilesError(
            f"reading a profile needs JAX, which cannot be imported: {error}; "
            "pip install 'moectl[jax]'"
        ) from error

    if not data:
        raise TraceError(name, "is empty")
    try:
        planes = list(ProfileData.from_serialized_xspace(data).planes)
    except (ValueError, RuntimeError, TypeError):
        raise TraceError(name, "is no profile") from None
    if not planes:
        raise TraceError(name, "is no profile")
    facts = read(FACTS)
    gpus = [plane for plane in planes if re.search(facts["gpu_plane"], plane.name)]
    found = [_of_gpu(plane, facts) for plane in gpus]
    if not gpus:
        found = [
            device
            for plane in planes
            if re.search(facts["host_plane"], plane.name)
            for device in _of_host(plane, facts)
        ]
    ran = [device for device in found if any(device.lines)]
    if not ran:
        raise TraceError(name, "names no kernel of any device")
    return sorted(ran, key=lambda device: _natural(device.name))


def profiles(folder: Path) -> list[Path]:
    """Return the profiles below a folder, the newest moment's only, in the order of hosts."""
    moments: dict[Path, list[Path]] = {}
    for path in folder.rglob(f"*{SUFFIX}"):
        moments.setdefault(path.parent, []).append(path)
    return sorted(moments[max(moments)]) if moments else []


def _of_gpu(plane: Any, facts: Mapping[str, Any]) -> Device:
    lines, steps = [], []
    for line in plane.lines:
        if re.search(facts["gpu_line"], line.name):
            lines.append(_kernels(line.events, facts))
        elif re.search(facts["steps_line"], line.name):
            steps += [(event.start_ns, event.start_ns + event.duration_ns) for event in line.events]
    return Device(plane.name, tuple(line for line in lines if line), tuple(sorted(steps)))


def _of_host(plane: Any, facts: Mapping[str, Any]) -> Iterator[Device]:
    """Yield the virtual devices of a host; what names no operation is the host's own."""
    lines: dict[str, list[tuple[Kernel, ...]]] = {}
    for line in plane.lines:
        by_device: dict[str, list[Any]] = {}
        for event in line.events:
            stats = dict(event.stats)
            if "hlo_op" in stats:
                number = str(stats.get(facts["device_stat"], 0))
                by_device.setdefault(number, []).append(event)
        for number, events in by_device.items():
            lines.setdefault(number, []).append(_kernels(events, facts))
    for number, held in lines.items():
        yield Device(f"{plane.name} device {number}", tuple(held))


def _kernels(events: Iterable[Any], facts: Mapping[str, Any]) -> tuple[Kernel, ...]:
    found = []
    for event in events:
        stats = {str(key): value for key, value in event.stats}
        start, length = float(event.start_ns), float(event.duration_ns)
        found.append(
            Kernel(
                str(event.name),
                start,
                start + max(length, 0.0),
                _first(stats, facts["operation_stats"]),
                _first(stats, facts["scope_stats"]),
                _first(stats, facts["module_stats"]),
            )
        )
    # Of two that begin together the longer one holds the other.
    return tuple(sorted(found, key=lambda kernel: (kernel.start, -kernel.end)))


def _first(stats: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((str(stats[name]) for name in names if stats.get(name)), "")


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", name)]
