"""Order statistics, the interval of a ratio of medians, and a line through points."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

RESAMPLES = 2000
# Values that are resampled; more of them make the interval no more certain than the run was.
_MOST = 400
_SEED = 20261130


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of finite values, linear between neighbours (Hyndman and Fan, type 7).

    Args:
        values: at least one, in any order.
        share: 0 to 1.
    """
    held = sorted(values)
    at = (len(held) - 1) * share
    low = int(at)
    high = min(low + 1, len(held) - 1)
    return held[low] + (held[high] - held[low]) * (at - low)


def median(values: Sequence[float]) -> float:
    """Return the median of at least one value."""
    return quantile(values, 0.5)


def finite(values: Sequence[float]) -> list[float]:
    """Return the values that are numbers."""
    return [value for value in values if isfinite(value)]


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and where it lies with a confidence of 95 %."""

    value: float
    low: float
    high: float


def ratio(before: Sequence[float], after: Sequence[float]) -> Interval:
    """Return median(after) / median(before) with its 95 % interval.

    Both are resampled in blocks of neighbours (circular block bootstrap, Politis and Romano
    1992), since a slow step seldom comes alone. The blocks have n^(1/3) steps. The draws are
    the same every time.

    Args:
        before: positive values in the order they were measured, at least two.
        after: as `before`.
    """
    draw = random.Random(_SEED)  # noqa: S311 - repeatable, not secret
    first, second = _thinned(before), _thinned(after)
    found = sorted(
        _middle(_resampled(second, draw)) / _middle(_resampled(first, draw))
        for _ in range(RESAMPLES)
    )
    low, high = found[int(0.025 * RESAMPLES)], found[int(0.975 * RESAMPLES) - 1]
    value = median(after) / median(before)
    return Interval(value, min(low, value), max(high, value))


def _thinned(values: Sequence[float]) -> list[float]:
    """Return at most `_MOST` values: medians of neighbours, which keep what a trend is."""
    size = -(-len(values) // _MOST)
    if size == 1:
        return list(values)
    return [_middle(list(values[at : at + size])) for at in range(0, len(values), size)]


def _resampled(values: Sequence[float], draw: random.Random) -> list[float]:
    count = len(values)
    length = max(1, round(count ** (1 / 3)))
    found: list[float] = []
    while len(found) < count:
        begin = int(draw.random() * count)
        found.extend(values[begin : begin + length])
        found.extend(values[: max(0, begin + length - count)])
    return found[:count]


def _middle(values: list[float]) -> float:
    values.sort()
    at = len(values) // 2
    return values[at] if len(values) % 2 else (values[at - 1] + values[at]) / 2


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line through points, by least squares.

    Attributes:
        slope: of the line.
        intercept: its value at 0.
        deviation: standard error of the slope; nan with two points.
        explained: share of the variance that it explains, 1 where all points lie on it.
    """

    slope: float
    intercept: float
    deviation: float
    explained: float


def line(xs: Sequence[float], ys: Sequence[float]) -> Line:
    """Return the least-squares line through at least two points of different x."""
    count = len(xs)
    mean_x, mean_y = sum(xs) / count, sum(ys) / count
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    intercept = mean_y - slope * mean_x
    left = sum((y - intercept - slope * x) ** 2 for x, y in zip(xs, ys, strict=True))
    whole = sum((y - mean_y) ** 2 for y in ys)
    deviation = sqrt(left / (count - 2) / spread) if count > 2 else float("nan")
    return Line(slope, intercept, deviation, 1 - left / whole if whole > 0 else 1.0)
