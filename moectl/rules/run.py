"""Runs every rule over a job and applies what was accepted."""

from __future__ import annotations

from moectl.facts.yaml_facts import read
from moectl.findings import Finding, ordered
from moectl.job import Job
from moectl.rules import layout, performance, requirements

_SUBJECTS = (requirements.check, layout.check, performance.check)


def codes() -> tuple[str, ...]:
    """Return every code a finding may have."""
    table = (rule["code"] for rule in read("requirements.yaml")["rules"])
    return (*table, *layout.CODES, *performance.CODES)


def findings(job: Job) -> list[Finding]:
    """Return what the rules find, accepted ones marked with their reason, worst first."""
    accepted = dict(job.accept)
    found = [finding for check in _SUBJECTS for finding in check(job)]
    return ordered([f.accept(accepted[f.code]) if f.code in accepted else f for f in found])
