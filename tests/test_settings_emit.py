"""Values are written so that every YAML reader gives the same values back."""

from __future__ import annotations

import json
import math
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from moectl.settings.emit import flow, quoted
from moectl.settings.yaml_source import read_mapping, read_scalar
from tests.support import components

TEXTS = [
    "", "off", "1e3", "null", "~", "a: b", "# no", "- x", "'", '"', "\\", "\\n", "\n", "\t", "é",
    "\u2028", "\x85", "\x7f", "\ufeff", "\ufffe", "\U0001f680", "${x}", "\\${x}", "\\\\${x}",
    "${oc.env:HOME}", "$", "${", "a$${b}", "!!int 3", "&a", "*a", "%", "@", "`", "\0",
]  # fmt: skip


def values(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=8,
    )


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in type too."""
    return repr(one) == repr(other)


def test_every_value_is_read_back_as_it_was_by_the_project_and_by_plain_yaml() -> None:
    @given(values(st.text().filter(lambda text: "${" not in text)))
    def check(value: Any) -> None:
        text = f"a: {flow(value)}\n"
        assert "\n" not in flow(value)
        assert same(read_mapping(text, "f").data["a"], value)
        assert same(yaml.safe_load(text)["a"], value)

    check()


@pytest.mark.parametrize("text", TEXTS)
def test_odd_text_stays_on_one_line_of_printable_characters(text: str) -> None:
    said = quoted(text)
    assert said[0] == said[-1] == '"'
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("text", [text for text in TEXTS if "${" not in text])
def test_odd_text_is_read_back(text: str) -> None:
    assert read_scalar(quoted(text), "x") == text


def test_omegaconf_reads_back_every_text_and_resolves_none_of_it() -> None:
    python = components.require("maxtext")
    program = (
        "import json, sys\nfrom omegaconf import OmegaConf\n"
        "for text in json.load(sys.stdin):\n"
        "    made = OmegaConf.create('a: ' + text)\n"
        "    print(json.dumps([made.a, OmegaConf.to_container(made, resolve=True)['a']]))\n"
    )
    done = subprocess.run(
        [str(python), "-c", program],
        input=json.dumps([flow(text) for text in TEXTS]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    assert theirs == [[text, text] for text in TEXTS]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "null"), (True, "true"), (3, "3"), (1e-5, "1.0e-05"), (1e16, "1.0e+16"),
        (0.1, "0.1"), (math.inf, ".inf"), (-math.inf, "-.inf"), (math.nan, ".nan"),
        ("off", '"off"'), ([1, "a"], '[1, "a"]'), ({"a": [True]}, '{"a": [true]}'), ([], "[]"),
        ({}, "{}"), ("${x}", '"\\\\${x}"'),
    ],
)  # fmt: skip
def test_a_value_is_written_like_this(value: Any, said: str) -> None:
    assert flow(value) == said


@given(st.floats(allow_nan=False))
def test_a_float_keeps_every_bit(value: float) -> None:
    found = read_scalar(flow(value), "x")
    assert isinstance(found, float)
    assert found.hex() == value.hex()
