"""The container as pyxis or apptainer is told of it."""

from __future__ import annotations

from collections.abc import Mapping

from moectl.image_names import squashfs_name
from moectl.job import Job, Mount
from moectl.settings.bundle_names import MOUNTED
from moectl.values import Image

PYXIS, APPTAINER = "pyxis", "apptainer"

# Where the importable package lies in a checkout of each: MaxText keeps it under src/,
# Transformer Engine at the top (and built in place, or its libraries are not found).
PACKAGE_FOLDERS: Mapping[str, str] = {"maxtext": "src", "transformer-engine": ""}

_DOCKER_HUB = {"docker.io", "index.docker.io", "registry-1.docker.io"}


def contained(job: Job) -> bool:
    """Return whether the processes run in a container."""
    return job.cluster.runtime in {PYXIS, APPTAINER}


def imported_file(job: Job) -> str:
    """Return the file that stands for the image of a registry; empty without such a folder."""
    image = job.container.image
    folder, architecture = job.cluster.image_folder, job.cluster.architecture
    if not (contained(job) and folder and architecture) or image.reference.startswith("/"):
        return ""
    name = squashfs_name(image.reference, image.digest, architecture)
    return f"{folder.rstrip('/')}/{name}"


def image_argument(job: Job) -> str:
    """Return the image as the container's program is told of it."""
    if file := imported_file(job):
        return file
    if job.cluster.runtime == APPTAINER:
        return apptainer_image(job.container.image)
    return pyxis_image(job.container.image)


def apptainer_image(image: Image) -> str:
    """Return the image as apptainer reads it: `docker://NAME[:TAG]`, or `docker://NAME@DIGEST`.

    containers/image refuses a reference with both tag and digest (docker/docker_transport.go).

    Args:
        image: see `pyxis_image`.
    """
    if image.reference.startswith("/"):
        return image.reference
    if not image.digest:
        return f"docker://{image.reference}"
    path, _, last = image.reference.rpartition("/")
    name = last.partition(":")[0]
    return f"docker://{f'{path}/{name}' if path else name}@{image.digest}"


def pyxis_image(image: Image) -> str:
    """Return the image in pyxis' grammar: `[REGISTRY#]PATH[:TAG][@DIGEST]`, or a path.

    Without the `#` enroot asks Docker Hub for an image named like the registry. A digest needs
    enroot 4.0 or newer (src/docker.sh, `docker::_parse_uri`).

    Args:
        image: its reference is "registry/path:tag" as Docker writes it, or the absolute path
            of a squashfs file.
    """
    reference = image.reference
    if reference.startswith("/"):
        return reference
    first, slash, rest = reference.partition("/")
    if slash and is_registry(first):
        reference = rest if first in _DOCKER_HUB else f"{first}#{rest}"
    return f"{reference}@{image.digest}" if image.digest else reference


def is_registry(first: str) -> bool:
    """Return whether the first part of a reference is a registry, by Docker's own rule."""
    return "." in first or ":" in first or first == "localhost"


def mounts(job: Job) -> tuple[Mount, ...]:
    """Return every mount but the bundle's own: what the job names, then what it needs."""
    checkouts = [
        Mount(checkout.path, checkout_target(checkout.package), read_only=True)
        for checkout in job.container.checkouts
    ]
    return (
        *job.container.mounts,
        *checkouts,
        *(Mount(path, path) for path in own_folders(job)),
    )


def own_folders(job: Job) -> list[str]:
    """Return the absolute output and cache folders that no mount of the job covers.

    They are mounted in place, or what is written there would vanish with the container; pyxis
    wants the source of a mount to exist, so the launch script makes them.
    """
    if not contained(job):
        return []
    said = dict.fromkeys((job.output_directory, job.cache_directory))
    return [
        path
        for path in said
        if path.startswith("/")
        and not any(_covers(mount.target, path) for mount in job.container.mounts)
    ]


def mount_option(job: Job) -> str:
    """Return the value of pyxis' `--container-mounts` and of apptainer's `--bind`.

    The bundle is the working directory of the step and is mounted by the name `./`, so the
    name of its folder, whatever characters it has, never reaches them.
    """
    words = [
        f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}" for mount in mounts(job)
    ]
    return ",".join([f"./:{MOUNTED}", *words])


def checkout_target(package: str) -> str:
    """Return where a checkout is mounted."""
    return f"/moectl-source/{package}"


def python_path(job: Job) -> list[str]:
    """Return what stands first on PYTHONPATH: the packages of the checkouts.

    An image's own copy, installed or editable, comes after PYTHONPATH on sys.path.
    """
    found = []
    for checkout in job.container.checkouts:
        root = checkout_target(checkout.package) if contained(job) else checkout.path
        folder = PACKAGE_FOLDERS.get(checkout.package, "")
        found.append(f"{root}/{folder}" if folder else root)
    return found


def _covers(target: str, path: str) -> bool:
    """Whether `path` lies in the mounted folder `target`."""
    return path == target or path.startswith(f"{target.rstrip('/')}/")
