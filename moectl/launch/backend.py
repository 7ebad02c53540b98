"""What a backend does for a run, and what a job is doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

Phase: TypeAlias = Literal[
    "pending", "running", "completing", "completed", "failed", "cancelled", "timeout",
    "node failure", "preempted", "out of memory", "requeued", "suspended", "unknown",
]  # fmt: skip
LIVE: frozenset[Phase] = frozenset({"pending", "running", "completing", "requeued", "suspended"})


@dataclass(frozen=True, slots=True)
class JobState:
    """What the scheduler says of a job.

    Attributes:
        job: its id.
        phase: what it does, in words that all backends share.
        raw: the scheduler's own word.
        reason: why it waits or ended, in the scheduler's own words; empty if it says none.
        nodes: compact list of its nodes; empty before it has any.
        start: when it started, as the scheduler writes it; empty before.
        end: when it ended; empty before.
        exit_code: exit code of the batch script; None before its end.
        signal: the signal that ended it, 0 if none did.
        restarts: how often it was requeued.
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

    @property
    def live(self) -> bool:
        """Whether it may still do something."""
        return self.phase in LIVE


class Backend(Protocol):
    """A scheduler that runs bundles. Everything it refuses is a `BackendError`."""

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

    def find(self, job_name: str) -> list[str]:
        """Return the ids of this person's jobs of a name, oldest first, ended ones included."""

    def states(self, jobs: Sequence[str]) -> Mapping[str, JobState]:
        """Return what the jobs do; all of them are asked for at once."""

    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs; those that ended already are no fault."""

    def test(self, script: Path, options: Sequence[str] = ()) -> str:
        """Return what the scheduler would do with a script, in its own words."""
