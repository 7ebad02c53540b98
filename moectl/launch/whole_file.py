"""Writes one file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from moectl.errors import LocalFilesError


def write(path: Path, text: str, *, force: bool = True) -> None:
    """Write a text file, on the disk when this returns; an old one stays until then.

    Args:
        path: the file; its folder is made.
        text: what it holds.
        force: whether a file that is there is replaced.

    Raises:
        LocalFilesError: it is there and may not be replaced, or the file system refuses.
    """
    if path.is_dir():
        raise LocalFilesError(f"{path} is a folder, not a file")
    if not force and os.path.lexists(path):
        raise LocalFilesError(f"{path} exists; --force replaces it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, part = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
                os.fchmod(stream.fileno(), 0o666 & ~_umask())
            Path(part).replace(path)
        finally:
            Path(part).unlink(missing_ok=True)
        sync(path.parent)
    except OSError as error:
        raise LocalFilesError(f"{error.filename or path}: {error.strerror or error}") from None


def sync(folder: Path) -> None:
    """Put the names of a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot sync a folder
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
