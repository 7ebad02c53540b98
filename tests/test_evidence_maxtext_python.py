"""The reader of Python that runs none of it: names, constants, the order of classes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import SourceError
from moectl.evidence.maxtext_python import Class, Expression, Module, Reader, Unseen
from moectl.evidence.maxtext_tree import TYPES, Tree

OTHER = "common/common_types.py"


def reader(folder: Path, types: str, other: str = "") -> Reader:
    """Return a reader of a tree with two modules."""
    for name, text in ((TYPES, types), (OTHER, other)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return Reader(Tree("tree", folder))


def value(folder: Path, expression: str, before: str = "", other: str = "") -> object:
    """Work out `expression` at the end of a module."""
    read = reader(folder, f"{before}\nRESULT = {expression}\n", other)
    module = read.module(TYPES)
    return read.value(module, module.values["RESULT"])


@pytest.mark.parametrize(
    ("expression", "known"),
    [
        ("None", None),
        ("10_000", 10_000),
        ("-1", -1),
        ("-0.5", -0.5),
        ("2 * 1024 ** 3", 2147483648),
        ("'a' 'b' + 'c'", "abc"),
        ("('a', ['b', 1.5])", ["a", ["b", 1.5]]),
        ("{'k': (1, 2)}", {"k": [1, 2]}),
        ("list()", []),
        ("dict()", {}),
        ("lambda: [1]", [1]),
        ("copy.deepcopy(AXES)", ["data", "fsdp"]),
        ("Colour.RED", "red"),
        ("Colour.RED.value", "red"),
        ("common.Level.HIGH", 2),
        ("LIMIT", 7),
        (r"'a\d'", "a\\d"),
    ],
)
def test_a_constant_expression_has_the_value_that_running_it_would_give(
    tmp_path: Path, expression: str, known: object
) -> None:
    before = (
        "import copy\nimport enum\nfrom maxtext.common import common_types as common\n"
        "from maxtext.common.common_types import LIMIT\n"
        "class Colour(str, enum.Enum):\n  RED = 'red'\nAXES: list[str] = ['data', 'fsdp']\n"
    )
    other = "import enum\nLIMIT = 7\nclass Level(enum.IntEnum):\n  LOW = 1\n  HIGH = 2\n"
    found = value(tmp_path, expression, before, other)
    assert found == known
    assert type(found) is type(known)


@pytest.mark.parametrize(
    "expression",
    [
        "os.path.join('a', 'b')",
        "print('ran')",
        "9 ** 9 ** 9",
        "2 ** 100000",
        "'a' * 10 ** 9",
        "1 / 0",
        "'a' + 1",
        "[1] + [2]",
        "b'bytes'",
        "f'{1}'",
        "{1: 2}",
        "{**{'a': 1}}",
        "nowhere",
        "Colour.BLUE",
        "SELF",
        "int('5')",
        "(lambda x: x)(1)",
        "-" * 200 + "1",
    ],
)
def test_what_only_a_run_would_tell_is_not_guessed(tmp_path: Path, expression: str) -> None:
    before = "import enum\nclass Colour(enum.Enum):\n  RED = 'red'\nSELF = SELF\n"
    with pytest.raises(Unseen):
        value(tmp_path, expression, before)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False)
)


@given(
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_every_plain_literal_comes_back(known: object) -> None:
    node = ast.parse(repr(known), mode="eval").body
    assert Reader(Tree("tree", None)).value(Module("none.py"), node) == known


def test_a_name_is_followed_through_imports_and_relative_imports(tmp_path: Path) -> None:
    types = (
        "from ..common.common_types import Mode as Kind\nfrom pydantic import BaseModel\n"
        "import enum\n"
    )
    read = reader(tmp_path, types, "class Mode:\n  pass\nALIAS = Mode\n")
    module = read.module(TYPES)
    found = read.find(module, "Kind")
    assert isinstance(found, Class)
    assert found.node.name == "Mode"
    assert found.module.path == OTHER
    assert read.find(module, "BaseModel") == "pydantic.BaseModel"
    assert read.find(module, "enum.IntEnum") == "enum.IntEnum"
    assert read.find(module, "int") == "builtins.int"
    assert isinstance(read.find(read.module(OTHER), "ALIAS"), Expression)


def test_modules_that_import_each_other_in_a_circle_end(tmp_path: Path) -> None:
    read = reader(
        tmp_path,
        "from maxtext.common.common_types import Lost\n",
        "from maxtext.configs.types import Lost\n",
    )
    assert read.find(read.module(TYPES), "Lost") == "builtins.Lost"


def test_classes_are_ordered_as_python_orders_them(tmp_path: Path) -> None:
    text = (
        "class A: pass\nclass B(A): pass\nclass C(A): pass\nclass D(B, C): pass\n"
        "class E(D, A): pass\n"
    )
    scope: dict[str, type] = {}
    exec(text, scope)  # noqa: S102 - five classes of this test
    read = reader(tmp_path, text)
    found = read.find(read.module(TYPES), "E")
    assert isinstance(found, Class)
    names = [item.node.name for item in read.order(found) if isinstance(item, Class)]
    assert names == [cls.__name__ for cls in scope["E"].__mro__[:-1]]


@pytest.mark.parametrize(
    "text",
    [
        "class X(Y): pass\nclass Y(X): pass\n",
        "class A: pass\nclass B(A): pass\nclass X(A, B): pass\n",
        "class X(make()): pass\n",
    ],
)
def test_bases_without_an_order_are_not_guessed(tmp_path: Path, text: str) -> None:
    read = reader(tmp_path, text)
    found = read.find(read.module(TYPES), "X")
    assert isinstance(found, Class)
    with pytest.raises(Unseen):
        read.order(found)


def test_a_tower_of_diamonds_is_ordered_without_an_explosion(tmp_path: Path) -> None:
    lines = ["class L0: pass", "class R0: pass"]
    for n in range(1, 18):
        lines += [f"class L{n}(L{n - 1}, R{n - 1}): pass", f"class R{n}(L{n - 1}, R{n - 1}): pass"]
    read = reader(tmp_path, "\n".join(lines))
    found = read.find(read.module(TYPES), "L17")
    assert isinstance(found, Class)
    assert len(read.order(found)) == 35


@pytest.mark.parametrize("text", ["def (", "a\0b", "(" * 5000 + ")" * 5000, "\tx = 1\n y = 2"])
def test_what_is_no_python_is_refused_with_its_file(tmp_path: Path, text: str) -> None:
    read = reader(tmp_path, text)
    with pytest.raises(SourceError, match=r"types\.py"):
        read.module(TYPES)
