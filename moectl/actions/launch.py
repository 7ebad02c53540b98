"""Launches a job: planned, judged, written down, submitted."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moectl.actions import kubernetes as on_kubernetes
from moectl.actions.plan import Wishes, find
from moectl.actions.render import Rendered, render, write
from moectl.errors import BackendError, LocalFilesError, UsageError
from moectl.job import Job
from moectl.launch import kubernetes, local, slurm
from moectl.launch.allocation import Allocation, allocation
from moectl.launch.chain import begun, group
from moectl.launch.record import RunRecord
from moectl.launch.settle import moment, settle
from moectl.launch.store import Store, run_id
from moectl.render import limits
from moectl.settings.bundle_names import LOCAL_PLAN, STARTED
from moectl.settings.files import preset_names

if TYPE_CHECKING:
    from moectl.launch.backend import Backend

_BACKENDS: Mapping[str, tuple[Callable[[], Backend], Callable[[], bool]]] = {
    "slurm": (slurm.Slurm, slurm.available),
    "local": (local.Local, local.available),
    "kubernetes": (kubernetes.Kubernetes, kubernetes.available),
}
# Settings of a run file that speak of a cluster, so that this machine is not meant.
_NAMES_A_SITE = ("launcher", "cluster.")
# What may be asked for beside a bundle that is launched as it stands.
_PLACE = frozenset({"cluster.kubernetes.context", "cluster.kubernetes.namespace"})
_BESIDE_A_BUNDLE = frozenset({"launcher", *_PLACE})
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
        links: how many jobs it is made of.
    """

    target: str
    rendered: Rendered
    bundle: Path | None
    script: str
    notes: tuple[str, ...] = ()
    links: int = 1

    @property
    def job(self) -> Job:
        """Return the job."""
        return self.rendered.job

    @property
    def gpu_hours(self) -> float | None:
        """Return GPUs times the time limit, in hours; None without a limit, as on this machine."""
        limit = None if self.job.launcher == "local" else limits.seconds(self.job.cluster.time)
        return None if limit is None else limit / 3600 * self.job.gpus * self.links

    @property
    def missing_secrets(self) -> list[str]:
        """Return the secrets that the job declares and this shell does not have."""
        if self.job.launcher == "kubernetes":  # pods take them from a Secret
            return []
        return [name for name in self.job.secrets if not os.environ.get(name)]


def plan_launch(target: str, wishes: Wishes) -> Planned:
    """Return the launch of a preset, run file or bundle; nothing is written.

    Raises:
        FindingsError: error findings remain that nobody allowed.
        MoectlError: what was typed cannot be meant.
    """
    if target in preset_names() or not Path(target).is_dir():
        rendered = render(target, _with_launcher(target, wishes))
        return Planned(target, rendered, None, _shown(rendered.job.launcher, rendered.files))
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
    placed = {path: said for path, said in wishes.options.items() if path not in _PLACE}
    if placed != wishes.options:  # where it runs changes nothing of the bundle
        plain = render(target, replace(wishes, options=placed))
        rendered = replace(rendered, files=plain.files)
    folder = Path(target).absolute()
    held = {name: _held(folder / name) for name in rendered.files}
    needed = STARTED[rendered.job.launcher]
    if held[needed] is None:
        raise LocalFilesError(
            f"{folder / needed} is missing, so {target} is no whole bundle of the launcher "
            f"{rendered.job.launcher}"
        )
    script = _shown(rendered.job.launcher, {name: text or "" for name, text in held.items()})
    differ = sorted(name for name, text in rendered.files.items() if held[name] != text)
    note = (
        f"launched as it stands: {', '.join(differ)} differ{'s' if len(differ) == 1 else ''} from "
        "what its lock file renders now"
    )
    return Planned(target, rendered, folder, script, (note,) if differ else ())


def _shown(launcher: str, files: Mapping[str, str]) -> str:
    """Return what a launch starts, for people: the script, or what the program is told."""
    return files[LOCAL_PLAN if launcher == "local" else STARTED[launcher]]


