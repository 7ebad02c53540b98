"""Folders that each node has of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from moectl.resources import fact


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder of the node's own; `certain` when its name leaves no doubt."""

    folder: str
    certain: bool


@cache
def _folders() -> tuple[LocalFolder, ...]:
    lines = fact("node_local_folders.tsv").read_text("utf-8").splitlines()
    cells = [line.split("\t") for line in lines if not line.startswith("#")]
    found = [LocalFolder(folder, certain == "yes") for folder, certain, _ in cells[1:]]
    return tuple(sorted(found, key=lambda row: -len(row.folder)))


def local_folder(path: str) -> LocalFolder | None:
    """Return the folder of the node's own that an absolute path lies in, or None."""
    plain = "/" + "/".join(part for part in path.split("/") if part not in {"", "."}) + "/"
    return next((row for row in _folders() if plain.startswith(row.folder + "/")), None)


def local_variable(name: str) -> LocalFolder | None:
    """Return the folder of the node's own that a variable stands for, e.g. "TMPDIR", or None."""
    return next((row for row in _folders() if row.folder == f"${name}"), None)
