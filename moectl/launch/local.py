"""This machine as a backend: real MaxText on its GPUs, or on virtual devices of its CPU."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from moectl import environments
from moectl.errors import BackendError, LocalFilesError
from moectl.facts.yaml_facts import read
from moectl.launch.backend import JobState, UnansweredError, Wanted
from moectl.launch.local_jobs import JOB, JOBS, LocalJob, of_run
from moectl.launch.store import default_root
from moectl.settings.bundle_names import LOCAL_PLAN

# How long launch.py may take to write down who it is.
SECONDS = 60.0
_DEPENDENCY = re.compile(r"--dependency=after(?:any|ok):(\d{1,18})", re.ASCII)
_GPU = re.compile(r"nvidia\d+", re.ASCII)


class Local:
    """This machine.

    Args:
        root: the folder of run records; jobs are written down in the folders of their runs.
    """

    name = "local"

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()

    def submit(
        self, script: Path, job_name: str, options: Sequence[str] = (), lock: int | None = None
    ) -> str:
        """Start a bundle in a session of its own and return the job's id.

        Raises:
            BackendError: no interpreter with MaxText, or the program did not start.
            UnansweredError: it did not say in time who it is.
        """
        plan = plan_of(script.parent)
        python = interpreter(plan)
        jobs = self.root / job_name / JOBS
        words = [sys.executable, "-I", str(script), f"--python={python}", f"--jobs={jobs}"]
        words += [f"--name={job_name}", *self._after(options)]
        if lock is not None:
            words.append(f"--lock={lock}")
        try:
            started = subprocess.Popen(
                words,
                cwd=script.parent,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=() if lock is None else (lock,),
            )
        except OSError as error:
            raise BackendError(f"{script} cannot be started: {error.strerror or error}") from None
        return _answer(started, script)

    def survey(self, wanted: Sequence[Wanted]) -> dict[str, tuple[JobState, ...]]:
        """Return what the jobs of runs do, by the files that they write."""
        answer = {}
        for one in wanted:
            held = {job.job: job.state() for job in of_run(self.root / one.name)}
            for job in one.jobs:
                held.setdefault(job, JobState(job, "unknown", name=one.name))
            answer[one.name] = tuple(sorted(held.values(), key=lambda state: int(state.job)))
        return answer

    def states(self, jobs: Sequence[str]) -> dict[str, JobState]:
        """Return what the jobs do."""
        return {
            job: found.state() if (found := self._found(job)) else JobState(job, "unknown")
            for job in jobs
        }

    def find(self, job_name: str) -> list[str]:
        """Return the ids of the jobs of a name, oldest first."""
        return [job.job for job in of_run(self.root / job_name)]

    def cancel(self, jobs: Sequence[str], job_name: str) -> None:
        """End the jobs of a name; those that ended already are no fault.

        Raises:
            BackendError: one runs on another machine.
        """
        for job in of_run(self.root / job_name):
            if job.job in jobs:
                if job.elsewhere:
                    raise BackendError(f"job {job.job} runs on {job.host}; cancel it there")
                job.cancel()

    def blocked(self, job: JobState) -> str:  # noqa: ARG002 - of all backends
        """Return nothing: a job here waits for another one only."""
        return ""

    def test(self, script: str, folder: Path, options: Sequence[str] = ()) -> str:
        """Return what there is to start it on."""
        del script, folder, options
        known = gpus()
        devices = f"{known} GPU{'s' if known > 1 else ''}" if known else "no GPU"
        return f"this machine has {devices} and {os.cpu_count() or 1} CPU cores"

    def _found(self, job: str) -> LocalJob | None:
        paths = sorted(self.root.glob(f"*/{JOBS}/{job}.json")) if job.isdecimal() else []
        runs = (path.parent.parent for path in paths)
        return next((held for run in runs for held in of_run(run) if held.job == job), None)

    def _after(self, options: Sequence[str]) -> list[str]:
        """Return the option of launch.py for one that sbatch would take.

        Raises:
            BackendError: it is another one.
        """
        words = []
        for option in options:
            match = _DEPENDENCY.fullmatch(option)
            if match is None:
                raise BackendError(f"the local launcher has no option {option}")
            if (job := self._found(match[1])) is not None:
                words.append(f"--after={job.path}")
        return words


def gpus() -> int:
    """Return how many NVIDIA GPUs this machine has."""
    try:
        return sum(1 for entry in os.scandir("/dev") if _GPU.fullmatch(entry.name))
    except OSError:
        return 0


def available() -> bool:
    """Whether this machine can run a bundle: always, if only on its CPU."""
    return True


def plan_of(bundle: Path) -> dict[str, Any]:
    """Return the plan of a bundle.

    Raises:
        LocalFilesError: it cannot be read.
    """
    path = bundle / LOCAL_PLAN
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LocalFilesError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise LocalFilesError(f"{path} is no JSON; render the bundle anew") from None
    if not isinstance(found, dict):
        raise LocalFilesError(f"{path} is no plan; render the bundle anew")
    return found


def interpreter(plan: dict[str, Any], say: Callable[[str], None] | None = None) -> Path:
    """Return the interpreter that a plan is run with, its environment built if need be.

    Args:
        plan: a bundle's plan.
        say: called with a sentence before work that takes seconds.

    Raises:
        BackendError: there is none, or too few GPUs.
        LocalFilesError: no room for the environment.
    """
    if plan["devices"] == "gpu" and (known := gpus()) < plan["processes"]:
        raise BackendError(
            f"the run takes {plan['processes']} GPUs and this machine has {known}: ask for fewer "
            "with --gpus, or for CPU devices with --set cluster.devices=cpu"
        )
    if plan["python"]:
        found = shutil.which(plan["python"])
        if found is None:
            raise BackendError(f"cluster.python is {plan['python']}, which is no program here")
        return Path(found)
    name = _environment(plan)
    if name not in environments.recipes():
        known_names = ", ".join(sorted(environments.recipes()))
        raise BackendError(
            f"no environment has {plan['environment_name']} for {plan['devices']} devices (there "
            f"are {known_names}): name an interpreter that has it with cluster.runtime=none and "
            "cluster.python"
        )
    if not environments.built(name):
        require_room(environments.home())
    return environments.managed(name, say=say).python


def _environment(plan: dict[str, Any]) -> str:
    """Return the environment of a plan: for GPUs one with a CUDA plugin."""
    name = str(plan["environment_name"])
    if plan["devices"] == "cpu":
        return name
    fitting = [known for known in environments.recipes() if known.startswith(f"{name}-cuda")]
    return max(fitting, default=f"{name}-cuda")


def require_room(folder: Path) -> None:
    """Refuse to build an environment where it would not fit.

    Raises:
        LocalFilesError: there is less room than one takes.
    """
    needed = read("local.yaml")["environment_gb"]
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        free = shutil.disk_usage(place).free / 1e9
    except OSError as error:
        raise LocalFilesError(f"{place}: {error.strerror or error}") from None
    if free < needed:
        raise LocalFilesError(
            f"an environment takes up to {needed} GB and {place} has {free:.1f} GB free: make "
            "room, or set MOECTL_HOME to a folder on another disk"
        )


def _answer(started: subprocess.Popen[bytes], script: Path) -> str:
    """Return the job's id that launch.py says when it has written down who it is.

    Raises:
        UnansweredError: it says nothing.
        BackendError: it did not start.
    """
    assert started.stdout is not None  # noqa: S101 - opened above
    assert started.stderr is not None  # noqa: S101 - opened above
    with started.stdout, started.stderr:
        ready, _, _ = select.select([started.stdout], [], [], SECONDS)
        if not ready:
            raise UnansweredError(f"{script.name} did not say within {SECONDS:.0f} s who it is")
        job = started.stdout.readline().decode("utf-8", "replace").strip()
        if JOB.fullmatch(job):
            started.wait()  # it left the job to a process that is nobody's child
            return job
        said = started.stderr.read(8192).decode("utf-8", "replace").strip()
    started.wait()
    raise BackendError(f"{script.name} did not start\n  {said[-500:]}")
