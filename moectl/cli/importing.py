"""moectl import."""

from __future__ import annotations

import sys
from pathlib import Path

from moectl.actions.importing import Imported, import_files
from moectl.cli.manner import remark
from moectl.cli.numbers import whole
from moectl.cli.text import say_json
from moectl.given import Given


def run(
    paths: list[str],
    gpus: str | None,
    hardware: str | None,
    image: str | None,
    output: str | None,
    force: bool,
    format: str,  # noqa: A002 - the option's name
) -> int:
    """Write a run file that says what old files say; exit code 1 when it makes no job."""
    count = None if gpus is None else whole("--gpus", gpus, "a whole number of GPUs, e.g. 128")
    found = import_files(paths, Given(gpus=count, hardware=hardware, image=image))
    if output is not None:
        from moectl.launch.whole_file import write  # noqa: PLC0415

        write(Path(output), found.text, force=force)
    if format == "json":
        say_json(found.as_dict())
    else:
        if output is None:
            sys.stdout.write(found.text)
        _say(found, output)
    return 1 if found.fault else 0


def _say(found: Imported, output: str | None) -> None:
    """Say what was understood and what was not, beside the run file."""
    told = found.understood
    lines = [
        f"understood: {told.keys} MaxText keys, {told.flags} XLA flags, {told.variables} variables"
        + (f"; secrets by name: {', '.join(told.secrets)}" if told.secrets else "")
    ]
    lines += [
        f"not taken over: {one.what} ({one.origin.file}:{one.origin.line}): {one.why}"
        for one in told.unplaced
    ]
    lines += [f"said though nobody said it, as MaxText's default: {key}" for key in found.added]
    lines += [
        f"differs: {one.name}: {one.left!r} in the files, {one.right!r} in the job"
        for one in found.differences
    ]
    lines += list(found.notes)
    if found.fault:
        lines.append(f"no run as it stands: {found.fault}")
    elif not found.differences:
        lines.append("proof: rendered, it has every value that the files have")
    if output is not None:
        lines.append(f"wrote {output}")
    for line in lines:
        remark(line)
