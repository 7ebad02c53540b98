"""Compares two jobs by what they mean, not by the lines of their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl.actions.plan import Wishes, plan
from moectl.errors import UnknownNameError
from moectl.estimate.memory import GIB, Estimate, estimate
from moectl.job import Job
from moectl.launch.store import Store
from moectl.render.variables import FLAGS, environment
from moectl.values import Value


class Absent(str):
    """A value that is not there, told apart from an empty one."""

    __slots__ = ()


ABSENT = Absent("-")


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that differs.

    Attributes:
        section: what it is part of: job, MaxText, XLA flags, environment or cluster.
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
    return Difference(left, right, tuple(compared(*jobs)))


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
        if Path(said).exists():
            raise
        try:
            bundle = Store().find(said).bundle
        except UnknownNameError:
            raise unknown from None
        return plan(bundle, Wishes())


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
