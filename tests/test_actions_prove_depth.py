"""Two shallow models in place of a deep one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.actions.prove_depth import Depths, Rows, depths, figures, flat, rows
from moectl.errors import ValueUsageError
from moectl.facts.yaml_facts import read

FACTS = read("prove.yaml")["depth"]
WHOLE = {"base_num_decoder_layers": 61, "first_num_dense_layers": 3}


def test_layers_come_after_those_at_the_beginning() -> None:
    assert depths(WHOLE, 2, FACTS) == Depths("base_num_decoder_layers", 5, 7, 61)


def test_a_cycle_of_unlike_layers_stays_whole() -> None:
    found = depths(
        {"base_num_decoder_layers": 48, "inhomogeneous_layer_cycle_interval": 4}, 2, FACTS
    )
    assert found is not None
    assert (found.low, found.high) == (4, 8)


def test_a_model_that_is_no_deeper_is_compiled_whole() -> None:
    assert depths({"base_num_decoder_layers": 4}, 2, FACTS) is None


@pytest.mark.parametrize("layers", [0, -1])
def test_no_layers_are_refused(layers: int) -> None:
    with pytest.raises(ValueUsageError, match="--layers"):
        depths(WHOLE, layers, FACTS)


@given(st.integers(0, 10**12), st.integers(0, 10**10), st.integers(2, 50), st.integers(1, 9))
def test_what_grows_evenly_is_extrapolated_exactly(
    base: int, layer: int, low: int, step: int
) -> None:
    at = Depths("k", low, low + step, low + step + 40)
    found = figures(at, {"a": base + layer * low}, {"a": base + layer * (low + step)})
    assert found["a"] == pytest.approx(base + layer * at.whole, abs=1, rel=1e-9)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_nothing_falls_below_zero(low: int, high: int) -> None:
    at = Depths("k", 5, 7, 61)
    assert figures(at, {"a": low}, {"a": high})["a"] >= 0


def test_collectives_of_a_layer_are_extrapolated_and_stay_unsure() -> None:
    at = Depths("k", 5, 7, 61)
    key = ("all-gather", "domain")
    low: Rows = {key: {"instructions": 3, "runs": 7, "bytes": 100, "sure": True}}
    high: Rows = {key: {"instructions": 3, "runs": 9, "bytes": 120, "sure": False}}
    assert rows(at, low, high) == {
        key: {"instructions": 3, "runs": 63, "bytes": 660, "sure": False}
    }


def test_the_answer_says_what_it_rests_on() -> None:
    assert Depths("k", 5, 7, 61).sentence.startswith("extrapolated from 5 and 7 decoder layers")


def test_one_layer_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueUsageError, match="peak lies outside the layers"):
        depths(WHOLE, 1, FACTS)


@pytest.mark.parametrize(("host", "told"), [(0, True), (5, False)])
def test_a_peak_that_grows_less_than_a_layer_holds_is_too_flat(host: int, told: bool) -> None:
    at = Depths("k", 5, 7, 61)
    low, high = {"argument_size": 0}, {"argument_size": 20, "host_temp_size": host}
    assert bool(flat(at, low, high, (100, 122), 2.0)) is told
    assert not flat(at, low, high, (100, 124), 2.0)
