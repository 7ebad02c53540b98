"""A raw value as MaxText's loader and pydantic's lax mode make it: '6' is 6, off is false."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moectl.facts.maxtext_key import Key, split_type
from moectl.facts.maxtext_values import prepare
from moectl.resolve.interpolation import START
from moectl.workload import UNKNOWN

_TRUE = frozenset({"1", "t", "true", "y", "yes", "on"})
_LARGEST = 1e308  # what a float holds
_FALSE = frozenset({"0", "f", "false", "n", "no", "off"})


def coerce(key: Key, value: Any) -> Any:
    """Return a raw value as MaxText and pydantic's lax mode make it; UNKNOWN if they refuse.

    Args:
        key: the key it is for.
        value: the value as YAML gives it.
    """
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(value, str) and START in value:
        return value
    prepared = value if key.parent else prepare(key, value)
    if prepared is None:
        return None if key.nullable or key.opaque or key.type == "any" else UNKNOWN
    if key.opaque or key.nested:
        return prepared
    kinds = split_type(key.type)
    for kind in kinds:
        if type(prepared) is _STRICT.get(kind):
            return prepared
    for kind in kinds:
        taken = _lax(kind, prepared, key)
        if taken is not UNKNOWN:
            return taken
    return UNKNOWN


_STRICT: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}


def _lax(kind: str, value: Any, key: Key) -> Any:
    if kind == "any":
        return value
    if kind == "enum":
        return value if value in key.choices else UNKNOWN
    if kind.startswith("list"):
        if not isinstance(value, list):
            return UNKNOWN
        inner = split_type(kind[5:-1]) if kind.startswith("list[") else ["any"]
        return [_first(inner, entry, key) for entry in value]
    if kind.startswith("dict"):
        return value if isinstance(value, dict) else UNKNOWN
    take = {"bool": _bool, "int": _int, "float": _float}.get(kind)
    return take(value) if take else UNKNOWN


def _first(kinds: Sequence[str], value: Any, key: Key) -> Any:
    for kind in kinds:
        if type(value) is _STRICT.get(kind):
            return value
    taken = (_lax(kind, value, key) for kind in kinds)
    return next((value for value in taken if value is not UNKNOWN), UNKNOWN)


def _bool(value: Any) -> Any:
    if isinstance(value, int | float) and value in {0, 1}:
        return bool(value)
    word = value.lower() if isinstance(value, str) else ""
    return True if word in _TRUE else False if word in _FALSE else UNKNOWN


def _int(value: Any) -> Any:
    if isinstance(value, bool | int):
        return int(value)
    number = _float(value)
    whole = isinstance(number, float) and abs(number) < 2**63 and number == int(number)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return int(number) if whole and "e" not in value.lower() else UNKNOWN
    return int(number) if whole else UNKNOWN


def _float(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return float(value) if abs(value) < _LARGEST else UNKNOWN
    try:
        return float(value) if isinstance(value, str) else UNKNOWN
    except ValueError:
        return UNKNOWN
