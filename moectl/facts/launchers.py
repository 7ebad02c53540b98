"""Programs that start other programs: which of their words are their own.

A program that is not in the table is taken for the end of the chain: what it starts, if
anything, is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from moectl.resources import fact

Role: TypeAlias = Literal[
    "slurm", "wrapper", "environment", "launcher", "shell", "python", "container", "program"
]
_ROLES: tuple[Role, ...] = (
    "slurm", "wrapper", "environment", "launcher", "shell", "python", "container", "program",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launcher:
    """How to find what a program starts.

    Attributes:
        role: "slurm" (see `moectl.facts.slurm_options`); "wrapper" (runs the command behind
            its options in its own place); "environment" (likewise, with NAME=value in front);
            "launcher" (starts processes of the command behind its options); "shell",
            "python"; "container" (a subcommand, options, an image, a command); "program"
            (starts processes, but of what is not looked into).
        options: options that take values, each with their number.
        operands: words between the options and the command, e.g. the duration of timeout.
        long_style: whether `-name` is one option, and not a row of letters.
        variables: options that set a variable of what is started.
        texts: options whose value is a shell command.
        questions: options with which nothing is started.
        subcommands: the subcommands that start or prepare something.
        keeps_environment: whether what a container runs gets the variables outside it.
    """

    role: Role
    options: Mapping[str, int] = field(default_factory=dict)
    operands: int = 0
    long_style: bool = False
    variables: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    questions: frozenset[str] = frozenset()
    subcommands: Mapping[str, Launcher] = field(default_factory=dict)
    keeps_environment: bool = False


@dataclass(frozen=True, slots=True)
class Launchers:
    """The programs that are known.

    Attributes:
        programs: by name.
        questions: commands whose failure is an answer, so that what follows `&&` may not run.
        modules: Python modules that are MaxText's programs.
    """

    programs: Mapping[str, Launcher]
    questions: frozenset[str]
    modules: tuple[str, ...]

    def program(self, command: str) -> Launcher | None:
        """Return the program a command word starts, e.g. "/usr/bin/python3.12", or None."""
        name = command.rpartition("/")[2]
        return self.programs.get(name) or self.programs.get(name.rstrip("0123456789.") or name)

    def maxtext(self, module: str = "", path: str = "") -> str | None:
        """Return MaxText's module of a module name or a path to its file, or None."""
        if module:
            return module if module in self.modules else None
        parts = path.removesuffix(".py").split("/")
        for known in self.modules:
            tail = known.split(".")
            if path.endswith(".py") and parts[-len(tail) :] == tail:
                return known
        return None


@cache
def load() -> Launchers:
    """Return the table."""
    import json  # noqa: PLC0415 - only scripts need it

    data = json.loads(fact("launchers.json").read_text("utf-8"))
    programs = {name: _launcher(row, data["programs"]) for name, row in data["programs"].items()}
    return Launchers(programs, frozenset(data["questions"]), tuple(data["maxtext"]["modules"]))


def _launcher(row: Mapping[str, Any], others: Mapping[str, Any]) -> Launcher:
    if same := row.get("same"):
        row = {**others[same], **row}
    subcommands = row.get("subcommands", {})
    return Launcher(
        role=next(role for role in _ROLES if role == row.get("role", "program")),
        options=dict(_counted(word) for word in row.get("options", "").split()),
        operands=row.get("operands", 0),
        long_style=row.get("style") == "long",
        variables=frozenset(row.get("variables", "").split()),
        texts=frozenset(row.get("texts", "").split()),
        questions=frozenset(row.get("questions", "").split()),
        keeps_environment=row.get("keeps_environment", False),
        subcommands={name: _launcher(sub, subcommands) for name, sub in subcommands.items()},
    )


def _counted(word: str) -> tuple[str, int]:
    name, _, count = word.partition(":")
    return name, int(count or 1)
