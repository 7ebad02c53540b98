"""moectl env list, install and remove."""

from __future__ import annotations

from moectl.actions import env as action
from moectl.cli.manner import remark
from moectl.cli.text import say, say_json
from moectl.reports.columns import columns


def listed(format: str) -> int:  # noqa: A002 - the option's name
    """List the environments that there are, and those that can be had."""
    found = action.held()
    if format == "json":
        say_json({"environments": [each.as_dict() for each in found]})
        return 0
    rows = [
        (
            each.name,
            f"Python {each.python}",
            f"{each.size / 1e9:.1f} GB" if each.size is not None else "not built",
            each.purpose,
        )
        for each in found
    ]
    for line in columns((), rows, {2}):
        say(line)
    return 0


def install(name: str, format: str) -> int:  # noqa: A002 - the option's name
    """Build an environment."""
    found, new = action.install(name, remark)
    if format == "json":
        say_json({"name": name, "python": str(found.python), "new": new})
    else:
        say(f"{name}: {found.python}{'' if new else ', which was there already'}")
    return 0


def remove(name: str, format: str) -> int:  # noqa: A002 - the option's name
    """Remove an environment."""
    there = action.remove(name)
    if format == "json":
        say_json({"name": name, "removed": there})
    else:
        say(f"{name}: {'removed' if there else 'was not built'}")
    return 0
