"""The entry: text in, batch out."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from moectl.facts.launchers import load as launchers
from moectl.settings.shell.directives import directives, stray
from moectl.settings.shell.doubts import Doubts, doubted
from moectl.settings.shell.environments import exported
from moectl.settings.shell.fold import Fold
from moectl.settings.shell.paths import script_key
from moectl.settings.shell.slips import unexported as unexported_settings
from moectl.settings.shell.source import Source
from moectl.settings.shell.state import Budget, ReadingStopped, State, Variable
from moectl.settings.shell.worlds import CERTAIN, Notes, ShellFault, World
from moectl.values import Origin
from moectl.workload import MARK, Batch, Option, Step, Text, last

__all__ = ["Reading", "Script", "UnreadRest", "read", "read_script", "stray_directives"]

_NODES = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")  # sbatch(1) of Slurm 22.05.8


@dataclass(frozen=True, slots=True)
class UnreadRest:
    """Where a shell would stop reading the script: a clause that begins with a verb."""

    clause: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Script(Batch):
    """A script, with what else reading it has shown.

    Attributes:
        faults: commands that a shell refuses, or reads otherwise than they look.
        files: texts that it writes by here-documents and the like, by the path as it says it.
    """

    faults: tuple[ShellFault, ...] = ()
    files: Mapping[str, Text] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a script says.

    Attributes:
        batch: its directives and what it starts.
        unexported: variables that are set and never exported, so that no command gets them.
        strays: words of export, declare and the like that name no variable: most often the rest
            of a value that is not quoted (`export XLA_FLAGS=--a=1 --b=2`).
        unread: where a shell would stop reading, or None.
        complete: whether it was followed to its end; a script too large or too deep is not.
        told: sentences about files that could not be had.
        doubts: what this reading takes for granted, and what else is worth reading.
    """

    batch: Script
    unexported: Mapping[str, Text]
    strays: tuple[Text, ...]
    unread: UnreadRest | None
    complete: bool
    told: tuple[str, ...] = ()
    doubts: Doubts = field(default_factory=Doubts)

    @property
    def files(self) -> Mapping[str, Text]:
        """Return the texts that the script writes, by path."""
        return self.batch.files

    @property
    def assumed(self) -> frozenset[str]:
        """Return the variables whose defaults count when nobody sets them."""
        return self.doubts.assumed


def read(
    text: str,
    path: str,
    open_file: Callable[[str], str | None] | None = None,
    world: World = CERTAIN,
    environment: Mapping[str, Text] | None = None,
) -> Reading:
    """Read a script.

    Args:
        text: the script; line ends may be those of DOS.
        path: its path, for the places.
        open_file: gives the text of a file that the script reads or runs, by its path from
            the folder of the script; None when it cannot be had.
        world: what is taken for granted.
        environment: variables that its shell begins with, exported.

    Returns:
        What it says; nothing is raised for any text.
    """
    source = Source.of_file(text, path)
    found = directives(source)
    notes = Notes(world=world, open_file=open_file, folder=posixpath.dirname(path))
    notes.chain.append(posixpath.normpath(path))
    start = exported(found, environment or {})
    state = State({name: Variable(value, exported=True) for name, value in start.items()})
    if world.assumes:
        state.variables |= _of_slurm(found)
    fold = Fold(source, state, Budget(notes=notes))
    complete = True
    try:
        fold.run()
    except (ReadingStopped, RecursionError):
        complete = False
    unread, trouble = None, fold.trouble
    if trouble is not None and trouble.certain:
        unread = UnreadRest(trouble.clause, source.origin(trouble.offset))
    elif trouble is not None:
        complete = False
    plain = {
        name: variable.text
        for name, variable in fold.state.variables.items()
        if variable.text is not None and not variable.exported
    }
    steps = tuple(fold.steps)
    if not complete:
        notes.assumed.clear()
        notes.dropped.clear()
        notes.bodies = 0
    faults = list(notes.faults)
    if complete:
        faults += unexported_settings(fold.state, steps, source, notes.texts)
    return Reading(
        batch=Script(
            directives=found,
            steps=steps,
            scheduled=bool(found),
            environment=fold.state.exported() if complete else {},
            text=text,
            faults=tuple(faults),
            files=dict(notes.files),
        ),
        unexported=plain if complete else {},
        strays=tuple(dict.fromkeys(fold.strays)),
        unread=unread,
        complete=complete,
        told=tuple(notes.told),
        doubts=_doubts(notes, steps),
    )


def _of_slurm(options: tuple[Option, ...]) -> dict[str, Variable]:
    """Return what Slurm tells a job of its nodes, where nobody overrides the directives."""
    nodes = last(options, ["--nodes"])
    text = nodes.value if nodes is not None else None
    if text is None or not text.text.isascii() or not text.text.isdigit():
        return {}
    return dict.fromkeys(_NODES, Variable(text))


def _doubts(notes: Notes, steps: tuple[Step, ...]) -> Doubts:
    certain = notes.world == CERTAIN
    places, names = ({}, {}) if certain else doubted(steps)
    return Doubts(
        world=notes.world,
        worlds=notes.others() if certain and (notes.starts or _sets(steps)) else (),
        assumed=frozenset(notes.assumed),
        dropped={(o.file, o.line, o.column): names for o, names in notes.dropped.items()},
        possible=tuple(dict.fromkeys(notes.possible)),
        places=places,
        names=names,
    )


def _sets(steps: tuple[Step, ...]) -> bool:
    """Whether a step gets a variable that the processes of a job read."""
    setting = launchers().setting
    return any(setting(name) for step in steps for name in step.environment) or any(
        _sets(step.inside) for step in steps
    )


def read_script(text: str, path: str) -> Script:
    """Return the directives and the steps of a script; see `read`."""
    return read(text, path).batch


def stray_directives(text: str, path: str = "") -> list[Option]:
    """Return options that look like #SBATCH directives and that sbatch ignores."""
    return stray(Source.of_file(text, path))


def unexported(text: str, path: str = "") -> Mapping[str, Text]:
    """Return the variables a script sets and never exports, with their last value."""
    return read(text, path).unexported


def made_file(files: Mapping[str, Text], path: Text) -> str | None:
    """Return the text of a file that a script writes, for reading it in the script's place.

    Args:
        files: `Script.files`.
        path: as a command of the script names it.

    Returns:
        The text with empty lines before it, so that its lines are those of the script, and MARK
        for what is not known; None when the script does not write it, or when it does not stand
        together.
    """
    found = files.get(script_key(path))
    if found is None or not found.pieces or found.text == MARK:
        return None
    ends = [piece for piece in found.pieces if "\n" in piece.text]
    first = (ends or found.pieces)[0].origin.line or 1
    lines = 0
    for piece in ends:
        if piece.origin.line != first + lines:
            return None
        lines += piece.text.count("\n")
    return "\n" * (first - 1) + found.text
