"""What a backend does for a run, and what a job is doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from moectl.errors import BackendError

if TYPE_CHECKING:
    from pathlib import Path

Phase: TypeAlias = Literal[
    "pending", "running", "completing", "completed", "failed", "cancelled", "timeout",
    "node failure", "preempted", "out of memory", "requeued", "suspended", "refused", "unknown",
]  # fmt: skip
LIVE: frozenset[Phase] = frozenset({"pending", "running", "completing", "requeued", "suspended"})


class UnansweredError(BackendError):
    """The scheduler did not answer, so what was asked of it may have been done all the same."""


@dataclass(frozen=True, slots=True)
class JobState:
    """What the scheduler says of a job.

    Attributes:
        job: its id.
        phase: what it does, in words that all backends share. "refused" is a job that the
            scheduler took down and turned away at once; it never was one.
        raw: the scheduler's own word.
        reason: why it waits or ended, in the scheduler's own words; empty if it says none.
        nodes: compact list of its nodes; empty before it has any.
        start: when it started, as the scheduler writes it; empty before.
        end: when it ended; empty before.
        exit_code: exit code of the batch script; None before its end.
        signal: the signal that ended it, 0 if none did.
        restarts: how often it was requeued, as far as the scheduler still knows.
        name: its name.
    """

    job: str
    phase: Phase
    raw: str = ""
    reason: str = ""
    nodes: str = ""
    start: str = ""
    end: str = ""
    exit_code: int | None = None
    signal: int = 0
    restarts: int = 0
    name: str = ""

    @property
    def live(self) -> bool:
        """Whether it may still do something."""
        return self.phase in LIVE


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run that is asked about.

    Attributes:
        name: the name of its jobs.
        jobs: ids that are known.
        since: seconds since the epoch; jobs of the name that are not known are looked for from
            then on among the ended ones too. None looks for none of those.
    """

    name: str
    jobs: tuple[str, ...] = ()
    since: float | None = None


class Backend(Protocol):
    """A scheduler that runs bundles. Everything it refuses is a `BackendError`.

    One that did not answer in time raises an `UnansweredError`.
    """

    @property
    def name(self) -> str:
        """Return the launcher's name, e.g. "slurm"."""

    def submit(
        self, script: Path, job_name: str, options: Sequence[str] = (), lock: int | None = None
    ) -> str:
        """Submit a script from its folder and return the job's id.

        Args:
            script: the script.
            job_name: by which the job is found again.
            options: further options of the scheduler's own program.
            lock: a file descriptor that whatever submits keeps open until it is done.
        """

    def survey(self, wanted: Sequence[Wanted]) -> Mapping[str, tuple[JobState, ...]]:
        """Return what the jobs of runs do, by job name, oldest first.

        All runs together cost a fixed number of calls. A known job that the scheduler has
        forgotten is "unknown"; one that has its id and another name is somebody else's.
        """

    def states(self, jobs: Sequence[str]) -> Mapping[str, JobState]:
        """Return what the jobs do; all of them are asked for at once."""

    def find(self, job_name: str) -> list[str]:
        """Return the ids of this person's jobs of a name, oldest first, ended ones included."""

    def cancel(self, jobs: Sequence[str], job_name: str) -> None:
        """End the jobs of a name; those that ended already are no fault."""

    def blocked(self, job: JobState) -> str:
        """Return why a waiting job will not start by itself, and the remedy; else nothing."""

    def test(self, script: str, folder: Path, options: Sequence[str] = ()) -> str:
        """Return what the scheduler would do with a script, in its own words."""
