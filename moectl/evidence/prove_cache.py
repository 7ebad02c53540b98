"""Keeps what compiles found, by the content of what was compiled.

The same configuration, arguments, flags, GPU and packages give the same program, so nothing
here grows old; a file that cannot be read is as good as none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from moectl import environments
from moectl.errors import LocalFilesError
from moectl.evidence.prove import Compiled, Request, program
from moectl.evidence.prove_flags import Flag
from moectl.launch.whole_file import write

# Raised when what is read out of a compile changes.
FORM = 1


def folder() -> Path:
    """Return the folder of what compiles found, beside that of the environments."""
    return environments.home().parent / "proofs"


def key(request: Request, facts: Mapping[str, Any], requirements: str) -> str:
    """Return the name of a compile: a digest of everything that decides its result.

    Args:
        request: what is compiled, with the flags as the job says them.
        facts: what is added to it.
        requirements: the packages it is compiled with.
    """
    content = json.dumps(
        [FORM, asdict(request), facts, requirements, program()], sort_keys=True, default=str
    )
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def load(name: str) -> tuple[Compiled, list[Flag]] | None:
    """Return what a compile found, or None where nothing readable is kept."""
    try:
        data = json.loads((folder() / f"{name}.json").read_text("utf-8"))
        return Compiled.from_dict(data["compiled"]), [Flag(**item) for item in data["flags"]]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def save(name: str, found: Compiled, flags: list[Flag]) -> str:
    """Keep what a compile found, whole or not at all.

    Returns:
        "" or why it could not be kept, which spoils nothing else.
    """
    data = {"compiled": found.as_dict(), "flags": [asdict(flag) for flag in flags]}
    try:
        write(folder() / f"{name}.json", json.dumps(data) + "\n")
    except LocalFilesError as error:
        return str(error)
    return ""
