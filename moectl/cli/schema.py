"""moectl schema: JSON Schema for editors and other checkers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from moectl.cli.text import say, say_json
from moectl.errors import LocalFilesError, UsageError, ValueUsageError


def run(kind: Sequence[str], output: str | None = None) -> int:
    """Print the JSON Schema of run files, or of the kind of file that is named.

    Raises:
        UsageError: two kinds are named, or no file to write to.
        LocalFilesError: the file to write to cannot be written.
    """
    from moectl.actions.schema import schema  # noqa: PLC0415

    if len(kind) > 1:
        raise UsageError("one kind at a time: run, cluster or preset")
    if output is not None and not Path(output).name:
        raise ValueUsageError("--output", output, "the path of a file")
    document = schema(kind[0] if kind else "run")
    if output is None:
        say_json(document)
        return 0
    try:
        Path(output).write_text(f"{json.dumps(document, indent=2)}\n", "utf-8")
    except OSError as error:
        raise LocalFilesError(f"cannot write {output}: {error.strerror}") from error
    say(f"wrote {output}")
    return 0
