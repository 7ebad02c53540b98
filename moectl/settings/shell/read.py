"""The entry: text in, batch out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from moectl.job import Origin
from moectl.settings.shell.directives import directives, stray
from moectl.settings.shell.fold import Fold
from moectl.settings.shell.source import Source
from moectl.settings.shell.state import Budget, ReadingStopped, State
from moectl.workload import Batch, Option, Text


@dataclass(frozen=True, slots=True)
class UnreadRest:
    """Where a shell would stop reading the script: a clause that begins with a verb."""

    clause: str
    origin: Origin


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
    """

    batch: Batch
    unexported: Mapping[str, Text]
    strays: tuple[Text, ...]
    unread: UnreadRest | None
    complete: bool


def read(text: str, path: str) -> Reading:
    """Read a script.

    Args:
        text: the script; line ends may be those of DOS.
        path: its path, for the places.

    Returns:
        What it says; nothing is raised for any text.
    """
    source = Source.of_file(text, path)
    found = directives(source)
    fold = Fold(source, State(), Budget())
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
    environment = fold.state.exported() if complete else {}
    plain = {
        name: variable.text
        for name, variable in fold.state.variables.items()
        if variable.text is not None and not variable.exported
    }
    return Reading(
        batch=Batch(
            directives=found,
            steps=tuple(fold.steps),
            scheduled=bool(found),
            environment=environment,
            text=text,
        ),
        unexported=plain if complete else {},
        strays=tuple(dict.fromkeys(fold.strays)),
        unread=unread,
        complete=complete,
    )


def read_script(text: str, path: str) -> Batch:
    """Return the directives and the steps of a script; see `read`."""
    return read(text, path).batch


def stray_directives(text: str, path: str = "") -> list[Option]:
    """Return options that look like #SBATCH directives and that sbatch ignores."""
    return stray(Source.of_file(text, path))


def unexported(text: str, path: str = "") -> Mapping[str, Text]:
    """Return the variables a script sets and never exports, with their last value."""
    return read(text, path).unexported
