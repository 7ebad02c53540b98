"""All files of a bundle, by name."""

from __future__ import annotations

from moectl.job import Job
from moectl.render.config import config_yml
from moectl.render.lock import lock_yaml
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from moectl.render.templates import digest
from moectl.settings.bundle_names import CONFIG, LAUNCH, LOCK

# The file a launcher submits: its name, and what writes it.
_LAUNCHERS = {"slurm": (LAUNCH, launch_script)}


def bundle(job: Job) -> dict[str, str]:
    """Return name to content of every file; the same job gives the same bytes everywhere."""
    name, script = _LAUNCHERS[job.launcher]
    return {
        CONFIG: config_yml(job),
        name: script(job),
        **programs(job),
        LOCK: lock_yaml(job, digest()),
    }
