"""Which files a person means by a path."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from moectl.settings.bundle_names import LOCK

STANDARD_INPUT = "-"
# What a folder is searched for, in any case; a file that is named itself is read whatever it is
# called. The pattern of .pre-commit-hooks.yaml names the same.
ENDINGS = frozenset(
    {".yml", ".yaml", ".sh", ".bash", ".ksh", ".zsh", ".sbatch", ".slurm", ".batch", ".job"}
    | {".sub", ".env"}
)
# Endings of files that count when they hold what is read, and not otherwise.
DIRECTIVE_ENDINGS = frozenset({"", ".py", ".csh", ".tcsh", ".fish", ".pl"})
TEXT_ENDING = ".txt"
# Folders that hold nobody's own settings.
SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".venv", "node_modules", "__pycache__", ".tox", ".nox"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints"}
)
_HEAD = 16_384
_DIRECTIVE = re.compile(rb"^#SBATCH\b", re.MULTILINE)
_SHEBANG = re.compile(rb"#![^\n]*\b(?:ba|da|z|k|a)?sh\b")
_FLAG = re.compile(rb"(?m)^[\s'\"]*--xla_")


def meant(paths: Sequence[str]) -> Iterator[str]:
    """Yield the files that are meant, each once, in order.

    A folder with a lock file is one bundle; any other is searched, without following links, so
    that a loop of links ends. A folder in which nothing is found is yielded itself.
    """
    seen: set[str] = set()
    for path in paths:
        for name in _in_folder(path) if is_plain_folder(path) else [path]:
            if name not in seen:
                seen.add(name)
                yield name


def is_plain_folder(path: str) -> bool:
    """Whether a path is a folder that is no bundle."""
    return path != STANDARD_INPUT and Path(path).is_dir() and not _is_bundle(Path(path))


def _is_bundle(path: Path) -> bool:
    return (path / LOCK).is_file()


def _in_folder(path: str) -> Iterator[str]:
    found = False
    for folder, inner, names in os.walk(path):
        here = Path(folder)
        if folder != path and _is_bundle(here):
            inner.clear()
            found = True
            yield folder
            continue
        inner[:] = sorted(name for name in inner if name not in SKIPPED)
        for name in sorted(names):
            if _is_wanted(here / name):
                found = True
                yield str(here / name)
    if not found:
        yield path


def _is_wanted(path: Path) -> bool:
    name = path.name.lower()
    if name.startswith("."):  # a setting of another tool, but for the variables
        return name == ".env" or name.startswith(".env.")
    ending = Path(name).suffix
    if ending in ENDINGS:
        return True
    if ending == TEXT_ENDING:
        return _holds_settings(path)
    if ending not in DIRECTIVE_ENDINGS:
        return False
    head = _head(path)
    return bool(_DIRECTIVE.search(head) or (not ending and _SHEBANG.match(head)))


def _holds_settings(path: Path) -> bool:
    """Whether a text is flags of XLA, or variables and nothing else."""
    from moectl.settings.sources.detect import detect  # noqa: PLC0415

    head = _head(path)
    if b"=" not in head:
        return False
    kind = detect(path.name, head.decode("utf-8", "replace"))
    return kind == "variables" or (kind == "flags" and _FLAG.search(head) is not None)


def _head(path: Path) -> bytes:
    """Return how a file begins; nothing of what is no plain file, or cannot be read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""
