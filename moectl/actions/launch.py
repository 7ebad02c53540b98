"""Launches a job: planned, judged, written down, submitted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moectl.actions.plan import Wishes
from moectl.actions.render import Rendered, render, write
from moectl.errors import BackendError, LocalFilesError, UsageError
from moectl.job import Job
from moectl.launch import slurm
from moectl.launch.allocation import Allocation, allocation
from moectl.launch.record import RunRecord
from moectl.launch.settle import moment, settle
from moectl.launch.store import Store, run_id
from moectl.settings.bundle_names import LAUNCH
from moectl.settings.files import preset_names

if TYPE_CHECKING:
    from moectl.launch.backend import Backend

_BACKENDS: Mapping[str, tuple[Callable[[], Backend], Callable[[], bool]]] = {
    "slurm": (slurm.Slurm, slurm.available),
}
# What may be asked for beside a bundle that is launched as it stands.
_BESIDE_A_BUNDLE = frozenset({"launcher"})
_TIME = re.compile(r"(?:(\d+)-(\d+)(?::(\d+))?(?::(\d+))?|(\d+)(?::(\d+))?(?::(\d+))?)")
_OUTPUT = re.compile(r"^#SBATCH --output=(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Planned:
    """A launch that nothing speaks against.

    Attributes:
        target: what was launched.
        rendered: the job and its bundle as it would be written now.
        bundle: the bundle that is launched in place; None when one is written.
        script: the script that runs.
        notes: what a person should know.
    """

    target: str
    rendered: Rendered
    bundle: Path | None
    script: str
    notes: tuple[str, ...] = ()

    @property
    def job(self) -> Job:
        """Return the job."""
        return self.rendered.job

    @property
    def gpu_hours(self) -> float | None:
        """Return GPUs times the time limit, in hours; None without a limit."""
        limit = hours(self.job.cluster.time)
        return None if limit is None else limit * self.job.gpus

    @property
    def missing_secrets(self) -> list[str]:
        """Return the secrets that the job declares and this shell does not have."""
        return [name for name in self.job.secrets if not os.environ.get(name)]


def plan_launch(target: str, wishes: Wishes) -> Planned:
    """Return the launch of a preset, run file or bundle; nothing is written.

    Raises:
        FindingsError: error findings remain that nobody allowed.
        MoectlError: what was typed cannot be meant.
    """
    if target in preset_names() or not Path(target).is_dir():
        rendered = render(target, wishes)
        return Planned(target, rendered, None, rendered.files[LAUNCH])
    changed = sorted(
        said for path, (_, said) in wishes.options.items() if path not in _BESIDE_A_BUNDLE
    )
    changed += ["--set"] if wishes.sets else []
    changed += ["--cluster"] if wishes.cluster else []
    if changed:
        raise UsageError(
            f"{target} is a bundle and is launched as it stands, so {', '.join(changed)} cannot "
            "change it; render it anew, or launch what it was rendered from"
        )
    rendered = render(target, wishes)
    folder = Path(target).absolute()
    held = {name: _held(folder / name) for name in rendered.files}
    script = held[LAUNCH]
    if script is None:
        raise LocalFilesError(f"{folder / LAUNCH} is missing, so {target} is no whole bundle")
    differ = sorted(name for name, text in rendered.files.items() if held[name] != text)
    note = (
        f"launched as it stands: {', '.join(differ)} differ{'s' if len(differ) == 1 else ''} from "
        "what its lock file renders now"
    )
    return Planned(target, rendered, folder, script, (note,) if differ else ())


def backend_of(job: Job) -> Backend:
    """Return what runs a job.

    Raises:
        BackendError: it is not on this machine.
    """
    name = _launcher(job)
    if name not in _BACKENDS:
        raise BackendError(
            f"the cluster profile's launcher is {name}, which cannot be launched with yet: "
            f"leave it out where there is a Slurm ({', '.join(_BACKENDS)})"
        )
    if not has_backend(job):
        raise BackendError(
            "sbatch is not on this machine, so nothing can be submitted from here: launch on a "
            "login node of the cluster; --dry-run shows the plan anywhere"
        )
    return _BACKENDS[name][0]()


def has_backend(job: Job) -> bool:
    """Return whether what runs a job is on this machine."""
    name = _launcher(job)
    return name in _BACKENDS and _BACKENDS[name][1]()


def _launcher(job: Job) -> str:
    return job.cluster.launcher or job.launcher


def limit(job: Job) -> float | None:
    """Return the GPU-hours above which the site wants a question, None without one."""
    return job.cluster.gpu_hours_limit


def bundles(job: Job) -> Path | None:
    """Return the folder of the site that bundles are put into, None without one."""
    return Path(job.cluster.runs_folder) if job.cluster.runs_folder else None


def require_secrets(planned: Planned) -> None:
    """Refuse a launch from a shell that lacks a secret of the job.

    Raises:
        UsageError: with their names.
    """
    if missing := planned.missing_secrets:
        raise UsageError(
            f"the job declares {', '.join(missing)} as a secret, and this shell does not have "
            f"{'it' if len(missing) == 1 else 'them'}: export it here, and launch again"
        )


def require_agreement(
    planned: Planned, limit: float | None, agree: Callable[[str], bool] | None
) -> None:
    """Ask once when a run may take more GPU-hours than the site wants without a question.

    Args:
        planned: the launch.
        limit: GPU-hours; None asks nothing.
        agree: asks a person; None when nobody is there to be asked.

    Raises:
        UsageError: nobody agreed.
    """
    if limit is None or (planned.gpu_hours is not None and planned.gpu_hours <= limit):
        return
    taken = (
        f"{planned.job.gpus} GPUs without a time limit"
        if planned.gpu_hours is None
        else f"{planned.gpu_hours:,.0f} GPU-hours ({planned.job.gpus} GPUs for "
        f"{planned.job.cluster.time})"
    )
    question = f"{taken} is more than the {limit:,.0f} GPU-hours of the cluster profile"
    if agree is None:
        raise UsageError(f"{question}; --yes launches it all the same")
    if not agree(question):
        raise UsageError("nothing was launched")


def intent(planned: Planned) -> RunRecord:
    """Return the record of a launch that is about to be."""
    job = planned.job
    now = moment()
    return RunRecord(
        id=run_id(job.name, now),
        name=job.name,
        created=now,
        launcher=_launcher(job),
        target=planned.target if planned.bundle is None else str(planned.bundle),
        bundle=str(planned.bundle or ""),
        gpus=job.gpus,
        nodes=job.nodes,
        hardware=job.hardware.name,
        options={"steps": _steps(job), "maxtext": job.container.image.maxtext},
    )


def writer(planned: Planned) -> Callable[[Path], None]:
    """Return what writes the bundle of a launch into a folder."""
    return lambda folder: write(planned.rendered, folder)


def after(store: Store, backend: Backend, said: str) -> tuple[list[str], str]:
    """Return sbatch's options for a run that follows another one, and a note.

    Raises:
        UsageError: that run has no job.
        BackendError: the scheduler cannot be asked.
    """
    record = store.find(said)
    survey = settle(store, backend, [record])
    if survey.unreachable:
        raise BackendError(survey.unreachable)
    states = survey.states(survey.records[0])
    if not states:
        raise UsageError(f"{record.id} was never submitted, so nothing can follow it")
    if not any(state.live for state in states):
        return [], f"{record.id} has ended already, so there is nothing to wait for"
    job = states[-1].job
    return [f"--dependency=afterany:{job}"], f"starts when job {job} of {record.id} has ended"


def inside() -> Allocation | None:
    """Return the allocation that this process stands in."""
    return allocation(os.environ)


def hours(said: str) -> float | None:
    """Return a time limit as Slurm writes it in hours; None for one that is no limit.

    Minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes or
    days-hours:minutes:seconds (sbatch --time).
    """
    match = _TIME.fullmatch(said)
    if not match:
        return None
    days, *of_days, first, second, third = (int(text or 0) for text in match.groups())
    if match[1] is not None:
        parts = (days, *of_days)
    elif match[7] is not None:
        parts = (0, first, second, third)
    else:
        parts = (0, 0, first, second)
    total = parts[0] * 24 + parts[1] + parts[2] / 60 + parts[3] / 3600
    return total or None


def placement(job: Job) -> str:
    """Return where the processes come to lie, in one line."""
    text = f"{job.nodes} node{'s' if job.nodes > 1 else ''} of {job.hardware.title}"
    if job.mesh.slices == 1:
        return f"{text}; one slice"
    size = job.nodes_per_slice
    return (
        f"{text}; {job.mesh.slices} slices of {size} node{'s' if size > 1 else ''} "
        f"({job.mesh.gpus_per_slice} GPUs) each"
    )


def test(backend: Backend, planned: Planned, options: list[str]) -> str:
    """Return what the scheduler would do with a launch, in its own words.

    Raises:
        BackendError: it would refuse.
    """
    return backend.test(planned.script, planned.bundle or Path.cwd(), options)


def logs(record: RunRecord, script: str) -> dict[str, str]:
    """Return where a run's last job writes: the batch script's own output, and rank 0."""
    bundle = Path(record.bundle)
    job = record.job_ids[-1] if record.job_ids else "JOB"
    said = _OUTPUT.search(script)
    name = said[1].replace("%j", job) if said else f"slurm-{job}.out"
    return {"job": str(bundle / name), "rank 0": str(bundle / "logs" / job / "rank-0.log")}


def _steps(job: Job) -> Any:
    steps = job.effective.get("steps")
    return steps if isinstance(steps, int) and not isinstance(steps, bool) else None


def _held(path: Path) -> str | None:
    """Return a file of a bundle as text, None when it is not there.

    Raises:
        LocalFilesError: it cannot be read.
    """
    try:
        return path.read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalFilesError(f"{path}: {error.strerror or error}") from None
