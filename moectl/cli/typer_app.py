"""Builds the typer application from the declared commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from moectl.cli.command import Command, Option
from moectl.cli.commands import COMMANDS
from moectl.errors import UsageError

_REPEATED = frozenset({"many"})


def application(run: Callable[[Command, dict[str, Any]], int]) -> typer.Typer:
    """Return the application; every command ends in `run`."""
    app = _group("moectl: MaxText configs and launch scripts for MoE training on NVIDIA GPUs.")
    groups: dict[str, typer.Typer] = {}
    for command in COMMANDS:
        group, _, name = command.name.rpartition(" ")
        parent = app
        if group:
            if group not in groups:
                groups[group] = _group(f"Commands on {group}.")
                app.add_typer(groups[group], name=group)
            parent = groups[group]
        parent.command(
            name,
            help=_help(command),
            short_help=command.summary,
            context_settings={"ignore_unknown_options": command.takes_flags},
        )(_function(command, run))
    return app


def spoken(words: list[str], run: Callable[[Command, dict[str, Any]], int]) -> int:
    """Let typer read a command line, and return the exit code.

    What typer refuses it says itself; a program that asked for JSON gets an object too.
    """
    try:
        code = application(run)(words, prog_name="moectl", standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # Classes of typer or of click, as the release of typer has it.
        error.show()  # type: ignore[attr-defined]
        if _wants_json(words):
            from moectl.cli.refusal import as_json  # noqa: PLC0415

            as_json("UsageError", error.format_message(), UsageError.exit_code)
        return UsageError.exit_code
    return code if isinstance(code, int) else 0


def _wants_json(words: list[str]) -> bool:
    pairs = zip(words, [*words[1:], ""], strict=True)
    return "--format=json" in words or ("--format", "json") in pairs


def _group(text: str) -> typer.Typer:
    return typer.Typer(
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,  # `moectl completion` answers in a tenth of the time
    )


def _help(command: Command) -> str:
    examples = "\n".join(f"    {line}" for line in command.examples)
    parts = [command.summary, command.detail, f"\b\nExamples:\n{examples}" if examples else ""]
    return "\n\n".join(part for part in parts if part)


def _function(
    command: Command, run: Callable[[Command, dict[str, Any]], int]
) -> Callable[..., None]:
    """Return a function whose signature is that of the command."""

    def call(**values: Any) -> None:
        raise typer.Exit(run(command, values))

    parameters = list(_parameters(command))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__name__ = command.name.replace(" ", "_")
    return call


def _parameters(command: Command) -> Iterable[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    for argument in command.arguments:
        annotation: Any = Annotated[
            list[str] if argument.many else (str if argument.required else str | None),
            typer.Argument(help=argument.help, show_default=False),
        ]
        absent: Any = [] if argument.many else None
        default: Any = inspect.Parameter.empty if argument.required else absent
        yield inspect.Parameter(argument.name, keyword, annotation=annotation, default=default)
    for option in command.options:
        yield inspect.Parameter(
            option.name, keyword, annotation=_annotation(option), default=option.empty
        )


def _names(option: Option) -> list[str]:
    return [name for name in (option.flag, option.short) if name]


def _annotation(option: Option) -> Any:
    if option.kind == "flag":
        return Annotated[bool, typer.Option(*_names(option), help=option.help)]
    metavar = "|".join(option.choices) or option.metavar
    declared = typer.Option(
        *_names(option),
        help=option.help,
        metavar=metavar,
        callback=_checked(option),
        show_default=option.default is not None,
    )
    plain: Any = list[str] if option.kind in _REPEATED else str | None
    return Annotated[plain, declared]


def _checked(option: Option) -> Callable[[Any], Any] | None:
    """Return the check of an option with few legal values."""
    if not option.choices:
        return None

    def check(value: Any) -> Any:
        if value is not None and value not in option.choices:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(option.choices)}")
        return value

    return check
