"""moectl diff."""

from __future__ import annotations

from typing import Any

from moectl.actions.diff import ABSENT, diff
from moectl.cli.text import say, say_json
from moectl.reports.escape import printable
from moectl.settings.emit import flow


def run(left: str, right: str, format: str) -> int:  # noqa: A002 - the option's name
    """Say what differs between two jobs; exit code 1 when something does."""
    found = diff(left, right)
    if format == "json":
        say_json(
            {
                "left": found.left,
                "right": found.right,
                "changes": [change.as_dict() for change in found.changes],
            }
        )
    else:
        section = ""
        for change in found.changes:
            if change.section != section:
                section = change.section
                say(f"{section}:")
            say(f"  {printable(change.name)}: {_shown(change.left)} -> {_shown(change.right)}")
        if not found.changes:
            say("the two mean the same job")
    return 1 if found.changes else 0


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "nothing"
    if isinstance(value, str | int | float | bool | list | tuple | dict | None):
        return printable(flow(list(value) if isinstance(value, tuple) else value, omegaconf=False))
    return printable(str(value))
