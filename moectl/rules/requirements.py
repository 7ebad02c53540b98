"""Applies the rules of `facts/data/requirements.yaml`: when these keys, then those keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moectl.errors import shown
from moectl.facts.yaml_facts import read
from moectl.findings import Finding, Severity
from moectl.job import Job, Origin
from moectl.spec.table import table

_STAGES = {
    "config": "MaxText refuses it",
    "later": "MaxText's config check passes it, and the run dies after start-up",
    "silent": "it runs, and computes something else",
    "advice": "it runs",
}


def holds(value: Any, condition: Any) -> bool:
    """Whether a value meets a condition of the rule table.

    Args:
        value: an effective MaxText value.
        condition: a scalar (equality), a list (membership), or a mapping of comparisons that
            must all hold: le, lt, ge, gt, not, in, starts, outside (an open interval).
    """
    if isinstance(condition, list):
        return value in condition
    if not isinstance(condition, Mapping):
        return bool(value == condition)
    return all(_compare(value, name, bound) for name, bound in condition.items())


def _compare(value: Any, name: str, bound: Any) -> bool:
    match name:
        case "not":
            return bool(value != bound)
        case "in":
            return value in bound
        case "starts":
            return isinstance(value, str) and value.startswith(tuple(bound))
        case _:
            pass
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    match name:
        case "le":
            return bool(value <= bound)
        case "lt":
            return bool(value < bound)
        case "ge":
            return bool(value >= bound)
        case "gt":
            return bool(value > bound)
        case "outside":
            return not bound[0] < value < bound[1]
        case _:
            raise ValueError(f"unknown comparison {name}")


def check(job: Job) -> Iterator[Finding]:
    """Yield a finding for every requirement the job does not meet."""
    for rule in read("requirements.yaml")["rules"]:
        if not all(holds(_value(job, key), want) for key, want in rule["when"].items()):
            continue
        for key, want in rule["need"].items():
            if not holds(_value(job, key), want):
                yield _finding(job, rule, key, want)


def _value(job: Job, key: str) -> Any:
    """Return the effective value; a key MaxText leaves to its code counts as None."""
    return job.effective.get(key)


def _finding(job: Job, rule: Mapping[str, Any], key: str, want: Any) -> Finding:
    severity: Severity = rule.get("severity", "error")
    field = table().owners.get(key, key)
    origin = _origin(job, key)
    suggested = rule.get("suggest", {key: want})
    name, value = next(iter(suggested.items()))
    hint = (
        f"--set {table().owners.get(name, name)}={_typed(value)}"
        if (not isinstance(value, Mapping | list))
        else f"{key} must be {_legal(want)}"
    )
    return Finding(
        code=rule["code"],
        severity=severity,
        field=field,
        message=f"{rule['title']}: {key} is {shown(_value(job, key))}. {_sentence(rule)}",
        hint=hint,
        file=origin.file or origin.layer,
        line=origin.line,
        column=origin.column,
    )


def _sentence(rule: Mapping[str, Any]) -> str:
    reason = rule["reason"]
    return f"{reason[0].upper()}{reason[1:]}; {_STAGES[rule['stage']]} ({rule['source']})."


def _legal(want: Any) -> str:
    if isinstance(want, list):
        return " or ".join(map(str, want))
    words = {
        "le": "at most",
        "lt": "below",
        "ge": "at least",
        "gt": "above",
        "not": "anything but",
        "in": "one of",
        "starts": "a name that starts with",
        "outside": "outside",
    }
    return " and ".join(f"{words[name]} {shown(bound)}" for name, bound in want.items())


def _origin(job: Job, key: str) -> Origin:
    for values in (job.arguments, job.config):
        if key in values:
            return values[key].origin
    model = job.effective.get("model_name")
    return Origin(f"MaxText {job.container.image.maxtext}, model {model}")


def _typed(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
