"""Values are read as OmegaConf reads them, measured with OmegaConf itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import SourceError
from moectl.settings.yaml_source import read_mapping


def load(text: str, path: str) -> dict[str, Any]:
    return read_mapping(text, path).data


# What OmegaConf 2.4.0 yields, measured with OmegaConf.load.
MEASURED: list[tuple[str, object]] = [
    ("3e-4", 0.0003),
    ("1.e-05", 1e-05),
    ("1.0e-6", 1e-06),
    ("1e5", 100000.0),
    ("12e03", 12000.0),
    (".5", 0.5),
    (".5e-3", 0.0005),
    (".5e3", ".5e3"),
    ("1.", 1.0),
    ("+1.5", 1.5),
    ("1_0.5", 10.5),
    ("1__0", 10),
    ("10_000", 10000),
    ("10_000_000_000", 10000000000),
    ("1_e5", "1_e5"),
    ("e5", "e5"),
    ("0x1f", 31),
    ("0b11", 3),
    ("017", 15),
    ("0o17", "0o17"),
    ("08", "08"),
    ("1:30", 90),
    ("1:30.5", 90.5),
    ("yes", True),
    ("On", True),
    ("off", False),
    ("True", True),
    ("y", "y"),
    ("n", "n"),
    ("null", None),
    ("~", None),
    ("None", "None"),
    ("none", "none"),
    ('""', ""),
    ("2024-01-01", "2024-01-01"),
    ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
    ("'6'", "6"),
    ("[1, [a, 2.0]]", [1, ["a", 2.0]]),
    ("{a: {b: yes}}", {"a": {"b": True}}),
    ("", None),
]


@pytest.mark.parametrize(("text", "known"), MEASURED)
def test_a_scalar_is_what_omegaconf_makes_of_it(text: str, known: object) -> None:
    found = load(f"k: {text}\n", "base.yml")["k"]
    assert found == known
    assert type(found) is type(known)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_that_python_prints_is_a_float(number: float) -> None:
    assert load(f"k: {number!r}\n", "base.yml") == {"k": number}


def test_an_empty_document_has_no_keys_and_anchors_are_followed() -> None:
    assert load("# nothing\n", "base.yml") == {}
    merged = load("x: &a {p: 1}\ny:\n  <<: *a\n  q: 2\n", "base.yml")
    assert merged == {"x": {"p": 1}, "y": {"p": 1, "q": 2}}


def test_own_keys_win_over_merged_ones_and_the_first_of_several_mappings_wins() -> None:
    text = "a: &a {p: 1, q: 1}\nb: &b {p: 2, r: 2}\nc:\n  r: 3\n  <<: [*a, *b]\n"
    assert load(text, "f")["c"] == {"p": 1, "q": 1, "r": 3}


@pytest.mark.parametrize("text", ["x: 1\n<<: 3\n", "<<: [1]\n", "a: &a\n  <<: *a\n"])
def test_a_merge_of_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match="f:"):
        load(text, "f")
