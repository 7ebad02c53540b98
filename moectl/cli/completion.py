"""moectl completion, and the answers that its scripts ask for.

A script asks `moectl __complete SHELL WORD...` with the words after `moectl`, the one under the
cursor last. The answer is a line that says whether files may stand there too (`files`,
`folders` or `-`), then one candidate a line with a tab and what it is; bash gets what it is to
insert, quoted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moectl.cli.command import Argument, Command, Option
from moectl.cli.commands import COMMANDS, find
from moectl.cli.completion_known import known
from moectl.cli.text import say, say_text
from moectl.errors import UnknownNameError
from moectl.resources import package

SHELLS = ("bash", "zsh", "fish")
_FILES = frozenset({"files", "folders"})
# What files may be named in beside what moectl knows.
_FILES_TOO = frozenset({"targets", "jobs", "logs", "profiles"})


def run(shell: str) -> int:
    """Print the script of a shell.

    Raises:
        UnknownNameError: another shell.
    """
    if shell not in SHELLS:
        raise UnknownNameError("shell", shell, SHELLS, where="completion", why=", ".join(SHELLS))
    say_text(package().joinpath("cli", "completions", f"moectl.{shell}").read_text("utf-8"))
    return 0


def answer(words: list[str]) -> int:
    """Answer a script; what cannot be told is no candidate, and never an error."""
    shell, *rest = words or [""]
    if shell == "bash":
        from moectl.cli.completion_bash import insertions  # noqa: PLC0415

        breaks, *typed = rest or [""]
        for text in insertions(typed or [""], breaks):
            say(text)
        return 0
    files, found = candidates(rest or [""])
    say(files or "-")
    for value, about in found:
        say(f"{value}\t{about}")
    return 0


def candidates(words: list[str]) -> tuple[str, list[tuple[str, str]]]:
    """Return whether files may stand under the cursor, and what else, each with what it is.

    Args:
        words: the words after `moectl`, without their quotes; the last one is completed.
    """
    *before, current = words
    command = _command(before)
    if command is None:
        return "", list(_kept(_commands(before), current))
    given = before[len(command.name.split()) :]
    flag, equals, value = current.partition("=")
    option = _option(command, flag) if equals else None
    if option is not None and option.kind != "flag":
        files, found = _values(option, value)
        return files, list(_kept(((f"{flag}={v}", about) for v, about in found), current))
    option = _waiting(command, given)
    if option is not None:
        files, found = _values(option, current)
        return files, list(_kept(found, current))
    if current.startswith("-") and "--" not in given:
        return "", list(_kept(_options(command, given), current))
    argument = _argument(command, given)
    if argument is None:
        return "", []
    files, found = _of(argument.of, current)
    return files, list(_kept(found, current))


def _command(words: list[str]) -> Command | None:
    found = find([word for word in words if word])
    return found[0] if found else None


def _commands(before: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the next word of every command that begins so."""
    told: dict[str, str] = {}
    for command in COMMANDS:
        names = command.name.split()
        if names[: len(before)] == before and len(names) > len(before):
            whole = len(names) == len(before) + 1
            told.setdefault(
                names[len(before)], command.summary if whole else f"commands on {names[0]}"
            )
    yield from told.items()
    if not before:
        yield from (("--help", "print all commands"), ("--version", "print the version"))


def _options(command: Command, given: list[str]) -> Iterator[tuple[str, str]]:
    for option in command.options:
        said = any(word.partition("=")[0] in {option.flag, option.short or None} for word in given)
        if option.kind == "many" or not said:
            yield option.flag, option.help
    yield "--help", "print what the command does"
    if command.takes_flags:
        yield from known("xla", "")


def _option(command: Command, flag: str) -> Option | None:
    return next((o for o in command.options if flag and flag in {o.flag, o.short}), None)


def _waiting(command: Command, given: list[str]) -> Option | None:
    """Return the option whose value the next word is."""
    if not given or "--" in given:
        return None
    option = _option(command, given[-1])
    return option if option is not None and option.kind != "flag" else None


def _argument(command: Command, given: list[str]) -> Argument | None:
    """Return the argument whose turn it is."""
    placed = 0
    rest = iter(given)
    for word in rest:
        option = _option(command, word.partition("=")[0]) if word.startswith("-") else None
        if option is None:
            placed += word != "--"
        elif option.kind != "flag" and "=" not in word:
            next(rest, None)
    for index, argument in enumerate(command.arguments):
        if index == placed or argument.many:
            return argument
    return None


def _values(option: Option, current: str) -> tuple[str, Iterable[tuple[str, str]]]:
    if option.choices:
        return "", ((choice, "") for choice in option.choices)
    return _of(option.of, current)


def _of(kind: str, current: str) -> tuple[str, Iterable[tuple[str, str]]]:
    if kind in _FILES:
        return kind, ()
    return "files" if kind in _FILES_TOO else "", known(kind, current) if kind else ()


def _kept(found: Iterable[tuple[str, str]], current: str) -> Iterator[tuple[str, str]]:
    """Yield what begins as typed and fits on a line of a terminal."""
    for value, about in found:
        if value.startswith(current) and value.isprintable():
            yield value, about if about.isprintable() else ""
