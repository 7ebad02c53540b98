"""Fields of pydantic classes, read from their source as pydantic itself would see them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from moectl.evidence.maxtext_python import Class, Reader
from moectl.evidence.maxtext_tree import TYPES, Tree
from moectl.evidence.maxtext_types import Fields
from moectl.facts.maxtext_key import Key

HEAD = """
import copy
import enum
import os
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, NewType, Optional, Union
from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

class Colour(str, Enum):
  RED = "red"
  NONE = ""
  CRIMSON = "red"

class Level(enum.IntEnum):
  LOW = 0
  HIGH = 2

class Plain(Enum):
  A = "a"

class Spelled(Enum):
  A = enum.auto()

PathStr = str
Axis = NewType("Axis", str)
Name = Literal["default", "other"]
AXES: list[str] = ["data", "fsdp"]
NO_LOOP = None | int

class Inner(BaseModel):
  model_config = ConfigDict(extra="forbid")
  rank: NonNegativeInt = Field(0)
"""


def class_of(folder: Path, body: str) -> tuple[Fields, Class]:
    """Return the class X of a module that starts with HEAD."""
    path = folder / TYPES
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + body, encoding="utf-8")
    reader = Reader(Tree("tree", folder))
    found = reader.find(reader.module(TYPES), "X")
    assert isinstance(found, Class)
    return Fields(reader), found


def key(folder: Path, annotation: str, default: str = "Field(None)") -> Key:
    """Read one field."""
    fields, cls = class_of(folder, f"\nclass X(BaseModel):\n  x: {annotation} = {default}\n")
    return fields.keys(cls)["x"]


@pytest.mark.parametrize(
    ("annotation", "kind", "nullable"),
    [
        ("bool", "bool", False),
        ("int", "int", False),
        ("float", "float", False),
        ("str", "str", False),
        ("PathStr", "str", False),
        ("Axis", "str", False),
        ("'int'", "int", False),
        ("Any", "any", True),
        ("int | None", "int", True),
        ("None | PathStr", "str", True),
        ("Optional[float]", "float", True),
        ("Union[int, str, None]", "int|str", True),
        ("NO_LOOP", "int", True),
        ("int | float", "int|float", False),
        ("list", "list", False),
        ("list[str]", "list[str]", False),
        ("list[Any]", "list", False),
        ("list[int | float]", "list[int|float]", False),
        ("list[list[int]]", "list[list[int]]", False),
        ("None | int | list[int]", "int|list[int]", True),
        ("dict", "dict", False),
        ("dict[str, Any]", "dict[str]", False),
        ("Annotated[int, Field(ge=1)]", "int", False),
        ("Inner", "dict", False),
    ],
)
def test_an_annotation_is_told_in_the_closed_vocabulary(
    tmp_path: Path, annotation: str, kind: str, nullable: bool
) -> None:
    found = key(tmp_path, annotation)
    assert (found.type, found.nullable, found.opaque) == (kind, nullable, False)


@pytest.mark.parametrize(
    ("annotation", "kind", "choices"),
    [
        ("Colour", "enum", ("red", "")),
        ("None | Colour", "enum", ("red", "")),
        ("Plain", "enum", ("a",)),
        ("Level", "int", (0, 2)),
        ("Name", "enum", ("default", "other")),
        ("Literal['x', None]", "enum", ("x",)),
        ("Literal['x'] | Plain", "enum", ("x", "a")),
        ("list[Name]", "list[enum]", ("default", "other")),
    ],
)
def test_enums_and_literals_give_their_values(
    tmp_path: Path, annotation: str, kind: str, choices: tuple[object, ...]
) -> None:
    found = key(tmp_path, annotation)
    assert (found.type, found.choices, found.opaque) == (kind, choices, False)
    assert found.nullable == ("None" in annotation)


@pytest.mark.parametrize(
    ("annotation", "default", "bounds"),
    [
        ("int", "Field(1, ge=0, le=9)", {"ge": 0, "le": 9}),
        ("float", "Field(0.5, gt=0, lt=1.0)", {"gt": 0, "lt": 1.0}),
        ("int", "Field(1, ge=-1.0)", {"ge": -1}),
        ("PositiveInt | None", "Field(None)", {"gt": 0}),
        ("NonNegativeFloat", "Field(0.0, le=2 * 3)", {"ge": 0, "le": 6}),
        ("Annotated[int, Field(ge=1)]", "Field(1, le=4)", {"ge": 1, "le": 4}),
        ("int", "1", {}),
    ],
)
def test_bounds_come_from_the_type_and_from_the_field(
    tmp_path: Path, annotation: str, default: str, bounds: dict[str, float]
) -> None:
    found = key(tmp_path, annotation, default)
    assert found.bounds == bounds
    assert not found.opaque


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        ("complex", "Field(1j)"),
        ("Nowhere", "Field(None)"),
        ("tuple[int, ...]", "Field((1,))"),
        ("Spelled", "Field(None)"),
        ("make()", "Field(None)"),
        ("'int ['", "Field(None)"),
        ("dict[str, int]", "Field({})"),
        ("dict[str]", "Field({})"),
        ("list[int | None]", "Field([])"),
        ("Inner | str", "Field('')"),
        ("PositiveInt | float", "Field(1)"),
        ("Level | float", "Field(1)"),
        ("str", "Field('', pattern='a+')"),
        ("str", "Field('', alias='y')"),
        ("int", "Field(1, ge=LIMIT)"),
        ("int", "Field(1, ge=0.5)"),
        ("Annotated[int, Strange()]", "1"),
        (" | ".join(["int"] * 60), "1"),
    ],
)
def test_what_a_static_reader_cannot_judge_is_marked_opaque(
    tmp_path: Path, annotation: str, default: str
) -> None:
    assert key(tmp_path, annotation, default).opaque


@pytest.mark.parametrize(
    ("default", "known"),
    [
        ("5", 5),
        ("Field(5)", 5),
        ("Field(default=5)", 5),
        ("Field(default_factory=list)", []),
        ("Field(default_factory=lambda: copy.deepcopy(AXES))", ["data", "fsdp"]),
        ("Field(default_factory=Inner)", {"rank": 0}),
        ("Field(Colour.RED)", "red"),
        ("Colour.RED.value", "red"),
        ("Field(None, description='no default')", None),
    ],
)
def test_the_default_is_worked_out(tmp_path: Path, default: str, known: object) -> None:
    found = key(tmp_path, "Any", default)
    assert (found.default, found.computed, found.required) == (known, False, False)


def test_a_default_that_the_source_computes_or_lacks_is_told_apart(tmp_path: Path) -> None:
    body = "\nclass X(BaseModel):\n  a: str = os.getcwd()\n  b: int\n  c: int = Field(...)\n"
    body += "  d: int = Field(ge=1)\n"
    fields, cls = class_of(tmp_path, body)
    keys = fields.keys(cls)
    assert [(k.computed, k.required) for k in keys.values()] == [
        (True, False),
        (False, True),
        (False, True),
        (False, True),
    ]


def test_private_names_settings_and_class_variables_are_no_fields(tmp_path: Path) -> None:
    body = (
        "\nclass X(BaseModel):\n  model_config: ConfigDict = ConfigDict()\n  _p: int = 1\n"
        "  c: ClassVar[int] = 1\n  plain = 3\n  x: int = 1\n  def f(self): pass\n"
    )
    fields, cls = class_of(tmp_path, body)
    assert list(fields.keys(cls)) == ["x"]


@pytest.mark.parametrize(
    "validator",
    [
        "  @field_validator('x', mode='before')\n  @classmethod\n  def f(cls, v): return v\n",
        "  @field_validator('*')\n  @classmethod\n  def f(cls, v): return v\n",
        "  _v = field_validator('x', mode='before')(lambda v: v)\n",
        "  _v = field_validator(*NAMES)(lambda v: v)\n",
    ],
)
def test_a_field_with_a_validator_of_its_own_is_opaque(tmp_path: Path, validator: str) -> None:
    fields, cls = class_of(tmp_path, f"\nclass X(BaseModel):\n  x: int = 1\n{validator}")
    found = fields.keys(cls)["x"]
    assert found.opaque
    assert found.type == "int"


def test_the_nearest_declaration_wins_and_says_where_it_stands(tmp_path: Path) -> None:
    body = (
        "\nclass A(BaseModel):\n  x: int = 1\n  y: int = 1\n"
        "class B(BaseModel):\n  x: str = 'b'\n  z: int = 3\n"
        "class DerivedValues(BaseModel):\n  d: None | int = None\n"
        "class X(A, B, DerivedValues):\n  y: float = Field(2.5)\n  w: Inner = Inner\n"
    )
    fields, cls = class_of(tmp_path, body)
    keys = fields.keys(cls)
    assert list(keys) == ["d", "x", "z", "y", "w"]
    assert (keys["x"].type, keys["x"].default, keys["x"].group) == ("int", 1, "A")
    assert (keys["y"].type, keys["y"].default, keys["y"].group) == ("float", 2.5, "X")
    assert keys["d"].derived
    assert not keys["x"].derived
    line = (HEAD + body).splitlines().index("  y: float = Field(2.5)") + 1
    assert keys["y"].where == f"{TYPES}:{line}"
    model = fields.model(cls, "w")
    assert model is not None
    assert model.node.name == "Inner"
    assert fields.model(cls, "x") is None
    assert fields.closed(model)
    assert not fields.closed(cls)


# ---- the same classes, read here and imported by pydantic


def imported(folder: Path) -> ModuleType:
    """Import the module that the test wrote."""
    spec = importlib.util.spec_from_file_location("written_by_a_test", folder / TYPES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["written_by_a_test"] = module
    spec.loader.exec_module(module)
    return module


FIELD = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from(
        ["int = 1", "str = 'x'", "float | None = None", "int", "list[str] = Field(['a'])"]
    ),
)
CLASS = st.lists(FIELD, max_size=3, unique_by=lambda item: item[0])


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(CLASS, min_size=1, max_size=4), CLASS, st.booleans())
def test_inheritance_is_resolved_as_pydantic_resolves_it(
    tmp_path: Path, bases: list[list[tuple[str, str]]], own: list[tuple[str, str]], chain: bool
) -> None:
    body = ""
    for number, fields in enumerate(bases):
        above = f"B{number - 1}" if chain and number else "BaseModel"
        lines = [f"  {name}: {rest}" for name, rest in fields] or ["  pass"]
        body += f"\nclass B{number}({above}):\n" + "\n".join(lines) + "\n"
    named = [f"B{number}" for number in range(len(bases))]
    lines = [f"  {name}: {rest}" for name, rest in own] or ["  pass"]
    body += f"\nclass X({', '.join(named[-1:] if chain else named)}):\n" + "\n".join(lines) + "\n"
    reader, cls = class_of(tmp_path, body)
    real = imported(tmp_path).X
    assert issubclass(real, BaseModel)
    found = reader.keys(cls)
    assert list(found) == list(real.model_fields)
    for name, info in real.model_fields.items():
        default = info.get_default()
        assert found[name].required == (default is PydanticUndefined)
        if default is not PydanticUndefined:
            assert found[name].default == default


@pytest.mark.parametrize(
    ("config", "closed"),
    [
        ("model_config = {'extra': 'forbid'}", True),
        ("model_config = ConfigDict(extra='allow')", False),
        ("model_config = ConfigDict(title='t')", True),
        ("model_config = {'title': 't'}", True),
        ("model_config = settings", True),
        ("pass", True),
    ],
)
def test_whether_a_class_refuses_other_keys_is_inherited(
    tmp_path: Path, config: str, closed: bool
) -> None:
    fields, cls = class_of(tmp_path, f"\nclass X(Inner):\n  {config}\n")
    assert fields.closed(cls) == closed


def test_classes_that_are_neither_enum_nor_model_are_opaque(tmp_path: Path) -> None:
    body = (
        "\nclass Pair(Enum):\n  A = (1, 2)\nclass Free:\n  pass\n"
        "class Late(BaseModel):\n  here: str = os.getcwd()\n"
        "class X(BaseModel):\n  a: Pair = None\n  b: Free = None\n"
        "  c: Late = Field(default_factory=Late)\n  d: int = Free\n"
    )
    fields, cls = class_of(tmp_path, body)
    keys = fields.keys(cls)
    assert [key.opaque for key in keys.values()] == [True, True, False, False]
    assert keys["c"].computed
