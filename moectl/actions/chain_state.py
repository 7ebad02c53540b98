"""What a run of several jobs came to: done when its last step was reached, else incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from moectl.launch.backend import JobState
from moectl.launch.record import RunRecord
from moectl.logs.folders import end_of, job_folders, rank_log
from moectl.logs.tail import tail_state

DONE, INCOMPLETE = "done", "incomplete"
# Ends of the last job that say nothing against another one.
_MAY_GO_ON = frozenset({"completed", "timeout", "preempted", "node failure"})


def state_of_chain(record: RunRecord, jobs: Sequence[JobState], plain: str) -> str:
    """Return the state of a run of several jobs.

    A run whose last step was reached is done, also while links that will find nothing to do
    still wait.

    Args:
        record: the run.
        jobs: what its jobs do, oldest first.
        plain: the state by the scheduler alone.
    """
    if any(job.live and job.phase != "pending" for job in jobs):
        return plain
    if _reached(record):
        return DONE
    return INCOMPLETE if plain in _MAY_GO_ON else plain


def _reached(record: RunRecord) -> bool:
    """Whether the last job that trained reached the last step, and ended well after it."""
    folders = job_folders(Path(record.bundle), record.job_ids)
    if not folders:
        return False
    end = end_of(folders[-1].path)
    if end:
        return end.get("done") is True
    steps = record.options.get("steps")
    log = tail_state(rank_log(folders[-1].path, 0))
    return log.done(steps if type(steps) is int and steps > 0 else None)
