"""Runs every rule over a job and applies what was accepted."""

from __future__ import annotations

from moectl.findings import Finding, ordered
from moectl.job import Job
from moectl.resolve.of_job import workload_of
from moectl.rules.registry import all_rules, judged


def codes() -> tuple[str, ...]:
    """Return every code a finding may have."""
    return tuple(all_rules())


def findings(job: Job) -> list[Finding]:
    """Return what the rules find, accepted ones marked with their reason, worst first."""
    accepted = dict(job.accept)
    found = judged(workload_of(job))
    return ordered([f.accept(accepted[f.code]) if f.code in accepted else f for f in found])
