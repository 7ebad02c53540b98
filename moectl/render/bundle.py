"""All files of a bundle, by name."""

from __future__ import annotations

from moectl.job import Job
from moectl.render.config import config_yml
from moectl.render.lock import lock_yaml
from moectl.render.programs import beside, programs
from moectl.render.slurm import launch_script
from moectl.render.templates import digest
from moectl.settings.bundle_names import CONFIG, LAUNCH, LOCK, MANIFEST


def _slurm(job: Job) -> dict[str, str]:
    return {LAUNCH: launch_script(job), **programs(job)}


def _local(job: Job) -> dict[str, str]:
    from moectl.render.local import local_files  # noqa: PLC0415 - this launcher's alone

    return {**local_files(job), **beside()}


def _kubernetes(job: Job) -> dict[str, str]:
    from moectl.render.kubernetes import manifest  # noqa: PLC0415 - this launcher's alone

    return {MANIFEST: manifest(job, lock_yaml(job, digest()))}


# What a launcher starts, and what runs beside it.
_LAUNCHERS = {"slurm": _slurm, "local": _local, "kubernetes": _kubernetes}


def bundle(job: Job) -> dict[str, str]:
    """Return name to content of every file; the same job gives the same bytes everywhere."""
    return {
        CONFIG: config_yml(job),
        **_LAUNCHERS[job.launcher](job),
        LOCK: lock_yaml(job, digest()),
    }