def _with_launcher(target: str, wishes: Wishes) -> Wishes:
    """Return the wishes with a launcher where nobody names one: this machine, without a Slurm.

    A cluster profile that names none is one of a Slurm, which may be reached from elsewhere.
    """
    if "launcher" in wishes.options or wishes.cluster or wishes.usual_cluster:
        return wishes
    if slurm.available() or any(text.startswith("launcher=") for text in wishes.sets):
        return wishes
    said = getattr(find(target), "settings", ())
    if not callable(said) and any(s.path.startswith(_NAMES_A_SITE) for s in said):
        return wishes
    why = "the launcher where there is no sbatch"
    return replace(wishes, options={**wishes.options, "launcher": ("local", why)})


def prepare(planned: Planned, say: Callable[[str], None]) -> None:
    """Make ready what a launch on this machine needs, before anything is written down.

    Args:
        planned: the launch.
        say: called with a sentence before work that takes seconds.

    Raises:
        BackendError: too few GPUs, no interpreter, or no network to fetch one's packages.
        LocalFilesError: no room for them.
        UsageError: the model does not fit this machine's memory.
    """
    job = planned.job
    if job.launcher != "local":
        return
    plan = local.plan_of(planned.bundle) if planned.bundle else json.loads(planned.script)
    if job.on_cpu:
        _require_memory(job)
    local.interpreter(plan, say)


def _require_memory(job: Job) -> None:
    """Refuse to start a model whose weights alone are larger than this machine's memory.

    Raises:
        UsageError: with both sizes.
    """
    from moectl.estimate.memory import arguments  # noqa: PLC0415

    mesh = {axis: degree.total for axis, degree in job.mesh.degrees.items()}
    share = arguments(job.effective, mesh, job.container.image.maxtext)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if share is not None and share * job.gpus > free:
        raise UsageError(
            f"weights and optimizer of this run take {share * job.gpus / 1e9:,.0f} GB, and this "
            f"machine has {free / 1e9:,.0f} GB of free memory; `moectl rehearse` runs it made small"
        )


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
    if name == "kubernetes":
        return on_kubernetes.backend(job)
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
    return job.launcher


def limit(job: Job) -> float | None:
    """Return the GPU-hours above which the site wants a question, None without one."""
    return job.cluster.gpu_hours_limit


def bundles(job: Job) -> Path | None:
    """Return the folder of the site that bundles are put into, None without one."""
    if job.launcher == "kubernetes":  # the folder is the pods', on a volume of theirs
        return None
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
        f"{f'{planned.links} x ' if planned.links > 1 else ''}{planned.job.cluster.time})"
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
    record = RunRecord(
        id=run_id(job.name, now),
        name=job.name,
        created=now,
        launcher=_launcher(job),
        target=planned.target if planned.bundle is None else str(planned.bundle),
        bundle=str(planned.bundle or ""),
        gpus=job.gpus,
        nodes=job.nodes,
        hardware=job.hardware.name,
        options={"steps": _steps(job), "maxtext": job.container.image.maxtext, **_place(job)},
    )
    return begun(record, planned.links)


def _place(job: Job) -> dict[str, Any]:
    """Return what the record says of where the job is made, where there is a choice."""
    return on_kubernetes.options(job) if job.launcher == "kubernetes" else {}


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
    if record.launcher != backend.name:
        raise UsageError(
            f"{record.id} runs by the launcher {record.launcher}, so nothing can wait for it by "
            f"{backend.name}"
        )
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
    """Return where a run that was launched writes first: its batch script, and its rank 0."""
    bundle = Path(record.bundle)
    job = group(record)[0].job if group(record) else "JOB"
    said = _OUTPUT.search(script)
    if record.launcher == "kubernetes":
        return {"rank 0": str(bundle / "logs" / job / "rank-0.log")}
    if record.launcher == "local":
        log = local.plan_of(bundle).get("log", record.name)
        return {
            "job": str(bundle / f"{log}-{job}.log"),
            "rank 0": str(bundle / "logs" / job / "rank-0.log"),
        }
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
