"""Reads shell and sbatch scripts, and never runs them.

`read_script` gives the directives and the commands that start something, with the variables
each of them gets. What only a running shell would know is unknown; what cannot be read is
left out. Own code reads the language: a general parser that recovers from errors needs memory
and time that grow with the square of a hostile file.
"""

from __future__ import annotations

from moectl.settings.shell.maxtext import MaxTextStart, maxtext_commands
from moectl.settings.shell.read import (
    Reading,
    UnreadRest,
    read,
    read_script,
    stray_directives,
    unexported,
)

__all__ = [
    "MaxTextStart",
    "Reading",
    "UnreadRest",
    "maxtext_commands",
    "read",
    "read_script",
    "stray_directives",
    "unexported",
]
