"""All rules, by code; and what they find in a workload.

The modules are imported when the first rule is asked for, so that a command that judges
nothing pays for none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from moectl.findings import Finding
from moectl.rules.rule import Rule
from moectl.workload import Workload

MODULES = (
    "yaml_traps",
    "maxtext_keys",
    "requirements",
    "processes",
    "rendezvous",
    "slurm",
    "containers",
    "storage",
    "xla_text",
    "xla_flags",
    "xla_pairs",
    "environment",
    "kubernetes",
    "memory",
    "versions",
    "reading",
)


@cache
def all_rules() -> Mapping[str, Rule]:
    """Return every rule by its code, in the order of the modules."""
    found: dict[str, Rule] = {}
    for name in MODULES:
        module = import_module(f"moectl.rules.{name}")
        for rule in module.RULES.all:
            if rule.code in found:
                raise ValueError(f"two rules have the code {rule.code}")
            found[rule.code] = rule
    return found


def families() -> dict[str, tuple[str, ...]]:
    """Return the codes of every family, by the letters they begin with."""
    found: dict[str, list[str]] = {}
    for code in all_rules():
        found.setdefault(code.rstrip("0123456789"), []).append(code)
    return {family: tuple(codes) for family, codes in found.items()}


def judged(workload: Workload) -> list[Finding]:
    """Return what all rules find in a workload, in the order of the rules."""
    return [finding for rule in all_rules().values() for finding in rule.findings(workload)]
