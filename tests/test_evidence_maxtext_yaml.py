"""MaxText's YAML is read as OmegaConf reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import SourceError
from moectl.evidence.maxtext_yaml import load

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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", "base.yml:3: .*key a stands here twice"),
        ("x: {b: 1, b: 2}\n", "base.yml:1: .*key b stands here twice"),
        ("a: [1\nb: 2\n", r"base.yml:\d: is no YAML"),
        ("a: 'x\n", r"base.yml:\d: is no YAML"),
        ("- 1\n", "not a mapping"),
        ("5\n", "not a mapping"),
        ("1: 2\n", "key 1 has a value that JSON lacks"),
        ("a: {1: 2}\n", "key 'a' has a value that JSON lacks"),
        ("a: .inf\n", "key 'a' has a value that JSON lacks"),
        ("a: [.nan]\n", "key 'a' has a value that JSON lacks"),
        ("a: !!binary aGk=\n", "key 'a' has a value that JSON lacks"),
        ("a: !!python/object/apply:os.system [id]\n", "base.yml:1: is no YAML"),
        ("a: \x01\n", "is no YAML"),
        ("a: &b [*b]\n", "key 'a' has a value that JSON lacks"),
        ("k: " + "[" * 200 + "]" * 200 + "\n", "key 'k' has a value that JSON lacks"),
    ],
)
def test_what_a_catalogue_cannot_hold_is_refused_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(SourceError, match=sentence):
        load(text, "base.yml")


def test_aliases_that_explode_are_counted_and_not_followed() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    with pytest.raises(SourceError, match="more than the 10000 nodes"):
        load("\n".join(lines), "base.yml")
