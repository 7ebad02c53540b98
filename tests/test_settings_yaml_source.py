"""YAML is read as MaxText's OmegaConf reads it, and what is no YAML is said in one sentence."""

from __future__ import annotations

import json
import math
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.errors import SourceError
from moectl.settings.text_file import MAX_BYTES
from moectl.settings.yaml_source import MAX_NODES, Place, read_mapping, read_scalar
from tests.support import components

SCALARS: dict[str, Any] = {
    "3e-4": 3e-4, "3E4": 3e4, "1e3": 1000.0, "1.e-5": 1e-5, "1.5": 1.5, ".5": 0.5, "-.5": "-.5",
    "1_000": 1000, "1_0.5": 10.5, "1:30": 90, "0x1F": 31, "0b11": 3, "017": 15, "0o17": "0o17",
    "off": False, "on": True, "yes": True, "No": False, "true": True, "y": "y", "n": "n",
    "null": None, "~": None, "": "", ".inf": math.inf, "-.inf": -math.inf,
    "2026-09-09": "2026-09-09",
    "2026-09-09 10:00:00": "2026-09-09 10:00:00", "'off'": "off", '"1e3"': "1e3", "1e": "1e",
    "e5": "e5", "+1": 1, "-4": -4, "1.2.3": "1.2.3", "0.2.5": "0.2.5", "[a, 1e3]": ["a", 1000.0],
    "{a: off}": {"a": False}, "a b": "a b", "!!str 3": "3", "!!float 3": 3.0, "!!int '3'": 3,
    "a#b": "a#b", "http://x:1": "http://x:1",
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SCALARS.items())
def test_a_value_is_read_as_omegaconf_reads_it(text: str, value: Any) -> None:
    found = read_scalar(text, "--set x")
    assert found == value
    assert type(found) is type(value)


def test_nan_is_a_number() -> None:
    assert math.isnan(read_scalar(".nan", "--set x"))


def test_omegaconf_itself_reads_the_same_values() -> None:
    python = components.require("maxtext")
    program = (
        "import json, sys\nfrom omegaconf import OmegaConf\n"
        "for text in json.load(sys.stdin):\n"
        "    found = OmegaConf.to_container(OmegaConf.create('a: ' + text))['a']\n"
        "    print(json.dumps([type(found).__name__, found]))\n"
    )
    texts = [text for text in SCALARS if text]
    done = subprocess.run(
        [str(python), "-c", program],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    ours = [read_scalar(text, "x") for text in texts]
    assert theirs == [[type(value).__name__, value] for value in ours]


def test_every_key_and_value_knows_its_place() -> None:
    document = read_mapping("a:\n  b: [1, {c: 2}]\nd: x\n", "run.yaml")
    assert document.data == {"a": {"b": [1, {"c": 2}]}, "d": "x"}
    assert document.place("a", "b") == Place(2, 3)
    assert document.place("a", "b", 1, "c") == Place(2, 11)
    assert document.place("d") == Place(3, 1)
    assert document.place("a", "none", "none") == Place(1, 1)
    assert document.place("none") is None


def test_an_empty_file_says_nothing() -> None:
    assert read_mapping("# only a comment\n", "run.yaml").data == {}


def test_an_alias_repeats_its_value() -> None:
    assert read_mapping("a: &x [1]\nb: *x\n", "f").data == {"a": [1], "b": [1]}


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a: &a {b: 1, d: 2}\nc:\n  <<: *a\n  b: 5\n", {"b": 5, "d": 2}),
        ("a: &a {b: 1}\ne: &e {b: 2, f: 3}\nc: {<<: [*a, *e]}\n", {"b": 1, "f": 3}),
    ],
)
def test_a_merge_key_brings_in_what_the_mapping_does_not_say(
    text: str, data: dict[str, int]
) -> None:
    assert read_mapping(text, "f").data["c"] == data == yaml.safe_load(text)["c"]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)
