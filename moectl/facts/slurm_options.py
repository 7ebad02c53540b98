"""The options of sbatch, srun and salloc, with pyxis' own.

All three read their options with getopt_long: a long option may be cut short as long as only
one can be meant, and reading stops at the first word that is no option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, TypeAlias

from moectl.errors import nearest
from moectl.resources import fact

Argument: TypeAlias = Literal["yes", "no", "optional"]
COLUMNS = (
    "name", "short", "argument", "programs", "means", "since", "until", "plugin", "note",
)  # fmt: skip
_ARGUMENTS: dict[str, Argument] = {"yes": "yes", "no": "no", "optional": "optional"}


@dataclass(frozen=True, slots=True)
class SlurmOption:
    """One long option.

    Attributes:
        name: e.g. "--ntasks-per-node".
        short: e.g. "-n", or "".
        argument: whether it takes a value; an optional one only in the form --name=value.
        programs: which of sbatch, srun and salloc have it.
        means: the option it is another name of, or itself.
        since: the first catalogued Slurm release that has it; empty when all do.
        until: the last one, likewise.
        plugin: the plugin that brings it ("pyxis"); empty for Slurm's own.
        note: what else to know, e.g. releases in which it differs.
    """

    name: str
    short: str
    argument: Argument
    programs: frozenset[str]
    means: str
    since: str
    until: str
    plugin: str
    note: str


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """The options that are known, by their long name.

    Attributes:
        options: by name; of one that differs between the programs, the first row.
        variants: rows of options that differ, by program and name.
    """

    options: Mapping[str, SlurmOption]
    variants: Mapping[tuple[str, str], SlurmOption] = field(default_factory=dict)

    def option(self, name: str) -> SlurmOption | None:
        """Return an option by its full long name, or None."""
        return self.options.get(name)

    def long(self, program: str, spelling: str) -> SlurmOption | None:
        """Return the option a program takes `spelling` for; None for no or several options.

        Args:
            program: "sbatch", "srun" or "salloc".
            spelling: e.g. "--nodes" or "--exclu", without a value.
        """
        variant = self.variants.get((program, spelling))
        found = variant or self.options.get(spelling)
        if found is not None and program in found.programs:
            return found
        if not spelling.startswith("--") or spelling == "--":
            return None
        starts = [
            option
            for option in (*self.options.values(), *self.variants.values())
            if option.name.startswith(spelling) and program in option.programs
        ]
        return starts[0] if len({option.means for option in starts}) == 1 else None

    def short(self, program: str, letter: str) -> SlurmOption | None:
        """Return the option of a letter, e.g. "N", or None."""
        spelling = f"-{letter}"
        rows = (*self.options.values(), *self.variants.values())
        return next((o for o in rows if o.short == spelling and program in o.programs), None)

    def nearest(self, program: str, spelling: str) -> list[str]:
        """Return up to three long names that look like `spelling`, best first."""
        rows = (*self.options.values(), *self.variants.values())
        names = [option.name for option in rows if program in option.programs]
        return nearest(spelling, names)


@cache
def load() -> SlurmOptions:
    """Return the catalogue of options."""
    lines = fact("slurm_options.tsv").read_text("utf-8").splitlines()
    assert lines[1] == "\t".join(COLUMNS)  # noqa: S101 - the file is ours
    rows: dict[str, SlurmOption] = {}
    variants: dict[tuple[str, str], SlurmOption] = {}
    for option in map(_option, lines[2:]):
        if rows.setdefault(option.name, option) is not option:
            variants |= {(program, option.name): option for program in option.programs}
    return SlurmOptions(rows, variants)


def _option(line: str) -> SlurmOption:
    name, short, argument, programs, means, since, until, plugin, note = line.split("\t")
    return SlurmOption(
        name=f"--{name}",
        short=f"-{short}" if short else "",
        argument=_ARGUMENTS[argument],
        programs=frozenset(programs.split(",")),
        means=f"--{means or name}",
        since=since,
        until=until,
        plugin=plugin,
        note=note,
    )
