"""Order statistics, the interval of a ratio, and a line through points."""

from __future__ import annotations

import random
import statistics
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.report.statistics import line, median, quantile, ratio

numbers = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60)


@given(numbers)
def test_the_median_is_that_of_the_standard_library(values: list[float]) -> None:
    assert median(values) == pytest.approx(statistics.median(values), abs=1e-9)


@given(numbers)
def test_quantiles_are_those_of_type_7(values: list[float]) -> None:
    wanted = statistics.quantiles(values, n=20, method="inclusive")
    assert quantile(values, 0.05) == pytest.approx(wanted[0], rel=1e-9, abs=1e-6)
    assert quantile(values, 0.95) == pytest.approx(wanted[-1], rel=1e-9, abs=1e-6)
    assert min(values) <= quantile(values, 0.3) <= max(values)


def sample(seed: int, centre: float, count: int = 100) -> list[float]:
    draw = random.Random(seed)  # noqa: S311 - repeatable, not secret
    return [centre * (1 + 0.02 * draw.gauss(0, 1)) for _ in range(count)]


def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(40):
        found = ratio(sample(seed, 5.0), sample(seed + 1000, 5.15))
        assert found.low <= found.value <= found.high
        held += found.low <= 1.03 <= found.high
    assert held >= 34  # 95 % of 40 are 38


def test_the_same_samples_give_the_same_interval_and_it_turns_with_them() -> None:
    one, two = sample(1, 5.0), sample(2, 6.0)
    assert ratio(one, two) == ratio(one, two)
    there, back = ratio(one, two), ratio(two, one)
    assert there.low > 1.15
    assert back.high < 0.9


def test_more_values_than_are_resampled_keep_the_ratio() -> None:
    found = ratio(sample(1, 5.0, 5000), sample(2, 5.5, 4000))
    assert found.low <= 1.1 <= found.high
    assert found.high - found.low < 0.01


def test_a_line_is_found_exactly_where_points_lie_on_one() -> None:
    found = line([1.0, 2.0, 4.0], [3.0, 5.0, 9.0])
    assert [found.slope, found.intercept] == pytest.approx([2, 1])
    assert found.explained == pytest.approx(1)
    assert found.deviation == pytest.approx(0, abs=1e-9)
    assert isnan(line([1.0, 2.0], [3.0, 5.0]).deviation)
    assert line([1.0, 2.0], [3.0, 3.0]).explained == 1.0
