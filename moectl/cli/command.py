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
        short: one letter for it, e.g. "-f"; empty for none.
        of: what its values are, for completion: a name of `moectl.cli.completion.KNOWN`;
            empty for what nobody can know.
    """

    flag: str
    help: str
    kind: Kind = "text"
    metavar: str = "TEXT"
    choices: tuple[str, ...] = ()
    default: str | None = None
    short: str = ""
    of: str = ""

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
    """A positional argument.

    Attributes:
        name: the name of the parameter it becomes.
        help: one line.
        many: whether it takes any number of words; only the last one may.
        required: whether at least one word is wanted; without it the value is None, or no words.
        of: what its words are, as for an option.
    """

    name: str
    help: str
    many: bool = False
    required: bool = True
    of: str = ""


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
        takes_flags: whether a word that looks like an unknown option is an argument, as in
            `moectl explain --xla_gpu_...`.
    """

    name: str
    summary: str
    run: str
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    examples: tuple[str, ...] = ()
    detail: str = ""
    takes_flags: bool = False


def quick_parse(command: Command, words: list[str]) -> dict[str, Any] | None:
    """Parse the plain forms of a command line; None leaves the line to typer.

    Understood are exact flags (`--flag`, `--flag value`, `--flag=value`) and positional
    arguments that do not begin with a dash (a dash alone is standard input where any number
    of them is taken). Whatever is missing, unknown or unusual is for typer, which says it
    well; what is understood here means the same there.
    """
    options = {option.flag: option for option in command.options}
    options |= {option.short: option for option in command.options if option.short}
    values: dict[str, Any] = {
        o.name: list(o.empty) if o.kind == "many" else o.empty for o in command.options
    }
    seen: set[str] = set()
    positional: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or (word == "-" and _takes_many(command)):
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
    placed = _placed(command.arguments, positional)
    return None if placed is None else values | placed


def _takes_many(command: Command) -> bool:
    return any(argument.many for argument in command.arguments)


def _placed(arguments: tuple[Argument, ...], words: list[str]) -> dict[str, Any] | None:
    """Return the words by argument, or None when there are too few or too many."""
    singles = [argument.name for argument in arguments if not argument.many]
    rest = words[len(singles) :]
    many = next((argument for argument in arguments if argument.many), None)
    missing = len(words) < len(singles) or (many is not None and many.required and not rest)
    if missing or (many is None and rest):
        return None
    placed: dict[str, Any] = dict(zip(singles, words, strict=False))
    return placed if many is None else placed | {many.name: rest}
