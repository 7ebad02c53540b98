"""How long a job may take for what: the watchdog's limits, and the signal before the time limit."""

from __future__ import annotations

import re
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.job import Job

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})", re.ASCII)
# Seconds of the parts of a time limit: with days H:M:S from the left; without, M, M:S or H:M:S.
_WITH_DAYS = (3600, 60, 1)
_WITHOUT = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}
_PGLE, _PGLE_RUNS = "JAX_ENABLE_PGLE", "JAX_PGLE_PROFILING_RUNS"
_RANKS_A_SECOND = 100
_CHECKPOINTS = ("enable_checkpointing", "enable_autocheckpoint")


def seconds(limit: str) -> int | None:
    """Return a time limit as Slurm writes it, in s; None for one without an end, as 0 is.

    Minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or
    days-hours:minutes:seconds (sbatch --time).
    """
    match = _TIME.fullmatch(limit.strip())
    if match is None:
        return None
    parts = [int(part) for part in match["rest"].split(":")]
    units = _WITH_DAYS if match["days"] else _WITHOUT[len(parts)]
    whole = sum(part * unit for part, unit in zip(parts, units, strict=False))
    return whole + 86400 * int(match["days"] or 0) or None


def watchdog(job: Job) -> list[str]:
    """Return the words of the watchdog before its folder; shell words as they stand."""
    limits: dict[str, Any] = dict(read("launch.yaml")["watchdog"])
    site: dict[str, Any] = {"start": job.cluster.compile_limit, "step": job.cluster.step_limit}
    site |= {"grace": job.cluster.watchdog_grace, "factor": job.cluster.watchdog_factor}
    limits |= {name: value for name, value in site.items() if value is not None}
    # One look opens every log once, on the file system that all nodes share.
    limits["every"] = max(limits["every"], job.gpus // _RANKS_A_SECOND)
    per_node = min(job.processes, job.processes_per_node)
    words = [f"--ranks={job.processes}", f"--per-node={per_node}"]
    if (steps := _said(job, "steps")) and isinstance(steps, int) and steps > 0:
        words.append(f"--steps={steps}")
    if (settle := _compiled_until(job)) > 1:
        words.append(f"--settle={settle}")
    return [*words, *(f"--{name}={value}" for name, value in limits.items())]


def _compiled_until(job: Job) -> int:
    """Return after how many steps the last compilation is over: PGLE compiles a second time."""
    said = job.environment.get(_PGLE)
    if said is None or str(said.value).lower() not in {"true", "1"}:
        return 1
    runs = job.environment.get(_PGLE_RUNS)
    text = str(runs.value) if runs is not None else "3"
    return int(text) + 2 if text.isascii() and text.isdigit() else 5


def saves(job: Job) -> bool:
    """Return whether a job writes a checkpoint when it is told to end."""
    return all(_said(job, key) is True for key in _CHECKPOINTS)


def signal(job: Job) -> str:
    """Return the value of `--signal`, "" where the job would not save on it.

    It goes to every process of the steps; with "B:" it would go to the batch script alone.
    """
    facts = read("launch.yaml")["limit_signal"]
    taken = any(
        text.removeprefix("--").partition("=")[0] == "signal" for text in job.cluster.directives
    )
    limit = seconds(job.cluster.time)
    if not saves(job) or taken or limit is None:
        return ""
    if job.cluster.signal_seconds is not None:
        own = job.cluster.signal_seconds
        return f"{facts['name']}@{own}" if own else ""
    early = min(facts["seconds"], int(limit * facts["share"]))
    return f"{facts['name']}@{early}" if early >= facts["least"] else ""


def long_run(job: Job) -> bool:
    """Whether a job saves checkpoints, so that another one can go on where it ended."""
    return _said(job, _CHECKPOINTS[0]) is True


def requeues(job: Job) -> int:
    """Return how often a job goes back into the queue without a new step in between."""
    said = job.cluster.requeue
    if any(text.removeprefix("--") == "no-requeue" for text in job.cluster.directives):
        return 0
    return int(read("launch.yaml")["requeue"]) if said is None else said


def steps(job: Job) -> int:
    """Return how many steps a run takes; 0 where nothing says it.

    MaxText takes those of the schedule where its steps are -1.
    """
    for key in ("steps", "learning_rate_schedule_steps"):
        said = _said(job, key)
        if isinstance(said, int) and not isinstance(said, bool) and said > 0:
            return said
    return 0


def _said(job: Job, key: str) -> Any:
    value = job.arguments.get(key) or job.config.get(key)
    return value.value if value is not None else job.effective.get(key)
