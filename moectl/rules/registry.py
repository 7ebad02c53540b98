"""All rules, by code; and what they find in a workload.

The modules of a group are imported when the first workload wants it, so that nobody pays for
rules about what a file has not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from moectl.findings import Finding
from moectl.rules.rule import Rule
from moectl.workload import Workload

_COMPILE_FLAGS = "compile_xla_flags"  # a key of MaxText that holds XLA flags


@dataclass(frozen=True, slots=True)
class Group:
    """Modules of rules, and the workloads they hold for."""

    modules: tuple[str, ...]
    wanted: Callable[[Workload], bool]


# How processes start, and how the keys were written, is moectl's own doing in a job.
_JOB = "run file"


def _is_foreign(w: Workload) -> bool:
    return w.kind != _JOB


def _has_processes(w: Workload) -> bool:
    return w.batch is not None or w.manifest is not None or bool(w.environment)


GROUPS = (
    Group(("rules.reading", "suppress"), lambda w: False),  # noqa: ARG005 - found elsewhere
    Group(("rules.yaml_traps",), lambda w: _is_foreign(w) and bool(w.config or w.arguments)),
    Group(
        ("rules.maxtext_keys", "rules.requirements", "rules.storage", "rules.layout"),
        lambda w: w.is_maxtext,
    ),
    Group(("rules.memory",), lambda w: w.is_maxtext),
    Group(("rules.processes", "rules.rendezvous"), lambda w: _is_foreign(w) and _has_processes(w)),
    Group(("rules.slurm", "rules.containers", "rules.shell"), lambda w: w.batch is not None),
    Group(
        (
            "rules.xla_text",
            "rules.xla_flags",
            "rules.xla_pairs",
            "rules.environment",
            "rules.performance",
        ),
        lambda w: w.flags is not None or _has_processes(w) or w.said(_COMPILE_FLAGS) is not None,
    ),
    Group(("rules.kubernetes",), lambda w: w.manifest is not None),
    Group(("rules.versions",), lambda w: w.is_maxtext or w.image is not None),
)


@cache
def _rules_of(group: Group) -> tuple[Rule, ...]:
    found = (import_module(f"moectl.{name}").RULES.all for name in group.modules)
    return tuple(rule for declared in found for rule in declared)


@cache
def all_rules() -> Mapping[str, Rule]:
    """Return every rule by its code, in the order of the modules."""
    found: dict[str, Rule] = {}
    for rule in (rule for group in GROUPS for rule in _rules_of(group)):
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
    """Return what the rules find in a workload, in the order of the rules."""
    return [
        finding
        for group in GROUPS
        if group.wanted(workload)
        for rule in _rules_of(group)
        for finding in rule.findings(workload)
    ]
