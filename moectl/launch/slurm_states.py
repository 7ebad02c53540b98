"""What squeue and sacct say of jobs, each asked once for all of them."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from moectl.errors import BackendError
from moectl.launch.backend import JobState, Phase, Wanted
from moectl.launch.slurm_call import call

# Characters of one argument; Linux takes 128 KiB (MAX_ARG_STRLEN).
LONGEST = 100_000
# A controller's clock may go before or after this machine's.
CLOCKS_DIFFER_SECONDS = 3600
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
NUMBER = re.compile("[0-9]{1,19}")
_NO_ACCOUNTS = re.compile(r"accounting storage is disabled")


def queued() -> Iterator[JobState]:
    """Yield every job of this person that Slurm still holds, recently ended ones included."""
    form = ",".join(f"{field}:0|" for field in _QUEUE)
    answer = call(["squeue", "--me", "--noheader", "--states=all", f"--Format={form}"])
    for line in answer.splitlines():
        fields = line.removesuffix("|").split("|", len(_QUEUE) - 1)
        if len(fields) == len(_QUEUE):
            job, raw, reason, nodes, start, end, status, restarts = map(_plain, fields[:-1])
            yield _state(job, raw, reason, (nodes, start, end), _how(status), restarts, fields[-1])


def ended(wanted: Sequence[Wanted], held: Mapping[str, JobState]) -> list[JobState] | None:
    """Return accounts of runs, of which the queue lacks some jobs or may lack them.

    None: there are accounts, but they do not answer.
    """
    if not wanted:
        return []
    looked_for = [one.since for one in wanted if one.since is not None]
    if not looked_for:
        known = (job for one in wanted for job in one.jobs if job not in held)
        jobs = [job for job in known if NUMBER.fullmatch(job)]
        if not jobs:
            return []
        asked = f"--jobs={','.join(jobs)}"
        return accounting([asked]) if len(asked) < LONGEST else accounting(_from(0))
    # Jobs are asked for by name where ids may be missing; sacct takes one or the other.
    older = any(one.since is None for one in wanted)
    words = _from(0 if older else min(looked_for))
    names = f"--name={','.join(one.name for one in wanted)}"
    return accounting([*words, names] if len(names) < LONGEST else words)


def _from(moment: float) -> list[str]:
    """Return sacct's option for jobs since a moment; 0 is as long as accounts are kept."""
    if not moment:
        return ["--starttime=1970-01-02"]
    age = max(0, int(time.time() - moment)) + CLOCKS_DIFFER_SECONDS
    return [f"--starttime=now-{age}seconds"]


def accounting(words: Sequence[str]) -> list[JobState] | None:
    """Return what sacct says; nothing where the site keeps no accounts.

    None: it keeps them, but they do not answer. The queue is the truth about every job that may
    still do something, so that only ended jobs are unknown meanwhile.
    """
    columns = ",".join(_ACCOUNT)
    try:
        answer = call(
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
            times = (nodes, start, end)
            found.append(_state(job, raw, reason, times, _how(code), "", fields[-1]))
    return found


def _how(said: str) -> tuple[int, int]:
    """Return exit code and signal of CODE:SIGNAL, or of a status as wait(2) has it.

    squeue of 22.05 prints the status, that of 24.11 and sacct the pair.
    """
    code, colon, ended_by = said.partition(":")
    if colon:
        return _whole(code), _whole(ended_by)
    return _whole(said) >> 8 & 0xFF, _whole(said) & 0x7F


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


def oldest_first(states: Iterable[JobState]) -> list[JobState]:
    """Return jobs by id."""
    return sorted(states, key=lambda state: state.job.rjust(20, "0"))


def _whole(text: str) -> int:
    return int(text) if NUMBER.fullmatch(text) else 0


def _plain(text: str) -> str:
    stripped = text.strip()
    return "" if stripped in _NOTHING else stripped
