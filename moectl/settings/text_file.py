"""Reads one file of a person as text."""

from __future__ import annotations

from pathlib import Path

from moectl.errors import LocalFilesError, SourceError

MAX_BYTES = 4 * 1024 * 1024


def read_text(path: Path) -> str:
    """Return a file of a person as text.

    Raises:
        LocalFilesError: it cannot be opened.
        SourceError: it is not UTF-8 text, or too large to be one of ours.
    """
    try:
        if path.exists() and not path.is_file():
            raise LocalFilesError(f"{path} is not a regular file")
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # a name too long, or with a NUL character
        why = error.strerror if isinstance(error, OSError) else error
        raise LocalFilesError(f"{path}: {why or error}") from None
    if len(raw) > MAX_BYTES:
        raise SourceError(str(path), None, f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise SourceError(str(path), line, "it is not UTF-8 text") from None
