"""The surface of the command line is frozen, and one thing is called the same everywhere.

MOECTL_RENEW_GOLDEN=1 renews tests/golden/surface; a change there is one of the interface, so it
belongs into the changelog.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

from moectl import errors
from moectl.cli.command import Command, Option
from moectl.cli.commands import COMMANDS, overview
from moectl.cli.completion_known import KNOWN
from moectl.version import __version__
from tests.support import golden

# Options that say different things of different commands, and why they may.
DIFFERENT = {
    "--allow": "overrules findings of a job, and differences between runs",
    "--format": "forms that an answer has; report prints a page with --open",
    "--gpus": "sets them, and fills in what a file that is read leaves out",
    "--hardware": "sets it, and fills in what a file that is read leaves out",
    "--image": "sets it, and fills in what a file that is read leaves out",
    "--launcher": "what starts a run, and what doctor looks at",
    "--maxtext": "the release to judge against, and the one that wrote logs",
    "--output": "what is written is named; a bundle and a catalogue are folders",
    "--python": "the interpreter that is asked for its flags, or for what is installed",
}
# Of these even the kind of value may differ.
OTHER_VALUES = {"--allow", "--format", "--output"}
# Commands without --format, and why.
ONE_FORM = {
    "schema": "a JSON document already",
    "probe": "a program, or the JSON that it prints",
    "completion": "a script for a shell",
}
# Values nobody can know before they are typed.
FREE = {
    "--cache", "--choose", "--chain", "--context", "--global-batch", "--gpus", "--gpus-per-node",
    "--job", "--layers", "--lines", "--loss-tolerance", "--min-efficiency", "--min-tflops",
    "--name", "--namespace", "--price", "--profile-ranks", "--profile-skip", "--profile-steps",
    "--rank", "--rungs", "--seq", "--steps", "--straggler", "--sweep", "--threshold", "--timeout",
    "--tokens",    "--top", "--until-step", "--why-not", "--against",
}  # fmt: skip


def options() -> dict[str, list[tuple[Command, Option]]]:
    found: dict[str, list[tuple[Command, Option]]] = {}
    for command in COMMANDS:
        for option in command.options:
            found.setdefault(option.flag, []).append((command, option))
    return found


def surface() -> Iterator[str]:
    yield overview().replace(__version__, "VERSION")
    for command in COMMANDS:
        yield f"moectl {command.name}"
        for argument in command.arguments:
            many = " many" if argument.many else ""
            yield f"  {argument.name}{many}{'' if argument.required else ' optional'}"
        for option in sorted(command.options, key=lambda one: one.flag):
            words = [option.flag, option.short, option.kind]
            if option.kind != "flag":
                words.append("|".join(option.choices) or option.metavar)
                words.append(f"[{option.default}]" if option.default is not None else "")
            yield f"  {' '.join(filter(None, words))}"
        yield ""
    yield "exit codes"
    yield "  0 fine"
    classes = vars(errors).values()
    for one in classes:
        if inspect.isclass(one) and issubclass(one, errors.MoectlError):
            yield f"  {one.exit_code} {one.__name__}"
    yield "  130 interrupted"


def test_the_surface_is_the_one_that_was_agreed_on() -> None:
    golden.compare("surface", {"cli.txt": "\n".join([*surface(), ""])})


@pytest.mark.parametrize("flag", options())
def test_an_option_is_the_same_wherever_it_stands(flag: str) -> None:
    found = [option for _, option in options()[flag]]
    values = {(one.kind, one.metavar, one.choices, one.default) for one in found}
    assert len(values) == 1 or flag in OTHER_VALUES
    assert len({one.help for one in found}) == 1 or flag in DIFFERENT
    assert len({one.short for one in found}) == 1
    assert len({one.of for one in found}) == 1 or flag in OTHER_VALUES


def test_nothing_is_excused_that_needs_no_excuse() -> None:
    differ = {flag for flag, found in options().items() if len({o.help for _, o in found}) > 1}
    differ |= {flag for flag, found in options().items() if len({o.choices for _, o in found}) > 1}
    assert set(DIFFERENT) == differ
    assert set(ONE_FORM) == {
        command.name
        for command in COMMANDS
        if "--format" not in {option.flag for option in command.options}
    }


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_has_the_options_that_all_have(command: Command) -> None:
    flags = [option.flag for option in command.options]
    assert flags[-2:] == ["--quiet", "--color"]
    assert ("--format" in flags) is not (command.name in ONE_FORM)
    for option in command.options:
        if option.flag == "--format":
            assert option.choices[:2] == ("text", "json")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_help_text_is_one_sentence_and_its_values_have_a_name(command: Command) -> None:
    for text in [
        command.summary,
        *(one.help for one in command.options),
        *(one.help for one in command.arguments),
    ]:
        assert text.endswith(".")
        assert text[0].isupper() or text.startswith(("bash", "run", "moectl", "jaxlib"))
    for option in command.options:
        if option.kind != "flag":
            assert option.metavar != "TEXT" or option.flag == "--xla-flags"


def test_what_completion_is_asked_for_it_knows() -> None:
    asked = {(one.flag, one.of) for found in options().values() for _, one in found}
    asked |= {("", one.of) for command in COMMANDS for one in command.arguments}
    assert {of for _, of in asked if of} - KNOWN.keys() - {"files", "folders"} == set()
    unknown = {
        flag
        for flag, found in options().items()
        for _, one in found
        if one.kind != "flag" and not one.of and not one.choices
    }
    assert unknown == FREE
