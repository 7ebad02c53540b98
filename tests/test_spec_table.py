"""The flat table: it is the models, and whatever it takes the models take too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from moectl.facts import maxtext
from moectl.resources import package
from moectl.spec.run import RunSpec
from moectl.spec.table import TABLE, Field, build, table

RELEASE = "0.2.5"
FIELDS = table().fields
# What breaks a check by pattern, by type or by size.
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 100, 101, 10**20, 10**400, 0.0, -0.5, 1.0, 1e308,
    float("inf"), float("-inf"), float("nan"), "", "a", "a\n", "1\n", "01:00:00", "4-12", "٣",
    "sha256:" + "a" * 64, "sha256:" + "a" * 64 + "\n", "\udcff", [], ["a"], {}, {"a": 1},
]  # fmt: skip


def values() -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    return st.sampled_from(ODD) | scalars | st.lists(scalars, max_size=2)


def faults(field: Field, value: Any) -> list[str]:
    """Return what pydantic, strictly, says against a value at a field."""
    words = field.path.replace("*", "entry").split(".")
    nested: Any = value
    for word in reversed(words):
        nested = {word: nested}
    try:
        RunSpec.model_validate(nested, strict=True)
    except ValidationError as error:
        return [fault["msg"] for fault in error.errors() if [*fault["loc"]][: len(words)] == words]
    return []


def test_the_shipped_table_is_what_the_models_make() -> None:
    assert package().joinpath("spec", TABLE).read_text("utf-8") == build()


@pytest.mark.parametrize("path", FIELDS)
def test_every_odd_value_the_table_takes_the_models_take(path: str) -> None:
    field = FIELDS[path]
    taken = [value for value in ODD if field.accepts(value)]
    assert [(value, said) for value in taken if (said := faults(field, value))] == []


@settings(deadline=None, max_examples=400)
@given(path=st.sampled_from(sorted(FIELDS)), value=values())
def test_whatever_the_table_takes_the_models_take(path: str, value: Any) -> None:
    assert not FIELDS[path].accepts(value) or faults(FIELDS[path], value) == []


@pytest.mark.parametrize("path", FIELDS)
def test_every_field_is_described_in_one_sentence(path: str) -> None:
    doc = FIELDS[path].doc
    assert len(doc) > 8
    assert doc[0].isupper() or doc[0].isdigit() or not doc[0].isascii() or "," in doc or "." in doc
    assert doc.endswith(".")
    assert "\n" not in doc


@pytest.mark.parametrize("path", FIELDS)
def test_a_default_is_legal(path: str) -> None:
    field = FIELDS[path]
    assert field.default is None or field.kind in {"list", "model"} or field.accepts(field.default)


def test_every_maxtext_key_has_one_owner_and_is_known_to_the_release() -> None:
    keys = [field.maxtext for field in FIELDS.values() if field.maxtext]
    assert len(keys) == len(set(keys)) == len(table().owners)
    assert [key for key in keys if maxtext.load(RELEASE).key(key) is None] == []


@pytest.mark.parametrize("path", [path for path, field in FIELDS.items() if field.maxtext])
def test_what_an_owning_field_takes_maxtext_takes(path: str) -> None:
    field = FIELDS[path]
    legal = [value for value in field.choices or (field.default,) if value is not None]
    said = [maxtext.load(RELEASE).check(field.maxtext, value) for value in legal]
    assert [clause for clause in said if clause] == []


def test_an_entry_of_a_map_is_the_leaf_of_the_map() -> None:
    assert table().field("environment.NCCL_DEBUG") is FIELDS["environment.*"]
    assert table().field("environment.A.B") is None
    assert table().field("nothing") is None


def test_sections_and_maps_are_sections_and_leaves_are_not() -> None:
    assert table().is_section("batch")
    assert table().is_section("environment")
    assert not table().is_section("batch.per_device")
    assert not table().is_section("bat")


@pytest.mark.parametrize(
    ("path", "value", "taken"),
    [
        ("gpus", 128, True),
        ("gpus", 0, False),
        ("gpus", True, False),
        ("gpus", 128.0, False),
        ("gpus", None, True),
        ("batch.per_device", 0, False),
        ("batch.per_device", 0.5, True),
        ("optimizer.warmup_fraction", 1, True),
        ("optimizer.warmup_fraction", 1.01, False),
        ("optimizer.learning_rate", float("nan"), False),
        ("precision.dtype", "bfloat16", True),
        ("precision.dtype", "fp8", False),
        ("debug", 1, False),
        ("name", "run-1", True),
        ("name", "-run", False),
        ("environment.A", True, False),
        ("xla_flags.a", True, True),
    ],
)
def test_bounds_types_and_patterns_are_kept(path: str, value: Any, taken: bool) -> None:
    field = table().field(path)
    assert field is not None
    assert field.accepts(value) is taken
