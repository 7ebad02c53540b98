"""The managed environments: which there are, and what they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl import environments
from moectl.launch.local import require_room


@dataclass(frozen=True, slots=True)
class Held:
    """An environment that can be had.

    Attributes:
        name: its name.
        python: the Python it is pinned for.
        purpose: what it is for.
        folder: where it lies, or would.
        built: whether it is there.
        size: bytes on the disk, None before it is built.
    """

    name: str
    python: str
    purpose: str
    folder: Path
    built: bool
    size: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "python": self.python,
            "for": self.purpose,
            "folder": str(self.folder),
            "built": self.built,
            "bytes": self.size,
        }


def held() -> list[Held]:
    """Return all environments that ship with moectl, built or not."""
    found = []
    for name, recipe in environments.recipes().items():
        folder, there = environments.folder_of(name), environments.built(name)
        size = _size(folder) if there else None
        found.append(Held(name, recipe.python, recipe.purpose, folder, there, size))
    return found


def install(name: str, say: Callable[[str], None]) -> tuple[environments.Environment, bool]:
    """Return an environment, built first if need be, and whether it was.

    Raises:
        MoectlError: there is no such set, no fitting Python, no network, or no room.
    """
    if environments.built(name):
        return environments.managed(name), False
    require_room(environments.home())
    return environments.managed(name, say=say), True


def remove(name: str) -> bool:
    """Remove an environment; return whether there was one.

    Raises:
        MoectlError: there is no such set, it is in use, or the file system refuses.
    """
    return environments.remove(name)


def _size(folder: Path) -> int:
    """Return the bytes of all files in a folder; links are not followed."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_blocks * 512
        except OSError:
            continue
    return total
