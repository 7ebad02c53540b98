"""What the losses of a rehearsal are worth, right in both directions."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.shrink.judge import Tolerance, curve, parity, resumed, tolerance, trained

FALLING = {0: 6.7, 1: 6.0, 2: 5.4, 3: 5.0}
LOSSES = st.floats(0, 20)


def good(losses: dict[int, float], steps: int = 4) -> dict[str, bool]:
    return {each.name: each.good for each in trained(losses, steps)}


def test_a_run_that_learns_holds_in_everything() -> None:
    assert good(FALLING) == {"log lines parse": True, "loss finite": True, "loss falls": True}


@pytest.mark.parametrize(
    ("losses", "bad"),
    [
        ({}, "log lines parse"),
        ({0: 6.7, 1: 6.0, 3: 5.0}, "log lines parse"),
        (FALLING | {4: 4.9}, "log lines parse"),
        (FALLING | {2: nan}, "loss finite"),
        (FALLING | {2: inf}, "loss finite"),
        (FALLING | {3: nan}, "loss falls"),
        (FALLING | {3: 6.5}, "loss falls"),
        (dict.fromkeys(range(4), 6.24), "loss falls"),
    ],
)
def test_what_does_not_learn_is_told_by_name(losses: dict[int, float], bad: str) -> None:
    assert good(losses)[bad] is False


def test_going_on_from_a_checkpoint_gives_the_same_losses() -> None:
    assert resumed(FALLING, {2: 5.4, 3: 5.0}, 1).good
    assert "losses at most 0.000 apart" in resumed(FALLING, {2: 5.4, 3: 5.0}, 1).why


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ({}, "trained no step"),
        ({0: 6.7, 1: 6.0, 2: 5.4, 3: 5.0}, "it began at step 0"),
        ({2: 5.41, 3: 5.0}, "0.010 apart"),
        ({2: 5.4, 3: nan}, "inf apart"),
        ({2: 5.4}, "steps 2 to 2"),
    ],
)
def test_going_on_otherwise_does_not_hold(after: dict[int, float], why: str) -> None:
    found = resumed(FALLING, after, 1)
    assert not found.good
    assert why in found.why


def test_equal_paths_agree_and_a_drift_of_a_digit_is_allowed() -> None:
    allowed = tolerance(dropless=True)
    assert parity(FALLING, FALLING, 4, allowed).good
    assert parity(FALLING, {s: loss + 0.001 for s, loss in FALLING.items()}, 4, allowed).good


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("change", [0.02, -0.02, nan, inf])
def test_one_step_that_differs_is_enough(step: int, change: float) -> None:
    other = FALLING | {step: FALLING[step] + change}
    for one, second in ((FALLING, other), (other, FALLING)):
        found = parity(one, second, 4, tolerance(dropless=True))
        assert not found.good
        assert f"from step {step} on" in found.why


def test_the_largest_distance_is_told_whatever_is_allowed_there() -> None:
    other = {0: 6.701, 1: 6.0, 2: 5.4, 3: 5.002}
    assert "at most 0.0020 apart at step 3" in parity(FALLING, other, 4, Tolerance(0.002, 1)).why


def test_steps_that_lack_cannot_be_compared() -> None:
    assert "only 3 of 4 steps" in parity(FALLING, {0: 6.7, 1: 6.0, 2: 5.4}, 4, Tolerance(9, 9)).why


@given(st.lists(st.tuples(LOSSES, LOSSES), min_size=1), st.floats(0, 2), st.floats(0, 1))
def test_parity_is_what_it_says_and_has_no_sides(
    pairs: list[tuple[float, float]], first: float, growth: float
) -> None:
    one = {step: pair[0] for step, pair in enumerate(pairs)}
    other = {step: pair[1] for step, pair in enumerate(pairs)}
    allowed = Tolerance(first, growth)
    wanted = all(abs(a - b) <= first + growth * step for step, (a, b) in enumerate(pairs))
    assert parity(one, other, len(pairs), allowed).good is wanted
    assert parity(other, one, len(pairs), allowed).good is wanted


def test_a_capacity_limit_is_allowed_more_than_another_order() -> None:
    tight, wide = tolerance(dropless=True), tolerance(dropless=False)
    assert all(tight.at(step) < wide.at(step) for step in range(100))


@given(st.lists(st.floats()))
def test_a_curve_is_as_long_as_its_losses(losses: list[float]) -> None:
    assert len(curve(losses)) == len(losses)


def test_a_curve_falls_with_its_losses() -> None:
    assert curve([6.7, 6.0, nan, 5.4, 5.0]) == "█▅ ▃▁"
    assert curve([1.0, 1.0]) == "▁▁"
