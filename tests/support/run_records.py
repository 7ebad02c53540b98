"""Runs written by hand, and a scheduler that says what it is told to say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moectl.errors import BackendError
from moectl.launch.backend import JobState, Wanted
from moectl.launch.record import RunRecord
from moectl.launch.store import Store

# Runs a command's function as the door does, in a process of its own.
PROGRAM = """
import sys
from moectl.__main__ import run
from moectl.cli.command import Command
try:
    code = run(Command("x", "", "moectl.cli.{name}:run"), {values!r})
    sys.stdout.flush()
except BrokenPipeError:
    sys.stdout = None
    code = 0
sys.exit(code)
"""


def process(name: str, values: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start a command in a process of its own, its outputs in pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(name=name, values=dict(values))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)},
    )


@dataclass
class Scheduler:
    """Says what `jobs` say, and counts how often it is asked."""

    jobs: dict[str, JobState] = field(default_factory=dict)
    asked: int = 0
    silent: bool = False
    name: str = "slurm"

    def survey(self, wanted: Sequence[Wanted]) -> Mapping[str, tuple[JobState, ...]]:
        self.asked += 1
        if self.silent:
            raise BackendError("squeue gave no answer in 60 s\n  slurm_load_jobs error")
        return {
            one.name: tuple(self.jobs.get(job, JobState(job, "unknown")) for job in one.jobs)
            for one in wanted
        }

    def submit(self, *_: Any, **__: Any) -> str:
        raise AssertionError

    def blocked(self, state: JobState) -> str:
        return ""

    def states(self, jobs: Sequence[str]) -> Mapping[str, JobState]:
        raise AssertionError

    def find(self, job_name: str) -> list[str]:
        raise AssertionError

    def cancel(self, jobs: Sequence[str], job_name: str) -> None:
        raise AssertionError

    def test(self, script: str, folder: Path, options: Sequence[str] = ()) -> str:
        raise AssertionError


def record(
    store: Store,
    number: int,
    *,
    name: str = "moe",
    jobs: Sequence[str] | None = None,
    steps: int | None = 8,
    **changes: Any,
) -> RunRecord:
    """Write the record of a submitted run with a bundle in its folder, and return it."""
    identity = f"{name}-20261130-{number:06d}-0a1b"
    bundle = store.folder(identity) / "bundle"
    made = RunRecord(
        identity,
        name,
        f"2026-11-30T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z",
        "slurm",
        "run.yaml",
        str(bundle),
        8,
        2,
        "gb200-nvl72",
        **{"state": "submitted", **changes},
    )
    for job in [str(number)] if jobs is None else jobs:
        made = made.submitted(job, made.created)
    store.create(made)
    bundle.mkdir(exist_ok=True)
    if steps is not None:
        (bundle / "config.yml").write_text(f"run_name: {name}\nsteps: {steps}\n")
    return made
