"""How a command is declared: once, for the quick parser and for typer alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["text", "flag", "many"]


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command.

    Attributes:
        flag: e.g. "--gpus".
        help: one line.
        kind: text (one value), flag (none), many (may be repeated).
        metavar: what the value is called in the help.
        choices: legal values, if they are few.
        default: value when not given.
    """

    flag: str
    help: str
    kind: Kind = "text"
    metavar: str = "TEXT"
    choices: tuple[str, ...] = ()
    default: str | None = None

    @property
    def name(self) -> str:
        """Return the name of the parameter it becomes."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def empty(self) -> Any:
        """Return its value when not given."""
        return {"text": self.default, "flag": False, "many": []}[self.kind]


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument; all are required."""

    name: str
    help: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        name: e.g. "render" or "presets list".
        summary: one line.
        run: "module:function" that gets every argument and option by name and returns the
            exit code.
        arguments: positional arguments.
        options: options.
        examples: command lines worth showing.
        detail: further text of its help.
    """

    name: str
    summary: str
    run: str
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    examples: tuple[str, ...] = ()
    detail: str = ""


def quick_parse(command: Command, words: list[str]) -> dict[str, Any] | None:
    """Parse the plain forms of a command line; None leaves the line to typer.

    Understood are exact flags (`--flag`, `--flag value`, `--flag=value`) and positional
    arguments that do not begin with a dash. Whatever is missing, unknown or unusual is for
    typer, which says it well; what is understood here means the same there.
    """
    options = {option.flag: option for option in command.options}
    values: dict[str, Any] = {
        o.name: list(o.empty) if o.kind == "many" else o.empty for o in command.options
    }
    seen: set[str] = set()
    positional: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            positional.append(word)
            continue
        flag, equals, value = word.partition("=")
        option = options.get(flag)
        if option is None or (option.kind == "flag" and equals):
            return None
        if option.kind == "flag":
            values[option.name] = True
            continue
        if not equals:
            value = next(rest, "-")
            if value.startswith("-"):
                return None
        if option.choices and value not in option.choices:
            return None
        if option.kind == "many":
            values[option.name].append(value)
        elif option.name in seen:
            return None
        else:
            values[option.name] = value
        seen.add(option.name)
    if len(positional) != len(command.arguments):
        return None
    return values | {a.name: word for a, word in zip(command.arguments, positional, strict=True)}
