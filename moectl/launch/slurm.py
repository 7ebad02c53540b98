"""Slurm as a backend: sbatch, squeue, sacct and scancel, each asked as seldom as can be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from moectl.errors import BackendError
from moectl.facts.yaml_facts import read
from moectl.launch.backend import JobState, Phase, Wanted

SECONDS = 60
# Characters of one argument; Linux takes 128 KiB (MAX_ARG_STRLEN).
LONGEST = 100_000
# A controller's clock may go before or after this machine's.
CLOCKS_DIFFER_SECONDS = 3600
FOUND_SECONDS = 90 * 86400
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
# Names come last: a person's own may hold the separator. Width 0 cuts nothing.
_QUEUE = (
    "JobID", "State", "Reason", "NodeList", "StartTime", "EndTime", "exit_code", "RestartCnt",
    "Name",
)  # fmt: skip
_ACCOUNT = ("JobIDRaw", "State", "Reason", "NodeList", "Start", "End", "ExitCode", "JobName")
_NOTHING = frozenset({"", "None", "N/A", "Unknown", "(null)", "None assigned", "INVALID", "n/a"})
_NUMBER = re.compile("[0-9]{1,19}")
_LOST_JOBS = re.compile(r"[Ii]nvalid job id")
_NO_ACCOUNTS = re.compile(r"accounting storage is disabled")


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
        if not _NUMBER.fullmatch(job):
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
        queued = {state.job: state for state in _queued() if state.name in names}
        lacking = [
            one
            for one in wanted
            if one.since is not None or any(job not in queued for job in one.jobs)
        ]
        accounts = _ended(lacking, queued)
        ended = (state for state in accounts or () if state.name in names)
        known = {state.job: state for state in ended} | queued
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
        return {name: tuple(_oldest_first(jobs.values())) for name, jobs in answer.items()}

    def states(self, jobs: Sequence[str]) -> dict[str, JobState]:
        """Return what the jobs do: one squeue for all, and one sacct for those it lacks.

        A job that neither knows is unknown; other people's jobs are never looked at.

        Raises:
            BackendError: Slurm cannot be asked.
        """
        wanted = [job for job in dict.fromkeys(jobs) if _NUMBER.fullmatch(job)]
        found: dict[str, JobState] = {}
        if wanted:
            found = {state.job: state for state in _queued() if state.job in set(wanted)}
            if rest := [job for job in wanted if job not in found]:
                rows = _accounting([f"--jobs={','.join(rest)}"])
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
        numbers = [job for job in jobs if _NUMBER.fullmatch(job)]
        if numbers:
            try:
                _call(["scancel", f"--name={job_name}", *numbers])
            except BackendError as error:
                if not _LOST_JOBS.search(str(error)):
                    raise

    def test(self, script: str, folder: Path, options: Sequence[str] = ()) -> str:
        """Return what Slurm would do with a script, in its own words; nothing is written.

        Raises:
            BackendError: it would refuse.
        """
        words = ["sbatch", "--test-only", *options]
        return _call(words, folder, errors=True, text=script).strip()


def _call(
    words: Sequence[str],
    folder: Path | None = None,
    *,
    errors: bool = False,
    lock: int | None = None,
    text: str | None = None,
) -> str:
    """Run one of Slurm's programs and return what it printed.

    Args:
        words: its command line.
        folder: where it runs.
        errors: whether standard error is part of the answer.
        lock: a file descriptor it inherits.
        text: its standard input.

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
            pass_fds=() if lock is None else (lock,),
            input=text or "",
        )
    except FileNotFoundError:
        if folder is not None and not folder.is_dir():
            raise BackendError(f"{folder} is not there any more") from None
        raise BackendError(
            f"{words[0]} is not on this machine: it is one where Slurm's programs are that submits"
        ) from None
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
    form = ",".join(f"{field}:0|" for field in _QUEUE)
    answer = _call(["squeue", "--me", "--noheader", "--states=all", f"--Format={form}"])
    for line in answer.splitlines():
        fields = line.removesuffix("|").split("|", len(_QUEUE) - 1)
        if len(fields) == len(_QUEUE):
            job, raw, reason, nodes, start, end, status, restarts = map(_plain, fields[:-1])
            code = _whole(status)  # as wait(2) has it
            times = (nodes, start, end)
            how = (code >> 8 & 0xFF, code & 0x7F)
            yield _state(job, raw, reason, times, how, restarts, fields[-1])


