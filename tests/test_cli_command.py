"""The quick parser: what it understands means the same to typer."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.cli.command import Command, quick_parse
from moectl.cli.commands import COMMANDS, find
from moectl.cli.typer_app import application

RENDER = next(command for command in COMMANDS if command.name == "render")
CAUGHT: list[tuple[str, dict[str, Any]]] = []


def catch(command: Command, values: dict[str, Any]) -> int:
    CAUGHT.append((command.name, values))
    return 0


APPLICATION = application(catch)


def by_typer(words: list[str]) -> Mapping[str, Any] | None:
    """Return what typer makes of a command line; None when it refuses it."""
    CAUGHT.clear()
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        APPLICATION(words, prog_name="moectl")
    return CAUGHT[0][1] if CAUGHT else None


def plainly(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple | list) else v for k, v in values.items()}


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """Return command lines: mostly right ones, with odd words among them."""
    command = draw(st.sampled_from(COMMANDS))
    words: list[str] = []
    odd = st.sampled_from(["", "-", "--", "-x", "--help", "--nope", "a b", "=", "é", "--gpus", "5"])
    value = (
        st.sampled_from(["128", "", "a=b", "text", "json", "x y", "-1", "slurm", "config"]) | odd
    )
    for option in draw(st.lists(st.sampled_from(command.options), max_size=4)):
        if option.kind == "flag":
            words.append(draw(st.sampled_from([option.flag, f"{option.flag}=1"])))
        elif draw(st.booleans()):
            words += [option.flag, draw(value)]
        else:
            words.append(f"{option.flag}={draw(value)}")
    for _ in command.arguments:
        words.insert(draw(st.integers(0, len(words))), draw(st.sampled_from(["name", "a/b.yaml"])))
    if draw(st.integers(0, 4)) == 0:
        words.insert(draw(st.integers(0, len(words))), draw(odd))
    return [*command.name.split(), *words]


@settings(max_examples=250, deadline=None)
@given(lines())
def test_what_is_understood_quickly_means_the_same_to_typer(words: list[str]) -> None:
    known = find(words)
    assert known is not None
    quick = quick_parse(*known)
    if quick is not None:
        theirs = by_typer(words)
        assert theirs is not None
        assert plainly(quick) == plainly(theirs)


@pytest.mark.parametrize(
    "words",
    [
        ["p", "--gpus", "128"],
        ["--gpus=128", "p"],
        ["p", "--set", "a=1", "--set=b=2", "--debug", "--debug"],
        ["p", "--format", "json", "--stdout=config"],
    ],
)
def test_the_plain_forms_need_no_typer(words: list[str]) -> None:
    quick = quick_parse(RENDER, words)
    assert quick is not None
    assert quick["target"] == "p"


@pytest.mark.parametrize(
    "words",
    [
        [], ["p", "q"], ["p", "--nope"], ["p", "--gpus"], ["p", "--gpus", "-4"], ["p", "--debug=1"],
        ["p", "--format", "xml"], ["p", "--gpus", "1", "--gpus", "2"], ["p", "--"], ["p", "--help"],
        ["p", "--gpu", "1"], ["-"],
    ],
)  # fmt: skip
def test_the_unusual_is_left_to_typer(words: list[str]) -> None:
    assert quick_parse(RENDER, words) is None


def test_lists_of_two_parses_are_not_shared() -> None:
    one = quick_parse(RENDER, ["p", "--set", "a=1"])
    two = quick_parse(RENDER, ["p"])
    assert one is not None
    assert two is not None
    assert (one["set"], two["set"]) == (["a=1"], [])
