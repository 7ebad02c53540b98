"""Slurm as a backend: sbatch, squeue, sacct and scancel, each asked as seldom as can be."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from moectl.errors import BackendError
from moectl.launch.backend import JobState, Wanted
from moectl.launch.slurm_call import blocked, call, submitting
from moectl.launch.slurm_states import NUMBER, accounting, ended, oldest_first, queued

# How long ago a job may have been that is looked for by its name alone.
FOUND_SECONDS = 90 * 86400
_LOST_JOBS = re.compile(r"[Ii]nvalid job id")


def available() -> bool:
    """Whether this machine can submit to a Slurm."""
    return shutil.which("sbatch") is not None


class Slurm:
    """The Slurm of this machine."""

    name = "slurm"

    def submit(
        self, script: Path, job_name: str, options: Sequence[str] = (), lock: int | None = None
    ) -> str:
        """Submit a script from its folder and return the job's id.

        Raises:
            BackendError: Slurm refuses or cannot be reached.
        """
        if "%" in str(script.parent.absolute()):
            # Slurm fills in %j and the like in the folder's name too, where no %% escapes them:
            # the job would fail as it starts, without any log.
            raise BackendError(
                f"{script.parent}: Slurm reads a % in a folder's name as a field of the log's "
                "name, so the job could not start; put the runs into a folder without one"
            )
        words = ["sbatch", "--parsable", f"--job-name={job_name}", *options, script.name]
        try:
            text = script.read_text("utf-8", "surrogateescape")
        except OSError as error:
            raise BackendError(f"{script}: {error.strerror or error}") from None
        answer = call(words, script.parent, lock=lock, environment=submitting(text))
        job = answer.strip().splitlines()[-1].partition(";")[0] if answer.strip() else ""
        if not NUMBER.fullmatch(job):
            raise BackendError(f"sbatch gave no job id but {answer.strip()[:200]!r}")
        return job

    def survey(self, wanted: Sequence[Wanted]) -> dict[str, tuple[JobState, ...]]:
        """Return what the jobs of runs do: one squeue for all, one sacct for what it lacks.

        While the accounts do not answer, a run whose ended jobs are looked for is left out of
        the answer unless the queue holds a job of it.

        Raises:
            BackendError: Slurm cannot be asked.
        """
        if not wanted:
            return {}
        names = {one.name for one in wanted}
        held = {state.job: state for state in queued() if state.name in names}
        lacking = [
            one
            for one in wanted
            if one.since is not None or any(job not in held for job in one.jobs)
        ]
        accounts = ended(lacking, held)
        told = (state for state in accounts or () if state.name in names)
        known = {state.job: state for state in told} | held
        answer: dict[str, dict[str, JobState]] = {one.name: {} for one in wanted}
        for state in known.values():
            answer[state.name][state.job] = state
        for one in wanted:
            for job in one.jobs:
                answer[one.name].setdefault(job, JobState(job, "unknown", name=one.name))
        if accounts is None:
            untold = [one.name for one in wanted if one.since is not None and not answer[one.name]]
            for name in untold:
                del answer[name]
        return {name: tuple(oldest_first(jobs.values())) for name, jobs in answer.items()}

    def states(self, jobs: Sequence[str]) -> dict[str, JobState]:
        """Return what the jobs do: one squeue for all, and one sacct for those it lacks.

        A job that neither knows is unknown; other people's jobs are never looked at.

        Raises:
            BackendError: Slurm cannot be asked.
        """
        wanted = [job for job in dict.fromkeys(jobs) if NUMBER.fullmatch(job)]
        found: dict[str, JobState] = {}
        if wanted:
            found = {state.job: state for state in queued() if state.job in set(wanted)}
            if rest := [job for job in wanted if job not in found]:
                rows = accounting([f"--jobs={','.join(rest)}"])
                found |= {state.job: state for state in rows or ()}
        return {job: found.get(job, JobState(job, "unknown")) for job in jobs}

    def find(self, job_name: str) -> list[str]:
        """Return the ids of this person's jobs of a name, oldest first.

        Raises:
            BackendError: Slurm cannot be asked.
        """
        found = self.survey([Wanted(job_name, since=time.time() - FOUND_SECONDS)])
        if job_name not in found:
            raise BackendError("Slurm's accounts do not answer; try again in a moment")
        states = found[job_name]
        return [state.job for state in states if state.phase != "refused"]

    def cancel(self, jobs: Sequence[str], job_name: str) -> None:
        """End the jobs of a name; those that ended already are no fault.

        The name goes along, since a Slurm that was set up anew counts job ids from the start.

        Raises:
            BackendError: Slurm refuses or cannot be reached.
        """
        numbers = [job for job in jobs if NUMBER.fullmatch(job)]
        if numbers:
            try:
                call(["scancel", f"--name={job_name}", *numbers])
            except BackendError as error:
                if not _LOST_JOBS.search(str(error)):
                    raise

    def blocked(self, job: JobState) -> str:
        """Return why a waiting job will not start by itself, and the remedy; else nothing."""
        return blocked(job.reason) if job.phase == "pending" else ""

    def test(self, script: str, folder: Path, options: Sequence[str] = ()) -> str:
        """Return what Slurm would do with a script, in its own words; nothing is written.

        Raises:
            BackendError: it would refuse.
        """
        words = ["sbatch", "--test-only", *options]
        environment = submitting(script)
        return call(words, folder, errors=True, text=script, environment=environment).strip()
