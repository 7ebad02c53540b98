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

# Rules about MaxText's keys; a workload that does not start MaxText has none.
MAXTEXT = ("maxtext_keys", "requirements")
OTHERS = (
    "reading",
    "yaml_traps",
    "processes",
    "slurm",
    "rendezvous",
    "containers",
    "storage",
    "xla_text",
    "xla_flags",
    "xla_pairs",
    "environment",
    "kubernetes",
    "memory",
    "versions",
)


@cache
def all_rules() -> Mapping[str, Rule]:
    """Return every rule by its code, in the order of the modules."""
    found: dict[str, Rule] = {}
    for rule in (*_rules_of(MAXTEXT), *_rules_of(OTHERS)):
        if rule.code in found:
            raise ValueError(f"two rules have the code {rule.code}")
        found[rule.code] = rule
    return found


@cache
def _rules_of(modules: tuple[str, ...]) -> tuple[Rule, ...]:
    found = (import_module(f"moectl.rules.{name}").RULES.all for name in modules)
    return tuple(rule for declared in found for rule in declared)


def families() -> dict[str, tuple[str, ...]]:
    """Return the codes of every family, by the letters they begin with."""
    found: dict[str, list[str]] = {}
    for code in all_rules():
        found.setdefault(code.rstrip("0123456789"), []).append(code)
    return {family: tuple(codes) for family, codes in found.items()}


def judged(workload: Workload) -> list[Finding]:
    """Return what all rules find in a workload, in the order of the rules."""
    chosen = _rules_of(OTHERS)
    if workload.is_maxtext:
        chosen = (*_rules_of(MAXTEXT), *chosen)
    return [finding for rule in chosen for finding in rule.findings(workload)]
