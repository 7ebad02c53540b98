"""The quick parser: what it understands means the same to typer."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.cli.command import Argument, Command, quick_parse
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
    options = st.sampled_from(command.options) if command.options else st.nothing()
    for option in draw(st.lists(options, max_size=4)):
        if option.kind == "flag":
            words.append(draw(st.sampled_from([option.flag, f"{option.flag}=1"])))
        elif draw(st.booleans()):
            words += [option.flag, draw(value)]
        else:
            words.append(f"{option.flag}={draw(value)}")
    for argument in command.arguments:
        count = draw(st.integers(0, 3)) if argument.many else 1
        names = st.sampled_from(["name", "a/b.yaml", *(["-", "--a=b"] if argument.many else [])])
        for name in draw(st.lists(names, min_size=count, max_size=count)):
            words.insert(draw(st.integers(0, len(words))), name)
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


VALIDATE = next(command for command in COMMANDS if command.name == "validate")
EXPLAIN = next(command for command in COMMANDS if command.name == "explain")


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ([], []),
        (["a", "-", "b c"], ["a", "-", "b c"]),
        (["a", "--gpus", "8", "b", "--strict", "c"], ["a", "b", "c"]),
        (["--xla-flags=--xla_x"], []),
    ],
)
def test_any_number_of_words_is_one_argument(words: list[str], paths: list[str]) -> None:
    for values in (quick_parse(VALIDATE, words), by_typer(["validate", *words])):
        assert values is not None
        assert list(values["paths"]) == paths


def test_words_behind_two_dashes_may_begin_with_one() -> None:
    assert quick_parse(VALIDATE, ["--", "-x.yml"]) is None
    values = by_typer(["validate", "--strict", "--", "-x.yml", "y"])
    assert values is not None
    assert (list(values["paths"]), values["strict"]) == (["-x.yml", "y"], True)


def test_a_flag_of_xla_may_be_explained_as_it_is_written() -> None:
    words = ["--xla_gpu_x=true", "steps", "--format", "json"]
    assert quick_parse(EXPLAIN, words) is None
    values = by_typer(["explain", *words])
    assert values is not None
    assert (list(values["names"]), values["format"]) == (["--xla_gpu_x=true", "steps"], "json")
    assert by_typer(["validate", "--xla_gpu_x=true"]) is None


def test_an_argument_that_takes_many_may_want_one_after_the_others() -> None:
    command = Command("x", "", "m:f", (Argument("one", ""), Argument("rest", "", many=True)), ())
    assert quick_parse(command, ["a"]) is None
    assert quick_parse(command, ["a", "b", "c"]) == {"one": "a", "rest": ["b", "c"]}


def test_lists_of_two_parses_are_not_shared() -> None:
    one = quick_parse(RENDER, ["p", "--set", "a=1"])
    two = quick_parse(RENDER, ["p"])
    assert one is not None
    assert two is not None
    assert (one["set"], two["set"]) == (["a=1"], [])


@pytest.mark.parametrize("command", COMMANDS, ids=[command.name for command in COMMANDS])
def test_no_two_parameters_of_a_command_have_one_name(command: Command) -> None:
    names = [one.name for one in command.arguments] + [one.name for one in command.options]
    assert sorted(set(names)) == sorted(names)
