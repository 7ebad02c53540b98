"""Conditions of the requirement table, with what is unknown among them."""

from __future__ import annotations

from typing import Any

import pytest

from moectl.rules.maxtext_condition import holds, legal, operand, subject
from moectl.workload import UNKNOWN

VALUES = {"a": 8, "b": 3, "zero": 0, "dark": UNKNOWN, "word": "x", "none": None}


def look(key: str) -> Any:
    return VALUES.get(key, UNKNOWN)


@pytest.mark.parametrize(
    ("value", "condition", "met"),
    [
        (1, 1, True),
        (None, None, True),
        (2, [1, 2], True),
        (3, [1, 2], False),
        (["a"], [["a"]], True),
        (2, {"gt": 1}, True),
        (1, {"gt": 1}, False),
        (1, {"ge": 1, "le": 1}, True),
        (0.5, {"lt": 0.5}, False),
        ("x", {"gt": 1}, False),
        (None, {"le": 1}, False),
        (True, {"ge": 1}, False),
        ("a", {"not": "b"}, True),
        ("a", {"not": ["a", "b"]}, False),
        (None, {"not": None}, False),
        ("a", {"in": ["a"]}, True),
        ("kimi-k2-1t", {"starts": ["kimi"]}, True),
        (5, {"starts": ["5"]}, False),
        ("FIXED,1", {"lower_starts": ["fixed"]}, True),
        ("FIXED,1", {"starts": ["fixed"]}, False),
        ("dot", {"within": "dot_product"}, True),
        ("flash", {"within": "dot_product"}, False),
        ("a;b", {"lacks": ";"}, False),
        ("", {"lacks": ";"}, True),
        (None, {"lacks": ";"}, True),
        (0, {"outside": [0, 1]}, True),
        (0.01, {"outside": [0, 1]}, False),
        (1, {"outside": [0, 1]}, True),
        ("", {"set": False}, True),
        ([1], {"set": True}, True),
        (16, {"multiple_of": {"key": "a"}}, True),
        (12, {"multiple_of": {"key": "a"}}, False),
        (12, {"multiple_of": {"key": "zero"}}, False),
        (614.4, {"multiple_of": 1}, False),
        (4, {"divides": {"key": "a"}}, True),
        (0, {"divides": {"key": "a"}}, False),
        (24, {"eq": {"product": ["a", "b"]}}, True),
        (2, {"lt": {"quotient": ["a", "b"]}}, False),
        (7, {"eq": {"minus": ["a", 1]}}, True),
        (8, {"ge": {"key": "word"}}, False),
    ],
)
def test_a_condition_means_what_it_says(value: Any, condition: Any, met: bool) -> None:
    assert holds(value, condition, look) is met


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        (UNKNOWN, 1),
        (UNKNOWN, {"set": True}),
        (8, {"multiple_of": {"key": "dark"}}),
        (8, {"ge": {"product": ["a", "dark"]}}),
        (8, {"ge": {"quotient": ["a", "zero"]}}),
        (8, {"ge": 1, "le": {"key": "dark"}}),
    ],
)
def test_what_is_unknown_gives_no_answer(value: Any, condition: Any) -> None:
    assert holds(value, condition, look) is UNKNOWN


def test_one_condition_that_fails_decides_whatever_is_unknown() -> None:
    assert holds(8, {"le": {"key": "dark"}, "ge": 9}, look) is False


def test_a_subject_may_be_a_product() -> None:
    assert subject("a*b", look) == 24
    assert subject("a*dark", look) is UNKNOWN
    assert subject("a*word", look) is UNKNOWN
    assert subject("a", look) == 8


@pytest.mark.parametrize("condition", [{"near": 1}, {"eq": {"sum": ["a", "b"]}}])
def test_an_unknown_word_is_a_fault_of_the_table(condition: Any) -> None:
    with pytest.raises(ValueError, match="unknown"):
        holds(1, condition, look)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ([1, None, ""], "1 or none or ''"),
        ({"gt": 0, "lt": {"key": "a"}}, "above 0 and below a = 8"),
        ({"multiple_of": {"product": [2, "b"]}}, "a multiple of 2 x b = 6"),
        ({"set": True}, "set"),
        ({"set": False}, "left out, or empty"),
        ({"le": {"key": "dark"}}, "at most dark"),
        (None, "none"),
    ],
)
def test_a_condition_can_be_said(condition: Any, said: str) -> None:
    assert legal(condition, look) == said


def test_an_operand_is_a_number_or_what_keys_come_to() -> None:
    assert operand(5, look) == 5
    assert operand({"key": "none"}, look) is None
