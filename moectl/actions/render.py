"""Renders a job into a bundle, and writes it whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl.actions.plan import Wishes, plan
from moectl.errors import FindingsError
from moectl.files import write_folder
from moectl.job import Job
from moectl.render.bundle import bundle
from moectl.render.config import arguments, plain
from moectl.render.variables import environment
from moectl.settings.bundle_names import LEFT_BY_A_RUN
from moectl.settings.files import LOCK_NAME

# What does not fit the memory can still be looked at, or taken to other hardware by hand; it
# is told, and a launch stops for it.
LET_PASS = frozenset({"MEM111"})


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered job.

    Attributes:
        job: what was resolved.
        files: name to content of each file of the bundle.
    """

    job: Job
    files: dict[str, str]

    def summary(self) -> dict[str, Any]:
        """Return the JSON form of the job: what the processes get, and what was found."""
        job = self.job
        return {
            "name": job.name,
            "title": job.title,
            "form": job.form,
            "preset": job.preset,
            "launcher": job.launcher,
            "gpus": job.gpus,
            "nodes": job.nodes,
            "processes_per_node": job.processes_per_node,
            "hardware": job.hardware.name,
            "mesh": {
                axis: {"ici": degree.ici, "dcn": degree.dcn}
                for axis, degree in job.mesh.degrees.items()
            },
            "slices": job.mesh.slices,
            "nodes_per_slice": job.nodes_per_slice,
            "global_batch_size": job.batch.global_batch,
            "maxtext": {"config": plain(job.config), "arguments": arguments(job)},
            "xla_flags": plain(job.xla_flags),
            "environment": environment(job),
            "secrets": list(job.secrets),
            "image": {
                "reference": job.container.image.reference,
                "digest": job.container.image.digest,
                "maxtext": job.container.image.maxtext,
                "jaxlib": job.container.image.jaxlib,
                "releases_probed": job.container.image.probed,
            },
            "files": list(self.files),
            "findings": [finding.as_dict() for finding in job.findings],
            "notes": list(job.notes),
        }


def render(target: str, wishes: Wishes | None = None) -> Rendered:
    """Render a preset, run file or bundle.

    Raises:
        FindingsError: error findings remain that nobody allowed; the job is attached.
        MoectlError: what was typed cannot be meant.
    """
    job = plan(target, wishes or Wishes())
    if any(finding.stops and finding.code not in LET_PASS for finding in job.findings):
        raise FindingsError(job.findings)
    return Rendered(job, bundle(job))


def write(rendered: Rendered, folder: Path, *, force: bool = False) -> None:
    """Write the bundle into a folder.

    Raises:
        LocalFilesError: the folder holds other files, or the file system refuses.
    """
    files = {name: text.encode() for name, text in rendered.files.items()}
    write_folder(folder, files, seal=LOCK_NAME, force=force, own=LEFT_BY_A_RUN)


def default_folder(job: Job) -> Path:
    """Return the folder a bundle goes to when nothing is said: run name and GPU count."""
    return Path(f"{job.name}-{job.gpus}gpus")


def plan_job(
    target: str,
    *,
    gpus: int | None = None,
    hardware: str | None = None,
    form: str | None = None,
    sets: Sequence[str] = (),
) -> Job:
    """Return the job of a target with its findings; nothing is rendered."""
    wished = {
        "gpus": (gpus, "--gpus"),
        "hardware": (hardware, "--hardware"),
        "form": (form, "--form"),
    }
    options = {path: said for path, said in wished.items() if said[0] is not None}
    return plan(target, Wishes(options=options, sets=sets))
