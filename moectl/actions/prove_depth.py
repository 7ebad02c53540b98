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

# With one layer past the beginning the peak is where logits are made, whatever the depth: compiles
# of deepseek2-16b peak at 26.1, 25.9 and 27.4 GiB with 2, 3 and 5 layers, and at 43.7 with 27.
LEAST = 2
MIB = 1 << 20

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
    if layers < LEAST:
        raise ValueUsageError(
            "--layers",
            layers,
            f"{LEAST} or more: with fewer the peak lies outside the layers, and no line through it "
            "leads to the whole depth",
        )
    whole = _whole(effective.get(facts["key"]))
    first = _whole(effective.get(facts["first"]))
    cycle = lcm(*(max(1, _whole(effective.get(name))) for name in facts["cycles"]))
    unit = cycle * -(-layers // cycle)
    found = Depths(facts["key"], first + unit, first + 2 * unit, whole)
    return found if found.high < whole else None


def figures(at: Depths, low: Mapping[str, int], high: Mapping[str, int]) -> dict[str, int]:
    """Return every figure of both at the whole depth, none below zero."""
    return {name: max(0, at.at_whole(low.get(name, 0), value)) for name, value in high.items()}


def flat(
    at: Depths,
    low: Mapping[str, int],
    high: Mapping[str, int],
    peaks: tuple[int, int],
    kept: float,
) -> str:
    """Return why the peak cannot be extrapolated; empty when nothing speaks against it.

    At the peak of a deep model every layer holds its weights with their moments, and what it
    keeps for the backward pass. Where a layer adds less, the peak of a shallow model is
    elsewhere, and the line through two of them ends below the truth.

    Args:
        at: the depths.
        low: memory of the shallower compile, bytes a device.
        high: likewise of the deeper one.
        peaks: bytes at the worst moment of both.
        kept: the least bytes a layer keeps for the backward pass; where activations are in host
            memory it is none on the device.
    """
    apart = at.high - at.low
    weights = (high["argument_size"] - low["argument_size"]) / apart
    held = 0.0 if high.get("host_temp_size") else kept
    grows = (peaks[1] - peaks[0]) / apart
    if grows >= weights + held:
        return ""
    least = (weights + held) / MIB
    return (
        f"a layer adds {grows / MIB:.0f} MiB to the peak, and it holds {least:.0f} MiB: "
        f"with {at.low} and {at.high} layers the peak is elsewhere, so at {at.whole} it is higher "
        "than told; ask for more --layers, or compile the whole"
    )


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
