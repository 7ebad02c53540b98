"""Reads a script with the files it runs or sources beside it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from moectl.errors import shown
from moectl.facts.maxtext import Catalogue
from moectl.findings import Finding
from moectl.job import Origin
from moectl.settings.sources.commands import parts_of_script
from moectl.settings.sources.detect import is_shell
from moectl.settings.sources.source import Open, Part, finding
from moectl.workload import Batch, Step

if TYPE_CHECKING:
    from moectl.settings.shell import Reading

MAX_FILES: Final = 64
"""Files that one script may draw in; each is read once."""
_NOTHING: Final = ":"  # a command that does nothing


def read_script(
    text: str, name: str, kind: str, open_file: Open, catalogue: Catalogue
) -> tuple[list[Part], list[Finding], list[str]]:
    """Return what a script starts, what is wrong with its form, and how it was read.

    Args:
        text: the script.
        name: its name.
        kind: the kind of its parts.
        open_file: gives the text of a file beside it.
        catalogue: keys of the MaxText release.
    """
    told: list[str] = []
    if is_shell(text):
        reading, missed = followed(text, name, open_file)
    else:
        program = shown(text.partition("\n")[0][2:].strip(), 60)
        told.append(f"its body is no shell's ({program}): only its directives are judged")
        reading, missed = followed(_directives_only(text), name, open_file)
    batch = reading.batch
    parts, findings, more = parts_of_script(batch, name, kind, open_file, catalogue)
    return parts, [*findings, *faults_of(reading, name, "script")], [*told, *missed, *more]


def _directives_only(text: str) -> str:
    """Return a script of another language with its comments and nothing else."""
    return "\n".join(
        line if not line.strip() or line.lstrip().startswith("#") else _NOTHING
        for line in text.split("\n")
    )


def followed(text: str, name: str, open_file: Open) -> tuple[Reading, list[str]]:
    """Read a script and what it draws in; tell the files that cannot be had."""
    from moectl.settings.shell import read  # noqa: PLC0415

    asked: dict[str, str | None] = {}

    def opened(path: str) -> str | None:
        if path not in asked:
            asked[path] = open_file(path) if len(asked) < MAX_FILES else None
        return asked[path]

    reading: Reading = read(text, name, **_argument(read, opened))
    missed = [path for path, found in asked.items() if found is None]
    told = [f"{shown(path)} is not beside the file; what it does is not known" for path in missed]
    return reading, told


def _argument(read: Callable[..., Any], opened: Open) -> dict[str, Any]:
    return {"open_file": opened} if _takes_files(read) else {}


@cache
def _takes_files(read: Callable[..., Any]) -> bool:
    return "open_file" in inspect.signature(read).parameters


def faults_of(reading: Reading, name: str, kind: str) -> list[Finding]:
    """Return where a shell would stop reading, and where the reading of it ended too early."""
    found = []
    if reading.unread is not None:
        clause, origin = reading.unread.clause, reading.unread.origin
        found.append(
            finding("SRC103", "error", kind, f"a shell {clause}.", "mend the line", origin)
        )
    if not reading.complete:
        origin = _last(reading.batch, name)
        found.append(
            finding(
                "SRC105",
                "warning",
                kind,
                "the script is too large or too deep to be followed to its end: it is not judged "
                f"from line {origin.line} on.",
                "split the script, or give its variables in plain assignments",
                origin,
            )
        )
    return found


def _last(batch: Batch, name: str) -> Origin:
    """Return the place of the last command that was read."""
    lines: list[Step] = [step for step in batch.steps if step.origin.file == name]
    return max(
        (step.origin for step in lines),
        key=lambda origin: origin.line or 0,
        default=Origin(name, name, 1, 1),
    )
