"""Rows made from models: every kind of annotation becomes what it says."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from moectl.spec.base import MaxTextKey, SpecModel
from moectl.spec.table_build import leaves


class Inner(SpecModel):
    count: Annotated[int, Field(ge=1, le=9)] = Field(2, description="Count.")


class Outer(SpecModel):
    flag: bool = Field(False, description="Flag.")
    rate: Annotated[float | None, Field(gt=0), MaxTextKey("rate")] = Field(None, description="R.")
    word: Annotated[str, Field(pattern="^a$")] | None = Field(None, description="Word.")
    choice: Literal["x", "y"] | Literal[""] = Field("", description="Choice.")
    names: list[str] = Field(default_factory=list, description="Names.")
    numbers: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict, description="N.")
    plain: dict[str, str | int | float] = Field(default_factory=dict, description="P.")
    anything: dict[str, Any] = Field(default_factory=dict, description="A.")
    inner: Inner = Field(default_factory=Inner, description="Inner.")
    maybe: Inner | None = Field(None, description="Maybe.")
    renamed_: int = Field(1, alias="global", description="G.")


ROWS = {row["path"]: row for row in leaves(Outer)}


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("flag", {"kind": "bool", "default": False, "doc": "Flag."}),
        (
            "rate",
            {
                "kind": "float", "nullable": True, "minimum": 0, "exclusive": True,
                "maxtext": "rate", "doc": "R.",
            },
        ),
        ("word", {"kind": "str", "nullable": True, "pattern": "^a$", "doc": "Word."}),
        ("choice", {"kind": "enum", "choices": ["x", "y", ""], "default": "", "doc": "Choice."}),
        ("names", {"kind": "list", "items": "str", "doc": "Names."}),
        ("numbers.*", {"kind": "int", "minimum": 1, "doc": "N."}),
        ("plain.*", {"kind": "text", "doc": "P."}),
        ("anything.*", {"kind": "any", "doc": "A."}),
        ("inner.count", {"kind": "int", "minimum": 1, "maximum": 9, "default": 2, "doc": "Count."}),
        ("maybe", {"kind": "model", "nullable": True, "doc": "Maybe."}),
        ("global", {"kind": "int", "default": 1, "doc": "G."}),
    ],
)  # fmt: skip
def test_an_annotation_becomes_its_row(path: str, row: dict[str, Any]) -> None:
    assert ROWS[path] == {"path": path, **row}


def test_rows_stand_in_the_order_of_declaration_and_a_section_is_its_leaves() -> None:
    assert list(ROWS) == [
        "flag", "rate", "word", "choice", "names", "numbers.*", "plain.*", "anything.*",
        "inner.count", "maybe", "maybe.count", "global",
    ]  # fmt: skip
