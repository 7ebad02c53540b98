"""Which values MaxText takes: against pydantic itself, and what its loader does before."""

from __future__ import annotations

import enum
import subprocess
import sys
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, ValidationError

from moectl.facts.maxtext_key import Key
from moectl.facts.maxtext_values import accepts, prepare


class Named(str, enum.Enum):  # noqa: UP042 - as MaxText writes it
    EMPTY = ""
    FP8 = "fp8"


class Plain(enum.Enum):
    A = "a"


class Level(enum.IntEnum):
    LOW = 0
    HIGH = 2


# Annotations of MaxText's kinds and the keys a reader makes of them.
PAIRS: list[tuple[Any, Key]] = [
    (bool, Key("k", "bool")),
    (int, Key("k", "int")),
    (float, Key("k", "float")),
    (str, Key("k", "str")),
    (dict, Key("k", "dict")),
    (dict[str, Any], Key("k", "dict[str]")),
    (list, Key("k", "list")),
    (list[str], Key("k", "list[str]")),
    (list[int], Key("k", "list[int]")),
    (Any, Key("k", "any", nullable=True)),
    (Named, Key("k", "enum", choices=("", "fp8"))),
    (Plain, Key("k", "enum", choices=("a",))),
    (Level, Key("k", "int", choices=(0, 2))),
    (Literal["a", "b"], Key("k", "enum", choices=("a", "b"))),
    (Optional[int], Key("k", "int", nullable=True)),  # noqa: UP045 - as MaxText writes it
    (int | float, Key("k", "int|float")),
    (str | list[str], Key("k", "str|list[str]")),
    (int | list[int] | None, Key("k", "int|list[int]", nullable=True)),
    (Annotated[float, Field(ge=0.0, le=1.0)], Key("k", "float", ge=0.0, le=1.0)),
    (Annotated[int, Field(gt=0)] | None, Key("k", "int", gt=0, nullable=True)),
]
ADAPTERS: list[tuple[TypeAdapter[Any], Key]] = [(TypeAdapter(kind), key) for kind, key in PAIRS]
SCALARS: st.SearchStrategy[object] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-2, 3)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(
        ["6", "6.0", "6.5", "1_0", " 6 ", "yes", "off", "t", "fp8", "nan", "1e3", "0.5"]
    )
)
VALUES: st.SearchStrategy[object] = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(
    st.text(max_size=3) | st.integers(), SCALARS, max_size=2
)  # fmt: skip


def taken(adapter: TypeAdapter[Any], value: object) -> bool:
    """Ask pydantic."""
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


@given(VALUES)
@example(10**400)
@example("9" * 5000)
@example([])
@example({})
@example({1: 2})
@example(2**53 + 1)
@example(-0.0)
@example(float("inf"))
def test_a_value_is_taken_just_when_pydantic_takes_it(value: object) -> None:
    for adapter, key in ADAPTERS:
        assert accepts(key, value) == taken(adapter, value), (key.type, value)


def test_an_opaque_key_takes_everything() -> None:
    key = Key("k", "int", opaque=True)
    values: list[object] = [None, "x", [], {}]
    assert [accepts(key, value) for value in values] == [True] * 4


@pytest.mark.parametrize(
    ("prepared", "value", "known"),
    [
        ((), "none", None),
        ((), "None", None),
        ((), "NONE", None),
        ((), "none ", "none "),
        ((), "", ""),
        ((), ["none"], ["none"]),
        ((), "[a]", "[a]"),
        (("empty_is_none",), "", None),
        (("empty_is_none",), "x", "x"),
        (("none_is_empty",), None, ""),
        (("none_is_empty",), "none", ""),
        (("text_is_list",), "messages", ["messages"]),
        (("text_is_list",), "['a', 'b']", ["a", "b"]),
        (("text_is_list",), "('a', 'b')", ["a", "b"]),
        (("text_is_list",), "(3)", ["3"]),
        (("text_is_list",), "['a\\d']", ["a\\d"]),
        (("text_is_list",), "[a", ["[a"]),
        (("text_is_list",), "[a]", ["[a]"]),
        (("text_is_list",), "none", None),
        (("text_is_list",), ["a"], ["a"]),
        (("text_is_list",), 5, 5),
    ],
)
def test_the_loader_changes_single_values_first(
    prepared: tuple[str, ...], value: object, known: object
) -> None:
    assert prepare(Key("k", "str", prepared=prepared), value) == known


def test_a_hostile_list_text_is_no_list() -> None:
    key = Key("k", "list[str]", prepared=("text_is_list",))
    for text in (
        "[" * 100_000 + "]" * 100_000,
        "[__import__('os')]",
        "[\0]",
        "[" + "-" * 9999 + "]",
    ):
        found = prepare(key, text)
        assert found in ([text], text)


def test_plain_values_need_no_import_of_pydantic() -> None:
    program = """
import sys
from moectl.facts.maxtext_key import Key
from moectl.facts.maxtext_values import accepts
values = [("int", 1), ("int|float", 1.5), ("float", 1), ("str", "x"), ("bool", True),
          ("list[str]", ["a"]), ("dict[str]", {"a": 1}), ("str|list[str]", "x")]
assert all(accepts(Key("k", kind), value) for kind, value in values)
assert accepts(Key("k", "enum", choices=("a",)), "a")
assert accepts(Key("k", "int", ge=0, choices=(0, 1)), 1)
assert not [name for name in sys.modules if name.startswith("pydantic")]
assert accepts(Key("k", "int"), "6")
assert "pydantic_core" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)  # noqa: PLW1510
    assert (done.returncode, done.stderr) == (0, "")
