"""Where the files that ship with moectl lie: templates, presets and fact tables.

In a wheel `templates/` and `presets/` are inside the package; in a source tree, zipped or
not, they stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol


class Folder(Protocol):
    """What is needed of a folder: `pathlib.Path` and `zipfile.Path` both have it."""

    @property
    def name(self) -> str: ...  # noqa: D102
    def joinpath(self, *parts: str) -> Folder: ...  # noqa: D102
    def is_dir(self) -> bool: ...  # noqa: D102
    def is_file(self) -> bool: ...  # noqa: D102
    def read_text(self, encoding: str) -> str: ...  # noqa: D102
    def read_bytes(self) -> bytes: ...  # noqa: D102
    def iterdir(self) -> Iterator[Any]: ...  # noqa: D102


def package() -> Folder:
    """Return the folder of the `moectl` package."""
    here = Path(__file__).parent
    if here.is_dir():
        return here
    import zipfile  # noqa: PLC0415 - only a zipped source tree pays for it

    archive = next(path for path in here.parents if path.is_file())
    inside = here.relative_to(archive).as_posix()
    return zipfile.Path(str(archive), at=f"{inside}/")


def shipped(kind: str) -> Folder:
    """Return the folder `kind` ("templates" or "presets"), inside the package or beside it."""
    inside = package().joinpath(kind)
    if inside.is_dir():
        return inside
    parent = Path(__file__).parent.parent
    if parent.is_dir():
        return parent / kind
    import zipfile  # noqa: PLC0415

    archive = (
        next(path for path in parent.parents if path.is_file())
        if (not parent.is_file())
        else parent
    )
    prefix = "" if archive == parent else f"{parent.relative_to(archive).as_posix()}/"
    return zipfile.Path(str(archive), at=f"{prefix}{kind}/")


def fact(*parts: str) -> Folder:
    """Return a file or folder of the fact tables."""
    return package().joinpath("facts", "data", *parts)
