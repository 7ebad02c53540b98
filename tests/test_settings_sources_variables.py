"""KEY=VALUE files and bare flags: every character of a value knows its place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.settings.sources.flags_text import read_flags
from moectl.settings.sources.variables import read_pairs
from moectl.workload import MARK, Text


def plain(text: str) -> dict[str, str]:
    return {name: value.text for name, value in read_pairs(text, "a.env").items()}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("A=1\nB=2\n", {"A": "1", "B": "2"}),
        ("A=1 B=eth0", {"A": "1", "B": "eth0"}),
        ("NCCL_SOCKET_IFNAME==eth0\n", {"NCCL_SOCKET_IFNAME": "=eth0"}),
        ("export A='x y'\n", {"A": "x y"}),
        ('A="x $B y"\n', {"A": f"x {MARK} y"}),
        ("A='x $B y'\n", {"A": "x $B y"}),
        ("A=x${B}y`c`\n", {"A": f"x{MARK}y{MARK}"}),
        ("A=x'y z'w\n", {"A": "xy zw"}),
        ("# A=0\nA=1 # B=2\n", {"A": "1"}),
        ("XLA_FLAGS=--xla_a=1 --xla_b=2\n", {"XLA_FLAGS": "--xla_a=1 --xla_b=2"}),
        ('XLA_FLAGS="--xla_a=1\n--xla_b=2"\nB=1\n', {"XLA_FLAGS": "--xla_a=1\n--xla_b=2",
                                                     "B": "1"}),
        ('XLA_FLAGS="--xla_a=1 \\\n--xla_b=2"\n', {"XLA_FLAGS": "--xla_a=1 --xla_b=2"}),
        ("A=\nB=\n", {"A": "", "B": ""}),
        ("HOME_TOO\nA=1\n", {"HOME_TOO": MARK, "A": "1"}),
        ("A=1\nA=2\n", {"A": "2"}),
        ("ENV A=1\n-e B=2\n", {"A": "1", "B": "2"}),
        ("A=a\\ b\n", {"A": "a b"}),
        ("A=1;B=2\n", {"A": "1", "B": "2"}),
        ('A="unclosed\n', {"A": '"unclosed'}),
        ("1A=2\n", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_a_value_is_what_its_reader_gets(text: str, values: dict[str, str]) -> None:
    assert plain(text) == values


def spot(value: Text, part: str) -> tuple[int | None, int | None]:
    origin = value.at(value.text.index(part))
    return origin.line, origin.column


def test_every_flag_of_a_quoted_value_knows_its_line() -> None:
    value = read_pairs('# c\nA=1 XLA_FLAGS="--xla_a=1 --xla_b=2\n --xla_c=3"\n', "x")["XLA_FLAGS"]
    assert spot(value, "--xla_a") == (2, 16)
    assert spot(value, "--xla_b") == (2, 26)
    assert spot(value, "--xla_c") == (3, 2)


def test_an_unquoted_value_knows_its_columns() -> None:
    value = read_pairs("B=1\nXLA_FLAGS=--xla_a=1 --xla_b=2\n", "x")["XLA_FLAGS"]
    assert spot(value, "--xla_b") == (2, 21)


def test_flags_know_their_lines_and_comments_are_no_flags() -> None:
    value = read_flags("# mine\n--xla_a=1 --xla_b=2 \\\n  --xla_c=3\n", "f.txt")
    assert value.text.split() == ["--xla_a=1", "--xla_b=2", "--xla_c=3"]
    assert spot(value, "--xla_b") == (2, 11)
    assert spot(value, "--xla_c") == (3, 3)
    assert value.origin.file == "f.txt"


def test_a_stray_token_and_a_quote_stay_in_the_flags() -> None:
    assert read_flags("--xla_a=1 stray\n", "f").text == "--xla_a=1 stray"
    assert read_flags('"--xla_a=1"', "f").text == '"--xla_a=1"'


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="AB=' \"\\\n$({`#;-x\r"))
def test_any_text_is_read_to_its_end(text: str) -> None:
    for value in read_pairs(text, "x").values():
        assert value.origin.line is not None
        assert 1 <= value.origin.line <= text.count("\n") + 1
    assert read_flags(text, "x").pieces
