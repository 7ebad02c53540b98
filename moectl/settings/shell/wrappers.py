"""Sees through commands that only run another one: env, time, numactl, nsys, ..."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from moectl.facts.launchers import Launcher
from moectl.facts.launchers import load as launchers
from moectl.settings.shell.options import split, tail
from moectl.workload import MARK, Option, Text

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_MAX_WRAPPERS = 16

Environment = Mapping[str, Text]


class Unwrapped(NamedTuple):
    """What a command starts in the end.

    Attributes:
        words: the command; none when nothing is started.
        environment: the variables it gets.
        through: the programs that were in front of it, outermost first.
    """

    words: tuple[Text, ...]
    environment: Environment
    through: tuple[str, ...]


def program_of(words: Sequence[Text]) -> Launcher | None:
    """Return what is known of the program of a command, or None.

    `$PYTHON -m maxtext...` is taken for Python although nobody knows what it is.
    """
    table = launchers()
    found = table.program(words[0].text)
    if found is not None or MARK not in words[0].text:
        return found
    module = words[2].text if len(words) > 2 and words[1].text == "-m" else ""
    return table.program("python3") if table.maxtext(module=module) else None


def unwrapped(words: Sequence[Text], environment: Environment) -> Unwrapped:
    """Return the command that is started in the end, and what stood in front of it.

    An unknown word in front of a known program, such as `$PREFIX srun`, is passed over.
    Nothing is returned for a wrapper that starts nothing (`command -v srun`).
    """
    words = tuple(words)
    through: tuple[str, ...] = ()
    for _ in range(_MAX_WRAPPERS):
        if not words:
            return Unwrapped((), environment, through)
        launcher = program_of(words)
        if launcher is None:
            known = len(words) > 1 and launchers().program(words[1].text) is not None
            if words[0].text == MARK and known:
                words = words[1:]
                continue
            return Unwrapped(words, environment, through)
        if launcher.role not in {"wrapper", "environment"}:
            return Unwrapped(words, environment, through)
        through = (*through, words[0].text.rpartition("/")[2])
        found = split(launcher, words[1:])
        if any(option.name in launcher.questions for option in found.options):
            return Unwrapped((), environment, through)
        words = found.rest
        if launcher.subcommands:
            subcommand = launcher.subcommands.get(words[0].text) if words else None
            if subcommand is None:
                return Unwrapped((), environment, through)
            words = split(subcommand, words[1:]).rest
        if launcher.role == "environment":
            words, environment = _environment(found.options, words, environment)
        words = words[launcher.operands :]
    return Unwrapped((), environment, through)


def started_in(subcommand: Launcher, rest: Sequence[Text]) -> tuple[Text, ...]:
    """Return the command behind the container's name; kubectl wants `--` in front of it."""
    words = tuple(rest[subcommand.operands :])
    if words and words[0].text.startswith("-"):
        end = next((at for at, word in enumerate(words) if word.text == "--"), len(words) - 1)
        return words[end + 1 :]
    return words


def _environment(
    options: Sequence[Option], words: tuple[Text, ...], environment: Environment
) -> tuple[tuple[Text, ...], Environment]:
    """Apply `env -i -u NAME NAME=value ...`."""
    changed = dict(environment)
    for option in options:
        if option.name in {"-i", "-", "--ignore-environment"}:
            changed.clear()
        elif option.name in {"-u", "--unset"} and option.value is not None:
            changed.pop(option.value.text, None)
    at = 0
    while at < len(words):
        if words[at].text == "-":
            changed.clear()
        elif found := _ASSIGNMENT.match(words[at].text):
            changed[found.group(1)] = tail(words[at], found.end())
        else:
            break
        at += 1
    return words[at:], changed


def python_words(words: Sequence[Text]) -> tuple[str, Text, tuple[Text, ...]] | None:
    """Return what Python is asked to run: ("-m" or "file", its name, its arguments).

    Args:
        words: the words after the interpreter.

    Returns:
        None when it runs a text, its input, or nothing.
    """
    launcher = launchers().program("python3")
    assert launcher is not None  # noqa: S101 - a row of our own table
    at = 0
    while at < len(words):
        text = words[at].text
        if text == "-m":
            return ("-m", words[at + 1], tuple(words[at + 2 :])) if at + 1 < len(words) else None
        if text.startswith("-m"):
            return "-m", tail(words[at], 2), tuple(words[at + 1 :])
        if text in {"-", "-c"}:
            return None
        if not text.startswith("-"):
            return "file", words[at], tuple(words[at + 1 :])
        at += 1 + launcher.options.get(text, 0)
    return None
