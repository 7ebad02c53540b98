"""How a command speaks beside its answer: quietly or not, in colour or not.

`--quiet` and `--color` of every command end here. What is no answer goes to standard error
and through `remark`; nothing else writes there but a command's findings and its errors.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Manner:
    """What was asked for, and what was said so far.

    Attributes:
        form: how the answer is printed, e.g. "json"; "" where a command has one form.
        quiet: whether remarks are left out.
        colour: "auto", "always" or "never".
        answered: whether an answer in JSON was printed, so that no second document follows.
    """

    form: str = ""
    quiet: bool = False
    colour: str = "auto"
    answered: bool = False


NOW = Manner()


def begin(values: dict[str, Any]) -> dict[str, Any]:
    """Take over what a command line says about manners, and return the other values."""
    NOW.form = values.get("format") or ""
    NOW.quiet = values.get("quiet", False)
    NOW.colour = values.get("color", "auto")
    NOW.answered = False
    return {name: value for name, value in values.items() if name not in {"quiet", "color"}}


def remark(sentence: str) -> None:
    """Say on standard error what is worth knowing and is no answer: progress, what was written."""
    if not NOW.quiet:
        complain(sentence)


def complain(sentence: str) -> None:
    """Say on standard error what was refused or went wrong; every line begins with the name."""
    from moectl.errors import masked  # noqa: PLC0415
    from moectl.reports.escape import printable  # noqa: PLC0415

    lines = masked(sentence).splitlines() or [""]
    sys.stderr.write("".join(f"moectl: {printable(line)}\n" for line in lines))
    sys.stderr.flush()


def agreed(question: str) -> bool:
    """Ask somebody at a terminal; nobody there is a no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def colourful(stream: Any) -> bool:
    """Return whether to colour what a stream gets.

    What --color says counts; else a terminal that can, without NO_COLOR (no-color.org).
    """
    if NOW.colour != "auto":
        return NOW.colour == "always"
    return bool(
        stream.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "") not in {"", "dumb"}
    )


# ANSI codes by severity. Written by hand: rich takes longer to import than a whole check takes.
_CODES = {"error": "1;31", "warning": "1;33", "note": "1;36"}


def tinted(word: str, severity: str, stream: Any) -> str:
    """Return a word in the colour of a severity, where the stream is to have colours."""
    code = _CODES.get(severity)
    return f"\x1b[{code}m{word}\x1b[0m" if code and colourful(stream) else word
