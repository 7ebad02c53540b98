"""The conditions of the requirement table: what a value, or two, must be.

A condition is a scalar (equality), a list (membership), or a mapping of comparisons that must
all hold. An operand of a comparison is a number or text, or one of `{key: K}`,
`{product: [A, B]}`, `{quotient: [A, B]}` (whole part) and `{minus: [A, B]}` of keys and
numbers. A subject may be a product itself: "ici_context_parallelism*dcn_context_parallelism".
Where a value is unknown, so is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, TypeAlias

from moectl.errors import shown
from moectl.workload import UNKNOWN

Look: TypeAlias = Callable[[str], Any]
Answer: TypeAlias = Any  # True, False or UNKNOWN

WORDS = {
    "eq": "equal to",
    "le": "at most",
    "lt": "below",
    "ge": "at least",
    "gt": "above",
    "not": "anything but",
    "in": "one of",
    "starts": "a name that starts with",
    "lower_starts": "a name that starts with",
    "outside": "outside",
    "within": "part of the word",
    "lacks": "without",
    "multiple_of": "a multiple of",
    "divides": "a divisor of",
}
_SETS = ({"set": True}, {"set": False})


def _nowhere(key: str) -> Any:
    raise ValueError(f"nobody can look up {key}")


def holds(value: Any, condition: Any, look: Look = _nowhere) -> Answer:
    """Whether a value meets a condition of the rule table.

    Args:
        value: an effective MaxText value, or UNKNOWN.
        condition: see the module.
        look: gives the value of another key.
    """
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(condition, Mapping):
        unknown = False
        for name, bound in condition.items():
            answer = _compare(value, name, bound, look)
            if answer is False:
                return False
            unknown = unknown or answer is UNKNOWN
        return UNKNOWN if unknown else True
    if isinstance(condition, list):
        return value in condition
    return bool(value == condition)


def subject(key: str, look: Look) -> Any:
    """Return the value of a key, or the product of several joined by `*`."""
    if "*" not in key:
        return look(key)
    return _product([look(name) for name in key.split("*")])


def _product(values: list[Any]) -> Any:
    # A value that is infinite, or no number, is refused by a rule of its own.
    whole = all(_is_number(value) and value - value == 0 for value in values)
    try:
        return prod(values) if whole else UNKNOWN
    except OverflowError:  # a whole number of hundreds of digits, times one with a point
        return UNKNOWN


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def operand(bound: Any, look: Look) -> Any:
    """Return what an operand comes to."""
    if not isinstance(bound, Mapping):
        return bound
    (kind, names), *_ = bound.items()
    if kind == "key":
        return look(names)
    values = [look(name) if isinstance(name, str) else name for name in names]
    if not all(_is_number(value) for value in values):
        return UNKNOWN
    match kind:
        case "product":
            return prod(values)
        case "quotient":
            return values[0] // values[1] if values[1] else UNKNOWN
        case "minus":
            return values[0] - values[1]
        case _:
            raise ValueError(f"unknown operand {kind}")


def _compare(value: Any, name: str, bound: Any, look: Look) -> Answer:
    match name:
        case "set":
            return bool(value) is bound
        case "not":
            return bool(value not in bound if isinstance(bound, list) else value != bound)
        case "in":
            return value in bound
        case "starts":
            return isinstance(value, str) and value.startswith(tuple(bound))
        case "lower_starts":
            return isinstance(value, str) and value.lower().startswith(tuple(bound))
        case "within":
            return isinstance(value, str) and value in bound
        case "lacks":
            return not isinstance(value, str) or bound not in value
        case _:
            pass
    other = operand(bound, look)
    if other is UNKNOWN:
        return UNKNOWN
    if name == "eq":
        return bool(value == other)
    if name == "outside":
        return _is_number(value) and not bound[0] < value < bound[1]
    if not (_is_number(value) and _is_number(other)):
        if name in WORDS:
            return False
        raise ValueError(f"unknown comparison {name}")
    return _ordered(value, name, other)


def _ordered(value: Any, name: str, other: Any) -> bool:
    match name:
        case "le":
            return bool(value <= other)
        case "lt":
            return bool(value < other)
        case "ge":
            return bool(value >= other)
        case "gt":
            return bool(value > other)
        case "multiple_of":
            return bool(other) and value % other == 0
        case "divides":
            return bool(value) and other % value == 0
        case _:
            raise ValueError(f"unknown comparison {name}")


def legal(condition: Any, look: Look) -> str:
    """Say in a few words what a condition wants."""
    if isinstance(condition, list):
        return " or ".join("none" if item is None else str(item) or "''" for item in condition)
    if not isinstance(condition, Mapping):
        return "none" if condition is None else str(condition)
    if condition in _SETS:
        return "set" if condition["set"] else "left out, or empty"
    parts = [
        f"{WORDS[name]} {_shown(bound, look)}" for name, bound in condition.items() if name in WORDS
    ]
    return " and ".join(parts)


def _shown(bound: Any, look: Look) -> str:
    if isinstance(bound, list):
        return " and ".join(map(str, bound))
    if not isinstance(bound, Mapping):
        return "none" if bound is None else shown(bound) if isinstance(bound, str) else str(bound)
    (kind, names), *_ = bound.items()
    signs = {"product": " x ", "quotient": " // ", "minus": " - "}
    formula = names if kind == "key" else signs[kind].join(map(str, names))
    value = operand(bound, look)
    return formula if value is UNKNOWN else f"{formula} = {value}"
