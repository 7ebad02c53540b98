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
    """Return a time limit as Slurm writes it, in s; None for one without an end."""
    match = _TIME.fullmatch(limit.strip())
    if match is None:
        return None
    parts = [int(part) for part in match["rest"].split(":")]
    units = _WITH_DAYS if match["days"] else _WITHOUT[len(parts)]
    whole = sum(part * unit for part, unit in zip(parts, units, strict=False))
    return whole + 86400 * int(match["days"] or 0)


def watchdog(job: Job) -> list[str]:
    """Return the words of the watchdog before its folder; shell words as they stand."""
    limits: dict[str, Any] = dict(read("launch.yaml")["watchdog"])
    site = {"start": job.cluster.compile_limit, "step": job.cluster.step_limit}
    limits |= {name: value for name, value in site.items() if value is not None}
    # One look opens every log once, on the file system that all nodes share.
    limits["every"] = max(limits["every"], job.gpus // _RANKS_A_SECOND)
    words = [f"--ranks={job.gpus}", f"--per-node={job.processes_per_node}"]
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


def signal(job: Job) -> str:
    """Return the value of `--signal`, "" where the job would not save on it.

    It goes to every process of the steps; with "B:" it would go to the batch script alone.
    """
    facts = read("launch.yaml")["limit_signal"]
    saves = all(_said(job, key) is True for key in _CHECKPOINTS)
    taken = any(
        text.removeprefix("--").partition("=")[0] == "signal" for text in job.cluster.directives
    )
    limit = seconds(job.cluster.time)
    if not saves or taken or limit is None:
        return ""
    early = min(facts["seconds"], int(limit * facts["share"]))
    return f"{facts['name']}@{early}" if early >= facts["least"] else ""


def _said(job: Job, key: str) -> Any:
    value = job.arguments.get(key) or job.config.get(key)
    return value.value if value is not None else job.effective.get(key)