BROKEN = {
    "duplicate": ("a: 1\nb: 2\na: 3\n", 3, "the key 'a' stands twice (first in line 1)"),
    "nested duplicate": ("a:\n  b: 1\n  b: 2\n", 3, "'b' stands twice"),
    "itself": ("a: 1\nb: &x [*x]\n", 2, "an alias refers to what it stands in"),
    "itself by a key": ("b: &x {c: {d: *x}}\n", 1, "an alias refers to what it stands in"),
    "bomb": (BOMB, 1, "unfold to too many values"),
    "tab": ("a:\n\tb: 1\n", 2, "tab"),
    "deep": ("a: " + "[" * 100 + "]" * 100, 1, "nested too deeply"),
    "very deep": ("a: " + "[" * 30_000, 1, "nest"),
    "binary": ("a: !!binary aGk=\n", 1, "tag"),
    "merge": ("a: &a 1\nc:\n  <<: *a\n", 1, "<< wants a mapping"),
    "python tag": ("a: 1\nb: !!python/object/apply:os.system ['true']\n", 2, "tag"),
    "python mapping": ("a: 1\nb: !!python/object:os.system {a: 1}\n", 2, "tag"),
    "own tag": ("a: !mine 3\n", 1, "tag"),
    "own tag on a mapping": ("a: !mine {b: 3}\n", 1, "tag"),
    "set": ("a: !!set {b, c}\n", 1, "tag"),
    "not an int": ("a: !!int x\n", 1, "is not a int"),
    "an empty int": ("a: !!int ''\n", 1, "is not a int"),
    "only a sign": ("a: !!int '-'\n", 1, "is not a int"),
    "an empty float": ("a: !!float ''\n", 1, "is not a float"),
    "not a bool": ("a: !!bool x\n", 1, "is not a bool"),
    "list": ("- a\n", 1, "a mapping of keys is wanted here"),
    "scalar": ("\n\nhello\n", 3, "a mapping of keys is wanted here"),
    "two documents": ("a: 1\n---\nb: 2\n", 2, "another document"),
    "open list": ("a: [1\n", 1, "from line 1 on"),
    "unknown alias": ("a: 1\nb: *x\n", 2, "not YAML"),
    "complex key": ("? [a, b]\n: 1\n", 1, "a key must be a word"),
    "digits": (f"a: {'9' * 5000}\n", 1, "is not a int"),
    "nul": ("a: \0\n", None, "not YAML"),
    "surrogate": ("a: \udcff\n", None, ""),
    "surrogate escape": ('a: "\\udcff"\n', 1, "not YAML"),
    "huge": ("a: " + "x" * MAX_BYTES, None, "larger than 4 MiB"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_told_by_file_line_and_one_sentence(name: str) -> None:
    text, line, sentence = BROKEN[name]
    with pytest.raises(SourceError) as refused:
        read_mapping(text, "run.yaml")
    assert refused.value.line == line
    assert sentence in refused.value.sentence
    said = str(refused.value)
    assert said.startswith(f"run.yaml:{line}: " if line else "run.yaml: ")
    assert len(said.splitlines()) == 1
    assert len(said) < 300


@settings(max_examples=300)
@given(st.text() | st.text(alphabet="ab:-[]{}&*!|>?,'\"#%@`~<=0123456789._ \n\t"))
def test_random_text_raises_nothing_but_source_errors(text: str) -> None:
    for reader in (read_mapping, read_scalar):
        try:
            said = f"f{reader(text, 'f')!r}"
        except SourceError as error:
            said = str(error)
        assert said.startswith("f")


@given(st.binary(max_size=60))
def test_the_text_of_an_argument_in_no_encoding_raises_nothing_else(raw: bytes) -> None:
    text = raw.decode("utf-8", "surrogateescape")
    try:
        said = f"--set x{read_scalar(text, '--set x')!r}"
    except SourceError as error:
        said = str(error)
    assert said.startswith("--set x")


def test_a_file_of_too_many_values_is_not_said_to_have_aliases() -> None:
    text = "".join(f"k{n}: {n}\n" for n in range(MAX_NODES + 1))
    with pytest.raises(SourceError, match=f"more than {MAX_NODES} values"):
        read_mapping(text, "x.yml")
