"""What really ran, against the lock it was rendered from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from moectl.errors import MoectlError
from moectl.job import Job
from moectl.logs.folders import AS_RUN, beginning
from moectl.render.variables import DUMP_FLAG, FLAGS, environment

# Packages whose catalogues a job is checked against.
_CHECKED = ("maxtext", "jaxlib")
# Variables of these beginnings change what a run does; those below are the launch script's.
_MATTER = ("NCCL_", "XLA_", "JAX_", "NVTE_", "TF_", "CUDA_", "M_", "LD_PRELOAD")
_OWN = frozenset(
    {
        "JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT", "JAX_PARTITION_INDEX",
        "JAX_LOCAL_DEVICE_IDS", "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG_FILE", "CUDA_HOME",
        "CUDA_VERSION", "NCCL_VERSION",
    }
)  # fmt: skip
MOST = 1 << 24


def differences(bundle: Path, folder: Path) -> list[str]:
    """Return how a start of a job differs from its bundle, a clause each; [] for not at all.

    Args:
        bundle: the bundle.
        folder: its folder of logs of that start; without a record of what ran it says nothing.
    """
    record = _record(folder)
    if record is None:
        return []
    found = list(_files(bundle, record))
    try:
        job = _job(bundle)
    except MoectlError as error:
        return [*found, f"the lock cannot be read: {str(error).splitlines()[0]}"]
    return [*found, *_versions(job, record), *_processes(job, record), *_variables(job, record)]


def _record(folder: Path) -> Mapping[str, Any] | None:
    text = beginning(folder / AS_RUN, MOST)
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _job(bundle: Path) -> Job:
    # Only one run that is looked at pays for it.
    from moectl.actions.plan import Wishes, plan  # noqa: PLC0415

    return plan(str(bundle), Wishes())


def _mapping(record: Mapping[str, Any], name: str) -> dict[str, str]:
    held = record.get(name)
    rows = held.items() if isinstance(held, dict) else ()
    return {key: value for key, value in rows if isinstance(value, str)}


def _files(bundle: Path, record: Mapping[str, Any]) -> Iterator[str]:
    for name, digest in _mapping(record, "files").items():
        path = bundle / name
        if Path(name).name != name:
            continue
        try:
            now = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            yield f"{name} ran and is gone from the bundle"
            continue
        if now != digest:
            yield f"{name} was changed since it ran"


def _versions(job: Job, record: Mapping[str, Any]) -> Iterator[str]:
    ran = {name.lower(): version for name, version in _mapping(record, "packages").items()}
    image = job.container.image
    for package, checked in zip(_CHECKED, (image.maxtext, image.jaxlib), strict=True):
        if package in ran and ran[package] != checked:
            yield f"{package} {ran[package]} ran; the job was checked against {checked}"


def _processes(job: Job, record: Mapping[str, Any]) -> Iterator[str]:
    count = record.get("processes")
    if type(count) is int and count and count != job.processes:
        yield f"{count} processes ran, the job has {job.processes}"


def _variables(job: Job, record: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(record.get("environment"), dict):
        return
    ran = _mapping(record, "environment")
    held = record.get("withheld")
    hidden = {name for name in held if isinstance(name, str)} if isinstance(held, list) else set()
    wanted = environment(job)
    for name, value in wanted.items():
        if name in hidden:
            continue
        if name == FLAGS:
            yield from _flags(value, ran.get(name, ""))
        elif name not in ran:
            yield f"{name} did not reach the processes; the lock has {value!r}"
        elif ran[name] != value:
            yield f"{name} was {ran[name]!r}; the lock has {value!r}"
    for name in sorted(set(ran) - set(wanted) - _OWN):
        if name.startswith(_MATTER):
            yield f"{name} was {ran[name]!r}, which the lock does not say (the image or site)"


def _flags(wanted: str, ran: str) -> Iterator[str]:
    locked, used = wanted.split(), ran.split()
    for token in locked:
        if token not in used and not token.startswith(f"--{DUMP_FLAG}="):
            yield f"{token} is in the lock and was not in {FLAGS}"
    for token in used:
        if token not in locked and not token.startswith(f"--{DUMP_FLAG}="):
            yield f"{token} was in {FLAGS} and is not in the lock"
