"""What the local launcher starts: the program that runs a bundle, and its plan."""

from __future__ import annotations

import json

from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.render import limits, slurm_checks, templates, variables
from moectl.render.config import arguments
from moectl.render.slurm import file_name
from moectl.settings.bundle_names import LOCAL, LOCAL_PLAN

PROGRAM = "local.py"
_PYTHON = "cluster.python"


def local_files(job: Job) -> dict[str, str]:
    """Return the program and its plan, by file name.

    Raises:
        UsageError: the job holds what cannot be said; everything of it at once.
    """
    slurm_checks.require(job)
    return {LOCAL: templates.source(PROGRAM), LOCAL_PLAN: plan(job)}


def plan(job: Job) -> str:
    """Return what launch.py is told, as JSON."""
    facts = read("local.yaml")
    own = job.settings.get(_PYTHON)
    said = {
        "format": 1,
        "log": file_name(job.name),
        "devices": "cpu" if job.on_cpu else "gpu",
        "processes": job.processes,
        "python": own.value if own is not None else "",
        "environment_name": f"maxtext-{job.container.image.maxtext}",
        "arguments": arguments(job),
        "output": job.output_directory,
        "environment": environment(job),
        "secrets": list(job.secrets),
        "keep": facts["kept_names"],
        "keep_prefixes": facts["kept_prefixes"],
        "kill_wait": facts["kill_wait"],
        "watchdog": limits.watchdog(job),
    }
    return json.dumps(said, indent=1, ensure_ascii=False) + "\n"


def environment(job: Job) -> dict[str, str]:
    """Return the variables of every process; one machine is one slice."""
    values = variables.environment(job)
    return values if job.on_cpu else {**values, "JAX_PARTITION_INDEX": "0"}
