"""A key: its row in a table, and the clause that says what is legal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.facts.maxtext_key import Key, split_type

KINDS = ["bool", "int", "float", "str", "enum", "dict", "dict[str]", "any", "list"]
TYPES = st.recursive(
    st.sampled_from(KINDS),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda p: f"list[{'|'.join(p)}]"),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("key", "clause"),
    [
        (Key("k", "bool"), "true or false"),
        (Key("k", "int"), "a whole number"),
        (Key("k", "int", nullable=True, ge=0), "a whole number, at least 0, or none"),
        (Key("k", "float", gt=0, le=1), "a number, above 0, at most 1"),
        (Key("k", "float", lt=2), "a number, below 2"),
        (Key("k", "str"), "text"),
        (Key("k", "any", nullable=True), "anything"),
        (Key("k", "list[str]"), "a list, each entry text"),
        (Key("k", "int|list[int]"), "a whole number or a list, each entry a whole number"),
        (Key("k", "list[list[int|float]]"), "a list, each entry a list, each entry a whole number"
         " or a number"),
        (Key("k", "dict[str]"), "a mapping with text keys"),
        (Key("k", "enum", choices=("", "fp8")), "one of '', 'fp8'"),
        (Key("k", "int", choices=(0, 1)), "one of 0, 1"),
        (Key("k", "enum", choices=("none", "a")), "one of 'a'"),
        (Key("k", "enum", choices=("none", "a"), parent="p"), "one of 'none', 'a'"),
        (Key("k", "dict", nested=("a", "b")), "a mapping of a, b"),
    ],
)  # fmt: skip
def test_what_is_legal_is_said_in_one_clause(key: Key, clause: str) -> None:
    assert key.legal == clause


def test_a_long_choice_names_the_nearest_and_text_wants_quotes() -> None:
    many = Key("model_name", "enum", choices=tuple(f"model-{n}" for n in range(50)))
    assert many.legal == "one of 50 names, such as model-0"
    assert many.legal_near("modl-7").startswith("one of 50 names, near it model-7")
    assert many.legal_near("zzz") == "one of 50 names, such as model-0"
    assert Key("run_name", "str").legal_near(123) == "text, so put it in quotes"
    assert Key("run_name", "str").legal_near([1]) == "text"


def test_a_nested_key_is_named_with_its_parent() -> None:
    assert Key("rank", "int").path == "rank"
    assert Key("rank", "int", parent="lora").path == "lora.rank"


def test_a_row_holds_only_what_is_not_usual() -> None:
    assert Key("k", "int").row() == {"type": "int"}
    key = Key("k", "int", default=0, ge=0, choices=(0, 1), parent="p", where="types.py:1")
    assert key.row() == {
        "type": "int",
        "choices": [0, 1],
        "ge": 0,
        "default": 0,
        "where": "types.py:1",
    }


@given(
    TYPES,
    st.booleans(),
    st.lists(st.text() | st.integers(), max_size=3),
    st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers(), max_size=2),
    st.none() | st.integers(),
)
def test_a_key_comes_back_from_its_row(
    kind: str, flag: bool, choices: list[str | int], default: object, bound: int | None
) -> None:
    key = Key("k", kind, nullable=flag, choices=tuple(choices), default=default, le=bound,
              computed=flag, prepared=("text_is_list",), closed=flag, parent="p")  # fmt: skip
    again = Key.from_row("k", key.row(), "p")
    assert again == key
    assert type(again.default) is type(default)


@given(st.lists(TYPES, min_size=1, max_size=4))
def test_a_union_is_split_into_the_types_it_was_made_of(parts: list[str]) -> None:
    assert split_type("|".join(parts)) == parts
