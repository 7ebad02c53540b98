"""Which image is imported, for which nodes and where to; then imports it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl.errors import BackendError, ValueUsageError
from moectl.facts.images import default_image
from moectl.launch import image
from moectl.launch.image import Pulled
from moectl.settings.files import cluster_profile
from moectl.settings.options import encodable
from moectl.settings.profiles import find
from moectl.spec.table import table

_SRUN = ("partition", "account", "qos", "reservation")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be imported.

    Attributes:
        images: references.
        architecture: of the nodes.
        told: who said the architecture.
        folder: where the files go.
        options: of srun, for the line that does it on a compute node.
    """

    images: tuple[str, ...]
    architecture: str
    told: str
    folder: Path
    options: tuple[str, ...]


def plan(
    images: Sequence[str], architecture: str | None, to: str | None, cluster: str | None
) -> Plan:
    """Return what is to be imported; what is not said is the profile's.

    Args:
        images: references; none is the profile's image, or else moectl's own.
        architecture: of the nodes, or None.
        to: folder of the files, or None.
        cluster: path or name of a cluster profile, or None.

    Raises:
        MoectlError: a reference, folder or profile that cannot be meant.
    """
    path = find(cluster, os.environ)
    said = cluster_profile(path) if path else []
    profile = {setting.path.removeprefix("cluster."): setting.value for setting in said}
    chosen = tuple(images) or (str(profile.get("image") or default_image()),)
    for reference in chosen:
        _check(reference)
    if to == "":
        raise ValueUsageError("--to", to, "the path of a folder")
    folder = Path(to or profile.get("image_folder") or ".").expanduser().absolute()
    if "\0" in str(folder) or not encodable(str(folder)):
        raise ValueUsageError("--to", to, "the path of a folder")
    told = "--arch" if architecture else "the profile"
    found = architecture or profile.get("node_architecture")
    if not found:
        found, told = platform.machine(), "this machine"
    _check_architecture(found)
    return Plan(chosen, found, told, folder, tuple(_options(profile)))


def _options(profile: dict[str, Any]) -> Iterator[str]:
    return (f"--{name}={profile[name]}" for name in _SRUN if profile.get(name))


def _check(reference: str) -> None:
    """Refuse what is no image of a registry.

    Raises:
        ValueUsageError: with what is legal.
    """
    field = table().fields["container.image"]
    if reference.startswith("/") or not field.accepts(reference):
        raise ValueUsageError("the image", reference, "registry/path:tag, e.g. " + default_image())


def _check_architecture(name: str) -> None:
    legal = table().fields["cluster.node_architecture"].choices
    if name not in legal:
        raise ValueUsageError("--arch", name, " or ".join(legal))


def pull(planned: Plan) -> Iterator[Pulled]:
    """Import the images one after the other, and yield each when it is there.

    Raises:
        BackendError: enroot is not here, with the line that does it on a compute node; or it
            failed.
        LocalFilesError: the file system refuses, or somebody imports the same image.
    """
    for reference in planned.images:
        if not image.available(reference, planned.architecture, planned.folder):
            file = image.target(reference, planned.architecture, planned.folder)
            line = image.on_a_node(reference, planned.architecture, file, planned.options)
            raise BackendError(
                f"enroot is not on this machine; this does it on a compute node:\n  {line}"
            )
        yield image.pull(reference, planned.architecture, planned.folder)
