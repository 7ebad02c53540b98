"""Runs the pods of a manifest on this machine, with the files and variables that it says.

What Kubernetes does for a pod is done here: variables are expanded, the index and the names of
the JobSet are set, the output is kept. The pods meet on loopback.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from moectl.job import Job
from moectl.render.kubernetes import manifest
from moectl.render.kubernetes_plan import PLAN, START

JOBSET = "tiny"


def documents(job: Job, lock: str = "moectl: 1\n") -> dict[str, dict[str, Any]]:
    """Return the objects of a job's manifest by kind, as a YAML reader has them."""
    return {found["kind"]: found for found in yaml.safe_load_all(manifest(job, lock))}


def pod_spec(jobset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod of a JobSet."""
    (replicated,) = jobset["spec"]["replicatedJobs"]
    spec: dict[str, Any] = replicated["template"]["spec"]["template"]["spec"]
    return spec


def expanded(text: str, known: Mapping[str, str]) -> str:
    """Return a value as Kubernetes hands it over: `$(NAME)` expanded, `$$` one `$`."""

    def one(match: re.Match[str]) -> str:
        name = match["name"]
        return "$" if name is None else known.get(name, match[0])

    return re.sub(r"\$\$|\$\((?P<name>[A-Za-z0-9_.-]+)\)", one, text)


def environment(jobset: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of the container whose values the manifest says."""
    values: dict[str, str] = {}
    for row in pod_spec(jobset)["containers"][0]["env"]:
        if "value" in row:
            values[row["name"]] = expanded(row["value"], values)
    return values


def free_port() -> int:
    """Return a port on which nobody listens now."""
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


@dataclass
class Pods:
    """The pods of a job on this machine.

    Attributes:
        folder: an empty folder for their files.
        python: the interpreter of the container.
        job: the job.
        changes: entries of pod.json that are otherwise here.
        more: further variables of every container.
    """

    folder: Path
    python: str
    job: Job
    changes: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        found = documents(self.job)
        self.jobset = found["JobSet"]
        files = self.folder / "files"
        files.mkdir()
        for name, text in found["ConfigMap"]["data"].items():
            (files / name).write_text(text, "utf-8")
        plan = json.loads((files / PLAN).read_text("utf-8"))
        ports = {"join_port": free_port(), "coordinator_port": free_port()}
        plan |= {"victim_seconds": 0, "join_seconds": 120, **ports, **self.changes}
        (files / PLAN).write_text(json.dumps(plan), "utf-8")
        self.plan = plan

    def work(self, index: int) -> Path:
        """Return the working folder of a pod."""
        return self.folder / f"pod-{index}"

    def log(self, index: int, rank: int) -> Path:
        """Return the log of a rank."""
        return self.work(index) / "logs" / JOBSET / f"rank-{rank}.log"

    def output(self, index: int) -> str:
        """Return what a pod printed."""
        return (self.folder / f"pod-{index}.out").read_text("utf-8", "replace")

    def start(self, index: int, **more: str) -> subprocess.Popen[bytes]:
        """Start a pod."""
        values = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "KUBERNETES_SERVICE_HOST": "10.0.0.1",
            **environment(self.jobset),
            "JOB_COMPLETION_INDEX": str(index),
            "MOECTL_JOBSET": JOBSET,
            "MOECTL_RESTART": "0",
            "MOECTL_NODE": f"node-{index}",
            "MOECTL_HOST": "localhost",
            "MOECTL_WORK": str(self.work(index)),
            **self.more,
            **more,
        }
        with (self.folder / f"pod-{index}.out").open("wb") as stream:
            process = subprocess.Popen(
                [self.python, str(self.folder / "files" / START)],
                env=values,
                stdout=stream,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def run(self, limit: float = 300) -> list[int]:
        """Start all pods and return their exit codes."""
        for index in range(self.plan["nodes"]):
            self.start(index)
        return self.wait(limit)

    def wait(self, limit: float = 300) -> list[int]:
        """Wait for the pods that were started; return their exit codes."""
        deadline = time.monotonic() + limit
        return [process.wait(max(1.0, deadline - time.monotonic())) for process in self.started]

    def end(self) -> None:
        """End what still runs, children included."""
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def pods(folder: Path, python: str, job: Job, **more: Any) -> Iterator[Pods]:
    """Make the pods of a job, and end them."""
    found = Pods(folder, python, job, **more)
    try:
        yield found
    finally:
        found.end()


def outputs(found: Pods) -> str:
    """Return what all pods printed, for the message of a test."""
    return "\n".join(
        f"--- pod {index}\n{found.output(index)[-3000:]}" for index in range(found.plan["nodes"])
    )


def ranks(text: str) -> Sequence[int]:
    """Return the ranks whose steps stand in a pod's output."""
    return sorted({int(rank) for rank in re.findall(r"^(\d+): .*completed step", text, re.M)})
