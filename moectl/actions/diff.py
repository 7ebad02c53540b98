"""Compares two jobs by what they mean, not by the lines of their files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl.actions.plan import Wishes, plan
from moectl.actions.render import render
from moectl.actions.reproduction import edited
from moectl.errors import FindingsError, UnknownNameError
from moectl.estimate.memory import GIB, Estimate, estimate
from moectl.job import Job
from moectl.launch.store import Store
from moectl.render.variables import FLAGS, environment
from moectl.settings.files import preset_names
from moectl.values import Value


class Absent(str):
    """A value that is not there, told apart from an empty one."""

    __slots__ = ()


ABSENT = Absent("-")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs.

    Attributes:
        section: what it is part of: job, MaxText, XLA flags, environment, cluster or files.
        name: its name there.
        left: its value in the first job; `ABSENT` where it has none.
        right: likewise in the second.
    """

    section: str
    name: str
    left: Any
    right: Any

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form; a side that has no value is not in it."""
        row: dict[str, Any] = {"section": self.section, "name": self.name}
        sides = {"left": self.left, "right": self.right}
        return row | {side: said for side, said in sides.items() if said is not ABSENT}


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two jobs.

    Attributes:
        left: name of the first job.
        right: name of the second.
        changes: in the order of their sections.
    """

    left: str
    right: str
    changes: tuple[Change, ...]


def diff(left: str, right: str) -> Difference:
    """Compare two presets, run files, bundles or runs.

    Raises:
        MoectlError: one of them cannot be read, or makes no job.
    """
    jobs = [_job(said) for said in (left, right)]
    files = _changes("files", *(_files(one) for one in (left, right)))
    return Difference(left, right, (*compared(*jobs), *files))


def compared(left: Job, right: Job) -> Iterator[Change]:
    """Yield what differs between two jobs."""
    yield from _changes("job", _meaning(left), _meaning(right))
    yield from _changes("MaxText", left.effective, right.effective)
    yield from _changes("XLA flags", _plain(left.xla_flags), _plain(right.xla_flags))
    yield from _changes("environment", _variables(left), _variables(right))
    yield from _changes("cluster", _cluster(left), _cluster(right))


def _job(said: str) -> Job:
    """Return the job of a preset, run file or bundle, or of a run by its id or name."""
    try:
        return plan(said, Wishes())
    except UnknownNameError as unknown:
        if (bundle := _bundle(said)) is None:
            raise unknown from None
        return plan(str(bundle), Wishes())


def _bundle(said: str) -> Path | None:
    """Return the folder of a bundle or of a run's; None where it is neither."""
    if Path(said).exists():
        return Path(said) if Path(said).is_dir() else None
    try:
        return Path(Store().find(said).bundle)
    except UnknownNameError:
        return None


def _files(said: str) -> dict[str, str]:
    """Return the files of a bundle that are not what its lock renders, with what they are.

    The lock says what the job is; the files are what runs. Where rules of today refuse the lock,
    there is nothing to compare with, which `moectl verify` says.
    """
    folder = None if said in preset_names() else _bundle(said)
    if folder is None:
        return {}
    try:
        differ = edited(folder, render(str(folder), Wishes()))
    except FindingsError:
        return {}
    return {name: _state(folder / name) for name in differ}


def _state(path: Path) -> str:
    """Return what became of a file, told apart by its content."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError:
        return "missing"
    return f"other than its lock renders ({digest})"


def _meaning(job: Job) -> dict[str, Any]:
    """Return what a job comes to, in the words of people who plan runs."""
    totals = _totals(job)
    return {
        "GPUs": job.gpus,
        "platform": job.hardware.name,
        "nodes": job.nodes,
        "processes a node": job.processes_per_node,
        "slices": job.mesh.slices,
        **{f"{name} degree": total for name, total in totals.items() if total > 1},
        "sequences a GPU": job.batch.per_device,
        "sequences a step": job.batch.global_batch,
        "tokens a sequence": job.batch.sequence_length,
        "tokens a step": job.batch.global_batch * job.batch.sequence_length,
        "image": job.container.image.reference,
        "memory a GPU, middle estimate, GiB": _memory(job),
    }


def _memory(job: Job) -> float | None:
    found: Estimate | None = estimate(job.effective, _totals(job), job.container.image.maxtext)
    return None if found is None else round((found.arguments + found.middle) / GIB, 1)


def _totals(job: Job) -> dict[str, int]:
    return {name: degree.total for name, degree in job.mesh.degrees.items()}


def _plain(values: Mapping[str, Value]) -> dict[str, Any]:
    return {name: value.value for name, value in values.items()}


def _variables(job: Job) -> dict[str, Any]:
    return {name: value for name, value in environment(job).items() if name != FLAGS}


def _cluster(job: Job) -> dict[str, Any]:
    return {name: getattr(job.cluster, name) for name in type(job.cluster).__slots__}


def _changes(section: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterable[Change]:
    for name in dict.fromkeys([*left, *right]):
        values = left.get(name, ABSENT), right.get(name, ABSENT)
        if values[0] != values[1] or type(values[0]) is not type(values[1]):
            yield Change(section, name, *values)
