"""Two shallow models in place of a deep one: which depths, and what follows from both.

Layers of one kind are alike, so what a step needs grows evenly with their number, once there
are enough of them that the compiler makes the same program. That is an assumption, and every
answer that rests on it says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import lcm
from typing import Any

from moectl.errors import ValueUsageError

Rows = Mapping[tuple[str, ...], Mapping[str, int | bool]]


@dataclass(frozen=True, slots=True)
class Depths:
    """The depths that are compiled in place of the whole.

    Attributes:
        key: MaxText's key of the depth.
        low, high: decoder layers of the two models.
        whole: decoder layers of the model itself.
    """

    key: str
    low: int
    high: int
    whole: int

    def at_whole(self, low: float, high: float) -> int:
        """Return the value on the line through both at the whole depth, rounded."""
        slope = (high - low) / (self.high - self.low)
        return round(low + slope * (self.whole - self.low))

    @property
    def sentence(self) -> str:
        """Return what the answer rests on."""
        return (
            f"extrapolated from {self.low} and {self.high} decoder layers to {self.whole}: it is "
            f"assumed that every layer past the first {self.low} adds the same; activations that "
            "move to host memory and the compiler's own rematerialization may not"
        )


def depths(effective: Mapping[str, Any], layers: int, facts: Mapping[str, Any]) -> Depths | None:
    """Return the two depths for `layers` layers past those at the beginning that are unlike.

    Depths are whole cycles of unlike layers. None when the model is no deeper than the second.

    Raises:
        ValueUsageError: `layers` is no number of layers.
    """
    if layers < 1:
        raise ValueUsageError("--layers", layers, "1 or more, e.g. 2")
    whole = _whole(effective.get(facts["key"]))
    first = _whole(effective.get(facts["first"]))
    cycle = lcm(*(max(1, _whole(effective.get(name))) for name in facts["cycles"]))
    unit = cycle * -(-layers // cycle)
    found = Depths(facts["key"], first + unit, first + 2 * unit, whole)
    return found if found.high < whole else None


def figures(at: Depths, low: Mapping[str, int], high: Mapping[str, int]) -> dict[str, int]:
    """Return every figure of both at the whole depth, none below zero."""
    return {name: max(0, at.at_whole(low.get(name, 0), value)) for name, value in high.items()}


def rows(at: Depths, low: Rows, high: Rows) -> dict[tuple[str, ...], dict[str, int | bool]]:
    """Return the rows of a tally at the whole depth."""
    found: dict[tuple[str, ...], dict[str, int | bool]] = {}
    for key in dict.fromkeys([*high, *low]):
        one, two = low.get(key, {}), high.get(key, {})
        row: dict[str, int | bool] = {
            name: max(0, at.at_whole(one.get(name, 0), two.get(name, 0)))
            for name in ("instructions", "runs", "bytes")
        }
        row["sure"] = bool(one.get("sure", True)) and bool(two.get("sure", True))
        found[key] = row
    return found


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
