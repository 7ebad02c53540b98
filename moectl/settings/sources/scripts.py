"""Reads a script with the files it runs or sources beside it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from moectl.errors import shown
from moectl.facts.maxtext import Catalogue
from moectl.findings import Finding
from moectl.settings.sources.commands import parts_of_script
from moectl.settings.sources.detect import is_shell
from moectl.settings.sources.source import Open, Part, finding
from moectl.values import Origin
from moectl.workload import Batch, Step

if TYPE_CHECKING:
    from moectl.settings.shell import Doubts, Reading, World

# Without one of these words nothing that is judged can stand in a script.
_MATTERS: Final = re.compile(r"maxtext|XLA_|JAX_|NCCL_|\bsrun\b|\bM_[A-Z]", re.IGNORECASE)
_WIDTH: Final = 10_000
_NOTHING: Final = ":"  # a command that does nothing


def read_script(
    text: str,
    name: str,
    kind: str,
    open_file: Open,
    catalogue: Catalogue,
    world: World | None = None,
) -> tuple[list[Part], list[Finding], list[str], Doubts]:
    """Return what a script starts, what is wrong with its form, and how it was read.

    Args:
        text: the script.
        name: its name.
        kind: the kind of its parts.
        open_file: gives the text of a file beside it.
        catalogue: keys of the MaxText release.
        world: what the reading takes for granted; nothing when None.
    """
    from moectl.settings.shell import CERTAIN, is_template, read  # noqa: PLC0415

    told: list[str] = []
    if is_shell(text):
        reading = read(text, name, open_file, world or CERTAIN)
    else:
        program = shown(text.partition("\n")[0][2:].strip(), 60)
        told.append(f"its body is no shell's ({program}): only its directives are judged")
        reading = read(_directives_only(text), name, None, world or CERTAIN)
    if is_template(text):
        told.append("it is a template: what is filled in later is not known")
    parts, findings, more = parts_of_script(reading.batch, name, kind, open_file, catalogue)
    findings += faults_of(reading, name, text)
    if not reading.complete and not any(found.code == "SRC105" for found in findings):
        told.append("it is too large or too deep to be followed to its end")
    return parts, findings, [*told, *reading.told, *more], reading.doubts


def _directives_only(text: str) -> str:
    """Return a script of another language with its comments and nothing else."""
    return "\n".join(
        line if not line.strip() or line.lstrip().startswith("#") else _NOTHING
        for line in text.split("\n")
    )


def faults_of(reading: Reading, name: str, text: str) -> list[Finding]:
    """Return where a shell would stop reading, and where the reading of it ended too early.

    Args:
        reading: the script as read.
        name: the name under which it was read.
        text: the script.
    """
    found = []
    if reading.unread is not None:
        clause, origin = reading.unread.clause, reading.unread.origin
        found.append(
            finding("SRC103", "error", "script", f"a shell {clause}.", "mend the line", origin)
        )
    if not reading.complete:
        origin = _last(reading.batch, name)
        rest = text.split("\n")[(origin.line or 1) - 1 :]
        if any(_MATTERS.search(line[:_WIDTH]) for line in rest):
            found.append(
                finding(
                    "SRC105",
                    "warning",
                    "script",
                    "the script is too large or too deep to be followed to its end: it is not "
                    "judged from here on.",
                    "split the script, or give its variables in plain assignments",
                    origin,
                )
            )
    return found


def _last(batch: Batch, name: str) -> Origin:
    """Return the place of the last command that was read."""
    steps: list[Step] = [step for step in batch.steps if step.origin.file == name]
    return max(
        (step.origin for step in steps),
        key=lambda origin: origin.line or 0,
        default=Origin(name, name, 1, 1),
    )
