"""Reads profiles and says where the time of their devices went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from moectl.errors import LocalFilesError
from moectl.logs.xplane import SUFFIX, profiles, read_trace
from moectl.report.kernel_classes import UNKNOWN, layers
from moectl.report.kernels import Breakdown, breakdown


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


def trace(paths: Sequence[str]) -> list[Traced]:
    """Read profiles.

    Args:
        paths: xplane.pb files, and folders of which the newest profile is read.

    Raises:
        MoectlError: one of them cannot be read, or holds no profile.
    """
    found = []
    for said in paths:
        path = Path(said)
        if not path.exists():
            raise LocalFilesError(f"{said}: no such file or folder")
        files = profiles(path) if path.is_dir() else [path]
        if not files:
            raise LocalFilesError(
                f"{said} holds no profile (*{SUFFIX}); MaxText writes one with "
                "`--profile xplane`, at tensorboard/plugins/profile of its output"
            )
        found += [
            Traced(str(file), tuple(breakdown(device) for device in read_trace(file)))
            for file in files
        ]
    return found


def unknown_share(device: Breakdown) -> float:
    """Return which share of the kernels' time no class knows, 0 to 1."""
    whole = sum(one.seconds for one in device.classes)
    held = sum(one.seconds for one in device.classes if one.id == UNKNOWN)
    return held / whole if whole else 0.0


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
