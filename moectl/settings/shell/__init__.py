"""Reads shell and sbatch scripts, and never runs them.

`read_script` gives the directives and the commands that start something, with the variables
each of them gets. What only a running shell would know is unknown; what cannot be read is
left out. Own code reads the language: a general parser that recovers from errors needs memory
and time that grow with the square of a hostile file.
"""

from __future__ import annotations

from moectl.settings.shell.doubts import Doubts, soften
from moectl.settings.shell.maxtext import MaxTextStart, maxtext_commands
from moectl.settings.shell.read import (
    Reading,
    Script,
    UnreadRest,
    made_file,
    read,
    read_script,
    stray_directives,
    unexported,
)
from moectl.settings.shell.source import is_template
from moectl.settings.shell.worlds import CERTAIN, LIKELY, ShellFault, World
from moectl.settings.shell.wrappers import unwrapped

__all__ = [
    "CERTAIN",
    "LIKELY",
    "Doubts",
    "MaxTextStart",
    "Reading",
    "Script",
    "ShellFault",
    "UnreadRest",
    "World",
    "is_template",
    "made_file",
    "maxtext_commands",
    "read",
    "read_script",
    "soften",
    "stray_directives",
    "unexported",
    "unwrapped",
]
