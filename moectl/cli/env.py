"""moectl env list, install and remove."""

from __future__ import annotations

import sys

from moectl.actions import env as action
from moectl.cli.text import say, say_json


def listed(format: str) -> int:  # noqa: A002 - the option's name
    """List the environments that there are, and those that can be had."""
    found = action.held()
    if format == "json":
        say_json({"environments": [each.as_dict() for each in found]})
        return 0
    width = max(len(each.name) for each in found)
    for each in found:
        size = f"{each.size / 1e9:5.1f} GB" if each.size is not None else "not built"
        say(f"{each.name:<{width}}  Python {each.python}  {size:>9}  {each.purpose}")
    return 0


def install(name: str, format: str) -> int:  # noqa: A002 - the option's name
    """Build an environment."""
    found, new = action.install(name, telling)
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


def telling(sentence: str) -> None:
    """Tell how far something is that takes long."""
    sys.stderr.write(f"moectl: {sentence}\n")
    sys.stderr.flush()
