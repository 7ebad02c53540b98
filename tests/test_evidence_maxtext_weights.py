"""The extractor of the weight tables: it fits expressions, and the tables are what it makes."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import BackendError
from moectl.evidence import maxtext_weights
from moectl.facts.weights import evaluated
from moectl.resources import fact
from tests.support import components

KEYS = [
    {"emb": 7168, "heads": 128, "rope": 64, "nope": 128, "layers": 60},
    {"emb": 2368, "heads": 42, "rope": 142, "nope": 244, "layers": 300},
    {"emb": 2624, "heads": 110, "rope": 146, "nope": 268, "layers": 420},
]


@pytest.mark.parametrize(
    "expression",
    ["emb", "rope*3", "heads*rope", "nope+rope", "layers-heads", "layers/4", "emb*heads*2+rope"],
)
def test_the_simplest_expression_that_fits_all_answers_is_found(expression: str) -> None:
    sizes = [evaluated(expression, keys) for keys in KEYS]
    assert maxtext_weights.fitted(sizes, KEYS) == expression


def test_a_size_that_never_changes_is_a_number() -> None:
    assert maxtext_weights.fitted([4, 4, 4], KEYS) == 4


def test_a_size_that_nothing_explains_is_not_guessed() -> None:
    assert maxtext_weights.fitted([3, 1_000_003, 17], KEYS) is None


@given(st.lists(st.integers(1, 10**4), min_size=3, max_size=3))
def test_whatever_is_found_fits(sizes: list[int]) -> None:
    found = maxtext_weights.fitted(sizes, KEYS)
    assert found is None or [evaluated(found, keys) for keys in KEYS] == sizes


def test_the_shipped_table_is_what_the_extractor_makes_of_maxtext() -> None:
    python = str(components.require("maxtext"))
    shipped = json.loads(fact("weights", "0.2.5.json").read_text("utf-8"))
    made = maxtext_weights.table(python, ["mixtral-8x7b"])
    assert made["models"]["mixtral-8x7b"] == shipped["models"]["mixtral-8x7b"]
    assert made["wanted_axes"] == shipped["wanted_axes"]
    assert made["variants"] == shipped["variants"]
    text = fact("weights", "0.2.5.json").read_text("utf-8")
    assert maxtext_weights.text_of(shipped) == text


def test_a_model_that_maxtext_refuses_is_an_error() -> None:
    python = str(components.require("maxtext"))
    with pytest.raises(BackendError, match="MaxText refuses mixtral-9x9b"):
        maxtext_weights.table(python, ["mixtral-9x9b"])


def test_a_python_without_maxtext_is_an_error() -> None:
    with pytest.raises(BackendError, match="ended after 0 answers"):
        maxtext_weights.table(sys.executable, ["mixtral-8x7b"])
    with pytest.raises(BackendError, match="cannot be started"):
        maxtext_weights.table("/no/such/python", ["mixtral-8x7b"])
