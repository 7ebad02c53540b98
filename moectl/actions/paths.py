"""Which files a person means by a path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from moectl.settings.files import LOCK_NAME

STANDARD_INPUT = "-"
# What a folder is searched for; a file that is named itself is read whatever it is called.
ENDINGS = frozenset({".yml", ".yaml", ".sh", ".sbatch", ".slurm", ".bash", ".env"})


def meant(paths: Sequence[str]) -> Iterator[str]:
    """Yield the files that are meant, each once, in order.

    A folder with a lock file is one bundle; any other is searched, without hidden folders
    and without following links, so that a loop of links ends.
    """
    seen: set[str] = set()
    for path in paths:
        for name in _in_folder(path) if _is_plain_folder(path) else [path]:
            if name not in seen:
                seen.add(name)
                yield name


def _is_plain_folder(path: str) -> bool:
    return path != STANDARD_INPUT and Path(path).is_dir() and not _is_bundle(Path(path))


def _is_bundle(path: Path) -> bool:
    return (path / LOCK_NAME).is_file()


def _in_folder(path: str) -> Iterator[str]:
    for folder, inner, names in os.walk(path):
        here = Path(folder)
        if folder != path and _is_bundle(here):
            inner.clear()
            yield folder
            continue
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(names):
            if Path(name).suffix in ENDINGS and not name.startswith("."):
                yield str(here / name)
