"""Slurm as a backend: sbatch, squeue, sacct and scancel, each asked as seldom as can be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from moectl.errors import BackendError
from moectl.facts.yaml_facts import read
from moectl.launch.backend import JobState, Phase

SECONDS = 60
# squeue and sacct end a state with what happened to it, e.g. "CANCELLED by 1000".
_PHASES: Mapping[str, Phase] = {
    "PENDING": "pending",
    "CONFIGURING": "pending",
    "REQUEUE_HOLD": "pending",
    "SPECIAL_EXIT": "pending",
    "RESV_DEL_HOLD": "pending",
    "REQUEUE_FED": "requeued",
    "REQUEUED": "requeued",
    "RUNNING": "running",
    "RESIZING": "running",
    "SIGNALING": "running",
    "STAGE_OUT": "completing",
    "COMPLETING": "completing",
    "COMPLETED": "completed",
    "FAILED": "failed",
    "BOOT_FAIL": "node failure",
    "NODE_FAIL": "node failure",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "PREEMPTED": "preempted",
    "OUT_OF_MEMORY": "out of memory",
    "SUSPENDED": "suspended",
    "STOPPED": "suspended",
}
_QUEUE = ("%A", "%T", "%r", "%N", "%S", "%e")
_NOTHING = frozenset({"", "None", "N/A", "Unknown", "(null)", "None assigned", "INVALID"})
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
        words = ["sbatch", "--parsable", f"--job-name={job_name}", *options, script.name]
        answer = _call(words, script.parent, lock=lock)
        job = answer.strip().splitlines()[-1].partition(";")[0] if answer.strip() else ""
        if not job.isdigit():
            raise BackendError(f"sbatch gave no job id but {answer.strip()[:200]!r}")
        return job

    def find(self, job_name: str) -> list[str]:
        """Return the ids of this person's jobs of a name, oldest first."""
        name = f"--name={job_name}"
        queued = _call(["squeue", "--me", "--noheader", "--states=all", name, "--format=%A"])
        found = {line.strip() for line in queued.splitlines()}
        found |= {row[0] for row in _accounting([name, "--starttime=now-90days"])}
        return sorted((job for job in found if job.isdigit()), key=int)

    def states(self, jobs: Sequence[str]) -> dict[str, JobState]:
        """Return what the jobs do: one squeue for all, and one sacct for those it lacks.

        A job that neither knows is unknown; other people's jobs are never looked at.
        """
        wanted = [job for job in dict.fromkeys(jobs) if job.isdigit()]
        if not wanted:
            return {job: JobState(job, "unknown") for job in jobs}
        found = {state.job: state for state in _queued() if state.job in wanted}
        rest = [job for job in wanted if job not in found]
        if rest:
            rows = _accounting([f"--jobs={','.join(rest)}"])
            found |= {state.job: state for state in map(_accounted, rows)}
        return {job: found.get(job, JobState(job, "unknown")) for job in jobs}

    def cancel(self, jobs: Sequence[str]) -> None:
        """End jobs; those that ended already are no fault.

        Raises:
            BackendError: Slurm refuses or cannot be reached.
        """
        if jobs:
            try:
                _call(["scancel", *jobs])
            except BackendError as error:
                if not _LOST_JOBS.search(str(error)):
                    raise

    def test(self, script: Path, options: Sequence[str] = ()) -> str:
        """Return what Slurm would do with a script, in its own words.

        Raises:
            BackendError: it would refuse.
        """
        words = ["sbatch", "--test-only", *options, script.name]
        return _call(words, script.parent, errors=True).strip()


def _call(
    words: Sequence[str],
    folder: Path | None = None,
    *,
    errors: bool = False,
    lock: int | None = None,
) -> str:
    """Run one of Slurm's programs and return what it printed.

    Raises:
        BackendError: it failed; the cause in a sentence, its own words below.
    """
    environment = {**os.environ, "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            pass_fds=() if lock is None else (lock,),
        )
    except FileNotFoundError:
        raise BackendError(f"{words[0]} is not on this machine; Slurm's programs are") from None
    except subprocess.TimeoutExpired:
        raise BackendError(f"{words[0]} gave no answer in {SECONDS} s") from None
    except OSError as error:
        raise BackendError(f"{words[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise BackendError(refusal(words[0], done.stderr or done.stdout))
    return done.stdout + (done.stderr if errors else "")


def refusal(program: str, said: str) -> str:
    """Return the cause of a refusal in one sentence, and Slurm's own words below."""
    own = "\n".join(f"  {line}" for line in said.strip().splitlines()[:20])
    for row in read("slurm_refusals.yaml")["rows"]:
        if re.search(row["says"], said):
            return f"{row['cause']}; {row['remedy']}\n{own}"
    return f"{program} refused\n{own}" if own else f"{program} failed without a word"


def _queued() -> Iterator[JobState]:
    """Yield every job of this person that Slurm still holds, recently ended ones included."""
    answer = _call(["squeue", "--me", "--noheader", "--states=all", f"--format={'|'.join(_QUEUE)}"])
    for line in answer.splitlines():
        fields = line.split("|")
        if len(fields) != len(_QUEUE):
            continue
        job, raw, reason, nodes, start, end = (_plain(text) for text in fields)
        phase = _PHASES.get(raw, "unknown")
        if phase in {"pending"}:
            start = end = ""
        yield JobState(job, phase, raw, reason, nodes, start, end)


def _accounting(words: Sequence[str]) -> list[list[str]]:
    """Return rows of sacct; none where the site keeps no accounts."""
    columns = "JobIDRaw,State,ExitCode,Start,End,NodeList,Restarts,Reason"
    try:
        answer = _call(
            ["sacct", "--allocations", "--noheader", "--parsable2", f"--format={columns}", *words]
        )
    except BackendError as error:
        if "accounting storage is disabled" in str(error) or "Restarts" not in str(error):
            return []
        columns = columns.replace("Restarts,", "")
        answer = _call(
            ["sacct", "--allocations", "--noheader", "--parsable2", f"--format={columns}", *words]
        )
    wanted = columns.count(",") + 1
    rows = (line.split("|", wanted - 1) for line in answer.splitlines())
    return [row for row in rows if len(row) == wanted]


def _accounted(row: Sequence[str]) -> JobState:
    job, raw, code, start, end, nodes, *rest = (_plain(text) for text in row)
    word = raw.split(" ", 1)[0].rstrip("+")
    exit_code, _, ended_by = code.partition(":")
    restarts = rest[0] if len(rest) > 1 else ""
    return JobState(
        job,
        _PHASES.get(word, "unknown"),
        raw,
        rest[-1] if rest else "",
        nodes,
        start,
        end,
        int(exit_code) if exit_code.isdigit() else None,
        int(ended_by) if ended_by.isdigit() else 0,
        int(restarts) if restarts.isdigit() else 0,
    )


def _plain(text: str) -> str:
    stripped = text.strip()
    return "" if stripped in _NOTHING else stripped
