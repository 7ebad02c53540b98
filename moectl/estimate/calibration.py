"""Efficiencies from a measured run, in place of those that the step model comes with.

The time of a step alone tells one factor on all of them. A profile tells the parts by
themselves: an efficiency that is seen is measured, and the factor falls on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moectl.estimate.assessment import Prepared, Request, assess
from moectl.estimate.step_time import StepTime, efficiencies
from moectl.facts.yaml_facts import read

_FACTS = "calibrate.yaml"
_ROUNDS = 60
_TOLERANCE = 1e-6


def rates() -> dict[str, float]:
    """Return the efficiencies that are shares of a peak, at the middle pace."""
    known = efficiencies()["middle"]
    return {name: known[name] for name in read("step_model.yaml")["efficiencies"]}


def fitted(
    prepared: Prepared,
    values: Mapping[str, Any],
    request: Request,
    seconds: float,
    classes: Mapping[str, float] | None = None,
) -> dict[str, float] | None:
    """Return efficiencies with which the step model predicts a measured step.

    Args:
        prepared: the model that ran.
        values: its effective MaxText values.
        request: its mesh and platform; a calibration in it is left out.
        seconds: measured time of a step.
        classes: seconds of a step by class of kernels, where there is a profile.

    Returns:
        By the names of step_model.yaml; None where no factor in the range does.
    """
    bare = replace(request, calibration=None)
    first = assess(prepared, values, bare).time
    if first is None or not seconds > 0:
        return None
    low, high = read(_FACTS)["range"]
    held = rates()
    seen = _seen(first, held, classes or {})
    if any(not low <= seen[name] / held[name] <= high for name in seen):
        return None

    def at(factor: float) -> dict[str, float]:
        return {name: seen.get(name, rate * factor) for name, rate in held.items()}

    def predicted(factor: float) -> float:
        time = assess(prepared, values, replace(bare, calibration=at(factor))).time
        return time.seconds() if time is not None else 0.0

    if not predicted(high) <= seconds <= predicted(low):
        return None
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        took = predicted(middle)
        if abs(took / seconds - 1) < _TOLERANCE:
            break
        low, high = (middle, high) if took > seconds else (low, middle)
    return at((low + high) / 2)


def _seen(
    time: StepTime, held: Mapping[str, float], classes: Mapping[str, float]
) -> dict[str, float]:
    """Return the efficiencies that a profile tells by themselves."""
    kinds = read("step_model.yaml")["kinds"]
    kind = kinds.get(time.dtype, time.dtype)
    found = {}
    for name, row in read(_FACTS)["classes"].items():
        took = classes.get(name, 0.0)
        said = sum(time.parts["middle"].get(part, 0.0) for part in row["parts"])
        efficiency = row["efficiency"].format(expert=kind, dense=kind)
        if took > 0 and said > 0 and efficiency in held:
            found[efficiency] = held[efficiency] * said / took
    return found
