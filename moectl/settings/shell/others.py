"""Files beside a script that it reads or runs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager

from moectl.settings.shell.source import Source
from moectl.settings.shell.worlds import MAX_FILE_DEPTH, MAX_FILES, MAX_READS, Notes
from moectl.workload import MARK, Text

_LARGEST = 1 << 20
# The folder of the script, the folder it was submitted from, and the current one.
_HERE = re.compile(
    r"\$\{?(?:PWD|SLURM_SUBMIT_DIR)\}?|\$\(.*dirname.*(?:BASH_SOURCE|\$0|\$\{0).*\)|\$\(pwd\)",
    re.DOTALL,
)


def beside(path: Text) -> str | None:
    """Return a path as it is from the folder of the script; None when that is not known."""
    parts: list[str] = []
    for number, piece in enumerate(path.pieces):
        if MARK not in piece.text:
            parts.append(piece.text)
        elif number == 0 and _HERE.fullmatch(piece.raw):
            parts.append(".")
        else:
            return None
    text = "".join(parts)
    return text if text and "\n" not in text else None


def opened(notes: Notes, path: Text, *, tells: bool = True) -> tuple[str, str] | None:
    """Return the name and the text of a file beside the script, or None.

    Args:
        notes: of the reading; they say who opens files, and note what cannot be had.
        path: as the script names it.
        tells: whether it is worth a sentence that the file cannot be had.
    """
    if notes.open_file is None or not path.text:
        return None
    found = beside(path)
    name = posixpath.normpath(posixpath.join(notes.folder, found)) if found is not None else ""
    if found is None or name in notes.chain or len(notes.chain) > MAX_FILE_DEPTH:
        if tells:
            notes.told[_sentence(path)] = None
        return None
    if notes.opened.get(name, 0) >= MAX_READS:
        return None
    text = notes.open_file(posixpath.normpath(found)) if len(notes.opened) < MAX_FILES else None
    if text is None or len(text) > _LARGEST or "\0" in text:
        if tells:
            notes.told[_sentence(path)] = None
        return None
    if name not in notes.opened:
        notes.texts.append(text)
    notes.opened[name] = notes.opened.get(name, 0) + 1
    return name, text


@contextmanager
def reading(notes: Notes, name: str) -> Iterator[None]:
    """Note that a file is being read, so that it does not read itself again."""
    notes.chain.append(name)
    try:
        yield
    finally:
        notes.chain.pop()


def source_of(name: str, text: str) -> Source:
    """Return a file beside the script, whose places carry its name."""
    return Source.of_file(text, name)


def _sentence(path: Text) -> str:
    shown = path.text.replace(MARK, "…")[:100]
    line = f" (line {path.origin.line})" if path.origin.line else ""
    return f"the file {shown}{line} is not beside the script; what it says is not known here"
