"""The preflight of a job: its two programs with the plan filled in, and how long it may take."""

from __future__ import annotations

from typing import Any

from moectl import placement
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.render import templates, variables

PREFLIGHT = "preflight.py"
JUDGE = "preflight_judge.py"
_PLAN = "PLAN: Any = {}\n"


def programs(job: Job) -> dict[str, str]:
    """Return file name to text of what looks at the processes; nothing where nobody asked."""
    if not job.cluster.preflight:
        return {}
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in plan(job).items())
    return {name: _filled(name, lines) for name in (PREFLIGHT, JUDGE)}


def _filled(name: str, lines: str) -> str:
    before, marked, after = templates.source(name).partition(_PLAN)
    assert marked  # noqa: S101 - the template is ours
    return f"{before}PLAN: Any = {{\n{lines}}}\n{after}"


def plan(job: Job) -> dict[str, Any]:
    """Return what the programs know of a job: its processes, mesh, variables and limits.

    The degrees stand in the order of MaxText's axes, those of 1 left out; times are in s.
    """
    facts = read("launch.yaml")["preflight"]
    degrees = job.mesh.degrees.items()
    folders = dict.fromkeys((job.output_directory, job.cache_directory))
    return {
        "ranks": job.gpus,
        "per_node": job.processes_per_node,
        "gpus_per_slice": job.mesh.gpus_per_slice,
        "spare": placement.ask(job).spare,
        "dcn": [(axis, degree.dcn) for axis, degree in degrees if degree.dcn > 1],
        "ici": [(axis, degree.ici) for axis, degree in degrees if degree.ici > 1],
        "environment": variables.environment(job),
        "secrets": list(job.secrets),
        "watched": facts["watched"],
        "by_rank": facts["by_rank"],
        "folders": [path for path in folders if path and "://" not in path],
        "wait": facts["wait"],
        "limit": _limit(job),
        "used_mib": facts["used_mib"],
        "platforms": facts["platforms"],
    }


def seconds(job: Job) -> int:
    """Return after how many s a preflight is ended from outside.

    A container may take as long to start on the slowest node as the others wait for it.
    """
    return 2 * int(read("launch.yaml")["preflight"]["wait"]) + _limit(job)


def seconds_after() -> int:
    """Return how many s the other processes are given when the first one has ended."""
    return int(read("launch.yaml")["preflight"]["after"])


def retries(job: Job) -> bool:
    """Return whether a second preflight may leave nodes out."""
    return job.cluster.preflight_retry and placement.ask(job).spare > 0


def _limit(job: Job) -> int:
    facts = read("launch.yaml")["preflight"]
    return int(facts["limit"]) + job.gpus * int(facts["limit_of_a_thousand"]) // 1000
