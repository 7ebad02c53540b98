"""Writes folders whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from moectl.errors import LocalFilesError, shown

_STAGED = ".moectl-staged-"


def write_folder(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    seal: str,
    force: bool,
    own: Collection[str] = (),
) -> None:
    """Write `files` into `folder`, all of them or none.

    A new folder appears by one rename. In a folder that exists, every file is first written
    beside its place; then the seal is removed, the files are renamed into place, and the seal
    comes last, so that a folder without its seal is known to be unfinished.

    Args:
        folder: the folder; its parents are made.
        files: name to content; names are plain.
        seal: the name in `files` that is written last.
        own: names that a run leaves in the folder; they are nobody else's, and stay.
        force: whether files of the same name in a folder with other files are overwritten;
            other files always stay.

    Raises:
        LocalFilesError: the folder holds other people's files, or the file system refuses.
    """
    try:
        folder = folder.resolve() if folder.is_symlink() else folder
        _clean(folder)
        others = _others(folder, {*files, *own})
        if others and not force:
            raise LocalFilesError(
                f"{folder} holds other files ({', '.join(map(shown, others[:3]))}"
                f"{', ...' if len(others) > 3 else ''}); choose another --output, or add "
                "--force to write beside them"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.is_dir() and any(folder.iterdir()):
            _into(folder, files, seal)
        else:
            _as_new(folder, files)
    except OSError as error:
        raise LocalFilesError(
            f"{error.filename or folder}: {error.strerror or error}; nothing was written"
        ) from None


def _others(folder: Path, files: Collection[str]) -> list[str]:
    if not os.path.lexists(folder):
        return []
    if not folder.is_dir():
        raise LocalFilesError(f"{folder} is a file, not a folder; choose another --output")
    return sorted(entry.name for entry in folder.iterdir() if entry.name not in files)


def _as_new(folder: Path, files: Mapping[str, bytes]) -> None:
    staged = Path(tempfile.mkdtemp(prefix=_STAGED, dir=folder.parent))
    try:
        staged.chmod(0o777 & ~_umask())
        for name, content in files.items():
            _write(staged / name, content)
        _sync(staged)
        staged.rename(folder)
        _sync(folder.parent)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _into(folder: Path, files: Mapping[str, bytes], seal: str) -> None:
    staged = Path(tempfile.mkdtemp(prefix=_STAGED, dir=folder))
    try:
        for name, content in files.items():
            _write(staged / name, content)
        with contextlib.suppress(FileNotFoundError):
            (folder / seal).unlink()
        for name in sorted(files, key=lambda name: name == seal):
            (staged / name).rename(folder / name)
        _sync(folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(folder: Path) -> None:
    with _opened(folder) as descriptor, contextlib.suppress(OSError):
        os.fsync(descriptor)  # some file systems cannot sync a folder


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _clean(folder: Path) -> None:
    """Remove what an interrupted write of this folder left behind."""
    if folder.is_dir() and os.access(folder, os.W_OK):
        for entry in folder.glob(f"{_STAGED}*"):
            shutil.rmtree(entry, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
