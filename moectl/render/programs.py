"""The files of a bundle that the processes run, beside config.yml and the launcher's file."""

from __future__ import annotations

from moectl.job import Job
from moectl.render import container, slurm_checks, templates, variables
from moectl.render.config import arguments

RANK = "rank.sh"
PLACEMENT = "placement.py"
AS_RUN = "as_run.py"


def programs(job: Job) -> dict[str, str]:
    """Return file name to text: what every task runs, who decides slices, who keeps the record.

    Raises:
        UsageError: the job holds what a script cannot say; everything of it at once.
    """
    slurm_checks.require(job)
    return {
        RANK: rank_script(job),
        PLACEMENT: templates.source(PLACEMENT),
        AS_RUN: templates.source(AS_RUN),
    }


def rank_script(job: Job) -> str:
    """Return what every task of the job runs."""
    contained = container.contained(job)
    dump = "" if variables.DUMP_FLAG in job.xla_flags else variables.DUMP_FLAG
    return templates.render(
        "rank.sh.j2",
        {
            "contained": contained,
            "per_node": job.processes_per_node,
            "gpus_per_slice": job.mesh.gpus_per_slice,
            "python": "python3" if contained else job.cluster.python,
            "python_path": container.python_path(job),
            "checkouts": [
                f"{each.package} at {each.path}, commit {each.commit or 'unknown'}"
                for each in job.container.checkouts
            ],
            "debug": job.debug,
            "dump": dump,
            "image": container.pyxis_image(job.container.image) if contained else "",
            "secrets": job.secrets,
            "arguments": arguments(job),
        },
    )
