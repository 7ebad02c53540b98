"""The files of a bundle that the processes run, beside config.yml and the launcher's file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moectl.errors import UsageError
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.render import container, limits, preflight, slurm_checks, templates, variables
from moectl.render.config import arguments

RANK = "rank.sh"
PLACEMENT = "placement.py"
AS_RUN = "as_run.py"
WATCHDOG = "watchdog.py"
GO_ON = "go_on.py"
_TRACED = "profile.ranks"
_NSYS = "nsys"  # a value of MaxText's profiler
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
        **beside(),
        **preflight.programs(job),
        **({GO_ON: go_on()} if limits.long_run(job) else {}),
    }


def beside() -> dict[str, str]:
    """Return what runs beside the processes, whoever starts them."""
    return {AS_RUN: templates.source(AS_RUN), WATCHDOG: watchdog()}


def watchdog() -> str:
    """Return the program that ends a job that hangs, with the known texts filled in."""
    return _filled(WATCHDOG, map(_row, read("fatal.yaml")["rows"]))


def go_on() -> str:
    """Return the program that says whether a job of a long run has anything left to do."""
    return _filled(GO_ON, map(_row_of_end, read("fatal.yaml")["rows"]))


def _filled(name: str, rows: Iterable[tuple[Any, ...]]) -> str:
    text = "".join(f"    {row!r},\n" for row in rows)
    before, marked, after = templates.source(name).partition(_ROWS)
    assert marked  # noqa: S101 - the template is ours
    return f"{before}FATAL: Any = (\n{text})\n{after}"


def _row_of_end(row: dict[str, Any]) -> tuple[Any, ...]:
    said = (row["id"], row["pattern"], row["cause"], row["retry"], row["ends"])
    rest = (row.get("victim", False), row.get("again", False), tuple(row.get("unless", ())))
    return (*said, *rest)


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
            "preflight": job.cluster.preflight,
            "debug": job.debug,
            "dump": dump,
            "image": container.image_argument(job) if contained else "",
            "secrets": job.secrets,
            "traced": traced_ranks(job),
            "arguments": arguments(job),
        },
    )


def traced_ranks(job: Job) -> list[int]:
    """Return the processes that Nsight Systems runs around.

    Raises:
        UsageError: the job has no such process.
    """
    said = job.settings.get(_TRACED)
    if job.effective.get("profiler") != _NSYS or said is None:
        return []
    ranks = sorted(set(said.value))
    if ranks and ranks[-1] >= job.processes:
        raise UsageError(
            f"{_TRACED} names process {ranks[-1]}, and the job has 0 to {job.processes - 1}"
        )
    return ranks
