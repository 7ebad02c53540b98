"""The files of a bundle that the processes run, beside config.yml and the launcher's file."""

from __future__ import annotations

from typing import Any

from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.render import container, slurm_checks, templates, variables
from moectl.render.config import arguments

RANK = "rank.sh"
PLACEMENT = "placement.py"
AS_RUN = "as_run.py"
WATCHDOG = "watchdog.py"
_ROWS = "FATAL: Any = ()\n"


def programs(job: Job) -> dict[str, str]:
    """Return file name to text: the task, who decides slices, keeps the record, and watches.

    Raises:
        UsageError: the job holds what a script cannot say; everything of it at once.
    """
    slurm_checks.require(job)
    return {
        RANK: rank_script(job),
        PLACEMENT: templates.source(PLACEMENT),
        AS_RUN: templates.source(AS_RUN),
        WATCHDOG: watchdog(),
    }


def watchdog() -> str:
    """Return the program that ends a job that hangs, with the known texts filled in."""
    rows = "".join(f"    {_row(row)!r},\n" for row in read("fatal.yaml")["rows"])
    before, marked, after = templates.source(WATCHDOG).partition(_ROWS)
    assert marked  # noqa: S101 - the template is ours
    return f"{before}FATAL: Any = (\n{rows})\n{after}"


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    texts = (row["id"], row["pattern"], row["cause"], row["remedy"])
    return (*texts, row["retry"], row["ends"], row.get("victim", False), row.get("task", ""))


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
            "image": container.image_argument(job) if contained else "",
            "secrets": job.secrets,
            "arguments": arguments(job),
        },
    )
