"""An allocation that this shell stands in already (salloc): a run is started in it, not queued."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moectl.errors import BackendError, LocalFilesError
from moectl.settings.bundle_names import LAUNCH

# Step ids of shells that hold no resources of their own: slurm.h, SLURM_INTERACTIVE_STEP and
# SLURM_BATCH_SCRIPT of Slurm 20.11 and newer.
_IDLE_STEPS = frozenset({"", "4294967290", "4294967291"})
_COUNT = re.compile(r"(\d+)\(x\d+\)|(\d+)")


@dataclass(frozen=True, slots=True)
class Allocation:
    """An allocation.

    Attributes:
        job: its id.
        nodes: its nodes.
        step: whether this shell is itself a step of it, which holds its resources.
        cpus: CPUs of its first node; 0 if Slurm does not say.
    """

    job: str
    nodes: int
    step: bool = False
    cpus: int = 0

    def unfit(self, nodes: int) -> str:
        """Return why a run of so many nodes cannot be started in it, or an empty text."""
        if self.step:
            return (
                f"this shell is a step of job {self.job} and holds its resources: start from the "
                "shell of salloc, or from outside the allocation"
            )
        if self.nodes != nodes:
            return (
                f"this shell stands in job {self.job} with {self.nodes or 'no known'} "
                f"node{'' if self.nodes == 1 else 's'}, but the run takes {nodes}: ask for as "
                "many, change --gpus, or leave the allocation"
            )
        return ""


def allocation(environment: Mapping[str, str]) -> Allocation | None:
    """Return the allocation that an environment speaks of."""
    job = environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID") or ""
    if not re.fullmatch("[0-9]{1,19}", job):
        return None
    said = environment.get("SLURM_JOB_NUM_NODES") or environment.get("SLURM_NNODES") or ""
    cpus = _COUNT.match(environment.get("SLURM_JOB_CPUS_PER_NODE", ""))
    return Allocation(
        job,
        int(said) if re.fullmatch("[0-9]{1,9}", said) else 0,
        environment.get("SLURM_STEP_ID", "") not in _IDLE_STEPS,
        int(cpus[1] or cpus[2]) if cpus else 0,
    )


def run_inside(
    where: Allocation, bundle: Path, lock: int | None = None, output: int | None = None
) -> int:
    """Start a bundle's script in an allocation, wait for its end and return its exit code.

    What a person types to interrupt reaches the script as well, which ends in its own way.

    Args:
        where: the allocation.
        bundle: the folder of the script.
        lock: a file descriptor that the script keeps open.
        output: the file descriptor that its standard output goes to, if not to this process's.

    Raises:
        BackendError: the script cannot be started.
        LocalFilesError: the bundle cannot be looked at.
    """
    environment = {**os.environ, "SLURM_JOB_ID": where.job}
    # The script tells the CPUs of a process from this one, which a login node's shell lacks.
    if where.cpus:
        environment.setdefault("SLURM_CPUS_ON_NODE", str(where.cpus))
    environment.pop("SLURM_RESTART_COUNT", None)
    if earlier := _earlier(bundle, where.job):
        environment["SLURM_RESTART_COUNT"] = str(earlier)  # as after a requeue: logs of its own
    words: Sequence[str] = ["/bin/bash", "-p", str(bundle / LAUNCH)]
    try:
        started = subprocess.Popen(
            words,
            cwd=bundle,
            env=environment,
            stdout=output,
            pass_fds=() if lock is None else (lock,),
        )
    except OSError as error:
        raise BackendError(f"{words[-1]} cannot be started: {error.strerror}") from None
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = started.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _earlier(bundle: Path, job: str) -> int:
    """Return how often a bundle was started in an allocation before."""
    logs = bundle / "logs"
    try:
        held = {entry.name for entry in logs.iterdir()} if logs.is_dir() else set()
    except OSError as error:
        raise LocalFilesError(f"{logs}: {error.strerror or error}") from None
    if job not in held:
        return 0
    count = 1
    while f"{job}.{count}" in held:
        count += 1
    return count
