"""moectl probe: the program that catalogues one image, or its answer for an interpreter."""

from __future__ import annotations

from pathlib import Path

from moectl.cli.text import say
from moectl.errors import ValueUsageError


def run(python: str | None, output: str | None) -> int:
    """Print the probe program; with --python run it there and print its JSON instead.

    Raises:
        ValueUsageError: an option is empty, or names no file.
    """
    from moectl.evidence import probe  # noqa: PLC0415

    if python == "":
        raise ValueUsageError("--python", python, "the path of an interpreter")
    if output is not None and not Path(output).name:
        raise ValueUsageError("--output", output, "the path of a file")
    text = probe.run(python) if python else probe.program()
    if output is None:
        say(text.removesuffix("\n"))
        return 0
    probe.write(Path(output), text)
    say(f"wrote {output}")
    if not python:
        say(f"next  docker run --rm IMAGE python3 - < {output} > image.json")
    return 0
