"""The record of a run: what was meant, and the jobs that came of it.

The scheduler is the truth about what a job does; the record is the truth about what was meant.
It never holds the value of a variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

FORMAT = 1

State: TypeAlias = Literal["intent", "submitted", "cancelled", "lost"]
Why: TypeAlias = Literal["first", "chain", "resume"]
STATES: tuple[State, ...] = get_args(State)


class RecordError(ValueError):
    """A record that cannot be read as one; one clause."""


@dataclass(frozen=True, slots=True)
class JobEntry:
    """One job of a run.

    Attributes:
        job: the scheduler's id.
        submitted: when, UTC, as 2026-11-30T12:00:00Z.
        why: first, chain (the next link of a long run) or resume.
    """

    job: str
    submitted: str
    why: Why = "first"


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run.

    Attributes:
        id: unique; also the scheduler's name of its jobs, so that they are found by it.
        name: the run's name.
        created: when it was meant, UTC.
        launcher: what runs it, e.g. "slurm".
        target: what was launched: preset, run file or bundle.
        bundle: absolute path of the bundle.
        gpus: GPUs in all.
        nodes: nodes.
        hardware: platform.
        state: intent (written before submission), submitted, cancelled, or lost (meant, and
            never submitted).
        jobs: its jobs, oldest first.
        options: what else was asked for, e.g. {"chain": 3}.
        ended: a job's id to how it ended, in the scheduler's words, for when it has forgotten.
        other: keys of a newer moectl, kept as they are.
    """

    id: str
    name: str
    created: str
    launcher: str
    target: str
    bundle: str
    gpus: int
    nodes: int
    hardware: str
    state: State = "intent"
    jobs: tuple[JobEntry, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    ended: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    other: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        jobs = [{"job": j.job, "submitted": j.submitted, "why": j.why} for j in self.jobs]
        known = {item.name: getattr(self, item.name) for item in fields(self)}
        del known["other"]
        if not self.ended:
            del known["ended"]
        return {
            "format": FORMAT,
            **known,
            "jobs": jobs,
            "options": dict(self.options),
            **self.other,
        }

    def submitted(self, job: str, when: str, why: Why = "first") -> RunRecord:
        """Return the record with a job; one that it has already is not added again."""
        if any(entry.job == job for entry in self.jobs):
            return replace(self, state="submitted")
        return replace(self, state="submitted", jobs=(*self.jobs, JobEntry(job, when, why)))

    @property
    def job_ids(self) -> tuple[str, ...]:
        """Return the ids of its jobs, oldest first."""
        return tuple(entry.job for entry in self.jobs)


_TEXTS = ("id", "name", "created", "launcher", "target", "bundle", "hardware")
_COUNTS = ("gpus", "nodes")
_WHYS: tuple[Why, ...] = get_args(Why)


def from_dict(data: Any) -> RunRecord:
    """Read the JSON form, of this format or an older one.

    Raises:
        RecordError: it is no record, or one of a newer format.
    """
    if not isinstance(data, dict):
        raise RecordError("is no mapping")
    number = data.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise RecordError("has no format number")
    if number > FORMAT:
        raise RecordError(f"has format {number}, written by a newer moectl than this one")
    for older in range(number, FORMAT):
        data = _MIGRATIONS[older](data)
    wrong = [key for key in _TEXTS if not isinstance(data.get(key), str)]
    wrong += [key for key in _COUNTS if type(data.get(key)) is not int]
    if wrong:
        raise RecordError(f"lacks {', '.join(wrong)}, or has them in another form")
    if data.get("state") not in STATES:
        raise RecordError(f"has no state that is one of {', '.join(STATES)}")
    known = {key: data[key] for key in (*_TEXTS, *_COUNTS, "state")}
    options = data.get("options", {})
    if not isinstance(options, dict):
        raise RecordError("has options that are no mapping")
    read = {*known, "jobs", "options", "ended", "format"}
    left = {key: value for key, value in data.items() if key not in read}
    jobs = _jobs(data.get("jobs", []))
    ended = _ended(data.get("ended", {}))
    return RunRecord(**known, jobs=jobs, options=options, ended=ended, other=left)


def _ended(rows: Any) -> dict[str, dict[str, Any]]:
    """Return what a record says of ended jobs; what cannot be read of it can be asked for."""
    held = rows.items() if isinstance(rows, dict) else ()
    return {job: row for job, row in held if isinstance(row, dict)}


def _jobs(rows: Any) -> tuple[JobEntry, ...]:
    if not isinstance(rows, list):
        raise RecordError("has jobs that are no list")
    found = []
    for row in rows:
        fits = (
            isinstance(row, dict)
            and isinstance(row.get("job"), str)
            and isinstance(row.get("submitted"), str)
            and row.get("why") in _WHYS
        )
        if not fits:
            raise RecordError("has a job without id, time or reason")
        found.append(JobEntry(row["job"], row["submitted"], row["why"]))
    return tuple(found)


# Format number -> what makes the next one of it.
_MIGRATIONS: Mapping[int, Any] = {}
