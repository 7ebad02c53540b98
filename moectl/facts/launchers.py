"""Programs that start other programs: which of their words are their own.

A program that is not in the table is taken for the end of the chain: what it starts, if
anything, is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from moectl.errors import nearest
from moectl.resources import fact

Role: TypeAlias = Literal[
    "slurm", "wrapper", "environment", "launcher", "shell", "python", "container", "remote",
    "program",
]  # fmt: skip
_PACKAGE = "maxtext"
_ROLES: tuple[Role, ...] = (
    "slurm", "wrapper", "environment", "launcher", "shell", "python", "container", "remote",
    "program",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launcher:
    """How to find what a program starts.

    Attributes:
        role: "slurm" (see `moectl.facts.slurm_options`); "wrapper" (runs the command behind
            its options in its own place); "environment" (likewise, with NAME=value in front);
            "launcher" (starts processes of the command behind its options); "shell",
            "python"; "container" (a subcommand, options, an image, a command); "remote" (a
            host, then words that a shell there reads); "program" (starts processes, but of
            what is not looked into).
        options: options that take values, each with their number.
        operands: words between the options and the command, e.g. the duration of timeout.
        long_style: whether `-name` is one option, and not a row of letters.
        variables: options that set a variable of what is started.
        lists: whether such an option may set several, separated by commas.
        texts: options whose value is a shell command.
        questions: options with which nothing is started.
        subcommands: the subcommands that start or prepare something.
        keeps_environment: whether what a container runs gets the variables outside it.
        elsewhere: whether the container is on another machine.
    """

    role: Role
    options: Mapping[str, int] = field(default_factory=dict)
    operands: int = 0
    long_style: bool = False
    variables: frozenset[str] = frozenset()
    lists: bool = False
    texts: frozenset[str] = frozenset()
    questions: frozenset[str] = frozenset()
    subcommands: Mapping[str, Launcher] = field(default_factory=dict)
    keeps_environment: bool = False
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Launchers:
    """The programs that are known.

    Attributes:
        programs: by name.
        questions: commands whose failure is an answer, so that what follows `&&` may not run.
        modules: Python modules that are MaxText's programs.
        settings: how the names of variables begin that the processes of a job read.
        elsewhere: names, and beginnings of names, of variables that a script may count on.
    """

    programs: Mapping[str, Launcher]
    questions: frozenset[str]
    modules: tuple[str, ...]
    settings: tuple[str, ...] = ()
    elsewhere: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())

    def setting(self, name: str) -> bool:
        """Whether a variable is one that the processes of a job read."""
        return name.startswith(self.settings)

    def set_elsewhere(self, name: str) -> bool:
        """Whether Slurm, a launcher or the login sets a variable."""
        return name in self.elsewhere[0] or name.startswith(self.elsewhere[1])

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

    data: dict[str, Any] = json.loads(fact("launchers.json").read_text("utf-8"))
    programs = {name: _launcher(row, data["programs"]) for name, row in data["programs"].items()}
    elsewhere = data["set_elsewhere"]
    return Launchers(
        programs,
        frozenset(data["questions"]),
        tuple(data["maxtext"]["modules"]),
        tuple(data["settings"]["prefixes"]),
        (frozenset(elsewhere["names"].split()), tuple(elsewhere["prefixes"])),
    )


@cache
def maxtext_modules() -> frozenset[str]:
    """Return every module of MaxText 0.2.5."""
    lines = fact("maxtext_modules.txt").read_text("utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def is_package(module: str) -> bool:
    """Whether a name is that of a folder of MaxText's modules, which python3 -m cannot run."""
    return any(name.startswith(f"{module}.") for name in maxtext_modules())


def missing_module(module: str) -> tuple[str, bool] | None:
    """Return what a module that MaxText does not have was meant to be.

    Args:
        module: e.g. "maxtext.trainers.pre_train.trian".

    Returns:
        The nearest module, or "", and whether it is certain that there is none of this name:
        another release may have modules of the older package MaxText. None for a module that
        exists, or that is not of MaxText.
    """
    package, _, rest = module.partition(".")
    if package.lower() != _PACKAGE or module in load().modules or not rest:
        return None
    if module in maxtext_modules():
        return None
    if is_package(module):
        return "", True
    programs = [name for name in load().modules if name.startswith(f"{_PACKAGE}.")]
    meant = f"{_PACKAGE}.{rest}"
    near = [meant] if meant in maxtext_modules() else nearest(meant, programs)
    last = [name for name in programs if name.rpartition(".")[2] == rest.rpartition(".")[2]]
    near = last if len(last) == 1 and meant not in maxtext_modules() else near
    near = near or nearest(meant, sorted(maxtext_modules()))
    return (near[0] if near else ""), package == _PACKAGE


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
        lists=row.get("lists", False),
        texts=frozenset(row.get("texts", "").split()),
        questions=frozenset(row.get("questions", "").split()),
        keeps_environment=row.get("keeps_environment", False),
        elsewhere=row.get("elsewhere", False),
        subcommands={name: _launcher(sub, subcommands) for name, sub in subcommands.items()},
    )


def _counted(word: str) -> tuple[str, int]:
    name, _, count = word.partition(":")
    return name, int(count or 1)
