"""What the tests of launching share: one real Slurm with accounts, and a site to launch at.

python -m tests.support.launching launch run.yaml ...      as `moectl launch run.yaml ...`
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from moectl import __main__ as door
from moectl.cli import commands
from moectl.cli.command import Argument, quick_parse
from moectl.cli.launch_commands import launch_commands
from tests.support.components import require
from tests.support.slurm import Slurm, cluster

ROOT = Path(__file__).parent.parent.parent
# A canary: wherever it turns up, a secret's value was told.
SECRET = "hf_S3CRETcanary"  # noqa: S105
PARTITIONS = """\
EnforcePartLimits=ALL
PartitionName=held Nodes=ALL MaxTime=INFINITE State=DOWN
PartitionName=short Nodes=ALL MaxTime=00:05:00 State=UP"""
CLUSTER = """\
partition: {partition}
time: "00:10:00"
segment: false
memory: ""
cpus_per_task: 16
runtime: none
python: {python}
"""
RUN = """\
preset: gpt-oss-20b
hardware: gb200-nvl72
name: {name}
gpus: {gpus}
training: {{steps: 3}}
secrets: [HF_TOKEN]
"""
# Does what the file "behaviour" beside the records says, else trains three steps.
PYTHON = f"""#!/bin/bash -p
if [ "${{1-}}" = -m ]; then
  if [ -f {{folder}}/behaviour ]; then exec /bin/sh {{folder}}/behaviour; fi
  for step in 0 1 2; do
    echo "completed step: $step, seconds: 0.500, TFLOP/s/device: 100.000," \\
      "Tokens/s/device: 1000.000, total_weights: 1024, loss: 10.$step"
  done
  exit 0
fi
exec {sys.executable} "$@"
"""


def run_command(words: list[str]) -> int:
    """Run a command line as `moectl` does."""
    if commands.find(words) is not None:
        return door.main(words)
    target = Argument("target", "")
    rows = launch_commands(target, commands._JOB_OPTIONS, commands._FORMAT)
    row = next(row for row in rows if row.name == words[0])
    values = quick_parse(row, words[1:])
    assert values is not None, words
    return door.run(row, values)


@cache
def slurm() -> Slurm:
    """Return a Slurm with accounts that all tests share, 8 nodes of 4 GPUs, or skip the test."""
    require("slurm-accounting")
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(cluster(nodes=8, gpus=4, cpus=64, extra=PARTITIONS, accounting=True))


@dataclass(frozen=True)
class Site:
    """A person's folder at a site.

    Attributes:
        slurm: the scheduler.
        folder: the person's folder.
        earlier: names of jobs that were there before.
    """

    slurm: Slurm
    folder: Path
    earlier: frozenset[str] = frozenset()

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the person's shell."""
        return {
            **self.slurm.environment,
            "PATH": f"{self.folder / 'bin'}:{self.slurm.environment['PATH']}",
            "MOECTL_RUNS": str(self.runs),
            "HF_TOKEN": SECRET,
        }

    def run_file(self, name: str = "moe", gpus: int = 8, more: str = "") -> str:
        """Write a run file and return its path."""
        path = self.folder / f"{name}-{gpus}.yaml"
        path.write_text(RUN.format(name=name, gpus=gpus) + more)
        return str(path)

    def cluster_file(self, partition: str = "batch", more: str = "") -> str:
        """Write a cluster profile and return its path."""
        path = self.folder / f"cluster-{partition}.yaml"
        text = CLUSTER.format(partition=partition, python=self.folder / "python")
        path.write_text(text + more)
        return str(path)

    def words(self, name: str = "moe", partition: str = "held", *more: str) -> list[str]:
        """Return the words of a launch."""
        cluster_file = self.cluster_file(partition)
        return ["launch", self.run_file(name), "--cluster", cluster_file, *more]

    def behave(self, script: str) -> None:
        """Let the processes do something else from now on."""
        (self.folder / "behaviour").write_text(script)

    def program(self, name: str, script: str) -> None:
        """Put a program before the others of its name; `$REAL` is the one it hides."""
        real = subprocess.run(
            ["sh", "-c", f"command -v {name}"],
            env=self.slurm.environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash -p\nREAL={real}\n{script}\n")
        path.chmod(0o755)

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command line in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.support.launching", *words],
            cwd=ROOT,
            env={**self.environment, **more.pop("environment", {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def queue(self) -> dict[str, list[str]]:
        """Return this person's jobs in Slurm, by name; those it turned away left out."""
        said = self.slurm.run("squeue", "--noheader", "--states=all", "--format=%A|%T|%N|%j")
        jobs: dict[str, list[str]] = {}
        for line in said.stdout.splitlines():
            job, state, nodes, name = line.split("|", 3)
            if name not in self.earlier and (state != "FAILED" or nodes):
                jobs.setdefault(name, []).append(job)
        return jobs

    def records(self) -> dict[str, dict[str, Any]]:
        """Return the records on the disk as JSON, by folder."""
        found = self.runs.glob("*/record.json")
        return {path.parent.name: json.loads(path.read_text("utf-8")) for path in found}

    def state(self, job: str) -> str:
        """Return Slurm's own word for a job."""
        said = self.slurm.run(
            "squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T"
        )
        return said.stdout.strip()

    def until(self, job: str, *states: str, limit: float = 90) -> None:
        """Wait until a job is in one of the states."""
        deadline = time.monotonic() + limit
        while self.state(job) not in states:
            if time.monotonic() > deadline:
                raise TimeoutError(self.slurm.run("scontrol", "show", "job", job).stdout)
            time.sleep(0.1)


def eventually(true: Callable[[], bool], what: str, limit: float = 90) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + limit
    while not true():
        assert time.monotonic() < deadline, f"not within {limit} s: {what}"
        time.sleep(0.1)


def site_at(folder: Path) -> Site:
    """Return a new person's folder at the shared Slurm."""
    (folder / "bin").mkdir(parents=True)
    python = folder / "python"
    python.write_text(PYTHON.replace("{folder}", str(folder)))
    python.chmod(0o755)
    site = Site(slurm(), folder)
    return replace(site, earlier=frozenset(site.queue()))


@contextlib.contextmanager
def person(folder: Path, more: Mapping[str, str] | None = None) -> Any:
    """Be a person at the shared Slurm: environment and folder; their jobs end afterwards."""
    site = site_at(folder)
    patch = pytest.MonkeyPatch()
    for name in [*os.environ]:
        if name.startswith(("SLURM", "SBATCH", "MOECTL_RUNS", "XDG_STATE")):
            patch.delenv(name)
    for name, value in {**site.environment, **(more or {})}.items():
        patch.setenv(name, value)
    patch.chdir(folder)
    try:
        yield site
    finally:
        patch.undo()
        site.slurm.run("scancel", f"--user={os.geteuid()}")


def main(words: Sequence[str]) -> int:
    """Run a command line."""
    return run_command(list(words))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