def _ended(wanted: Sequence[Wanted], queued: Mapping[str, JobState]) -> list[JobState] | None:
    """Return accounts of runs, of which the queue lacks some jobs or may lack them.

    None: there are accounts, but they do not answer.
    """
    if not wanted:
        return []
    looked_for = [one.since for one in wanted if one.since is not None]
    if not looked_for:
        known = (job for one in wanted for job in one.jobs if job not in queued)
        jobs = [job for job in known if _NUMBER.fullmatch(job)]
        if not jobs:
            return []
        asked = f"--jobs={','.join(jobs)}"
        return _accounting([asked]) if len(asked) < LONGEST else _accounting(_from(0))
    # Jobs are asked for by name where ids may be missing; sacct takes one or the other.
    older = any(one.since is None for one in wanted)
    words = _from(0 if older else min(looked_for))
    names = f"--name={','.join(one.name for one in wanted)}"
    return _accounting([*words, names] if len(names) < LONGEST else words)


def _from(moment: float) -> list[str]:
    """Return sacct's option for jobs since a moment; 0 is as long as accounts are kept."""
    if not moment:
        return ["--starttime=1970-01-02"]
    age = max(0, int(time.time() - moment)) + CLOCKS_DIFFER_SECONDS
    return [f"--starttime=now-{age}seconds"]


def _accounting(words: Sequence[str]) -> list[JobState] | None:
    """Return what sacct says; nothing where the site keeps no accounts.

    None: it keeps them, but they do not answer. The queue is the truth about every job that may
    still do something, so that only ended jobs are unknown meanwhile.
    """
    columns = ",".join(_ACCOUNT)
    try:
        answer = _call(
            ["sacct", "--allocations", "--noheader", "--parsable2", f"--format={columns}", *words]
        )
    except BackendError as error:
        if _NO_ACCOUNTS.search(str(error)) or shutil.which("sacct") is None:
            return []
        return None
    found = []
    for line in answer.splitlines():
        fields = line.split("|", len(_ACCOUNT) - 1)
        if len(fields) == len(_ACCOUNT):
            job, raw, reason, nodes, start, end, code = map(_plain, fields[:-1])
            exit_code, _, ended_by = code.partition(":")
            how = (_whole(exit_code), _whole(ended_by))
            found.append(_state(job, raw, reason, (nodes, start, end), how, "", fields[-1]))
    return found


def _state(
    job: str,
    raw: str,
    reason: str,
    where: tuple[str, str, str],
    how: tuple[int, int],
    restarts: str,
    name: str,
) -> JobState:
    """Return a job's state of the texts of squeue or sacct.

    Args:
        job: its id.
        raw: its state.
        reason: why.
        where: nodes, start and end; Slurm guesses the last two before they happen.
        how: exit code and signal.
        restarts: how often it was requeued.
        name: its name.
    """
    phase = _PHASES.get(raw.split(" ", 1)[0].rstrip("+"), "unknown")
    nodes, start, end = where
    if phase == "failed" and not nodes:
        phase = "refused"  # Slurm keeps what it turned away, e.g. for a wrong account
    live = JobState(job, phase).live
    return JobState(
        job,
        phase,
        raw,
        reason,
        nodes,
        "" if phase == "pending" else start,
        "" if live else end,
        None if live or phase == "unknown" else how[0],
        how[1],
        _whole(restarts),
        name,
    )


def _oldest_first(states: Iterable[JobState]) -> list[JobState]:
    return sorted(states, key=lambda state: state.job.rjust(20, "0"))


def _whole(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def _plain(text: str) -> str:
    stripped = text.strip()
    return "" if stripped in _NOTHING else stripped
