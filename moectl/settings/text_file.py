"""Reads one file of a person as text."""

from __future__ import annotations

import re
from pathlib import Path

from moectl.errors import LocalFilesError, SourceError

MAX_BYTES = 4 * 1024 * 1024


def read_text(path: Path) -> str:
    """Return a file of a person as text.

    Raises:
        LocalFilesError: it cannot be opened.
        SourceError: it is not UTF-8 text and no script, or too large to be one of ours.
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
    return decoded(raw, str(path))


def decoded(raw: bytes, name: str) -> str:
    """Return the text of a person's file.

    A shell and sbatch take any bytes, so that of a script each byte that is not UTF-8 becomes
    one character, as `os.fsdecode` has it; see `foreign_byte`. MaxText reads YAML as UTF-8.

    Args:
        raw: its bytes.
        name: its name, for what kind it is and for messages.

    Raises:
        SourceError: it is not UTF-8 text, and no script.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        from moectl.settings.sources.detect import TAKES_BYTES, detect  # noqa: PLC0415

        text = raw.decode("utf-8-sig", "surrogateescape")
        if "\0" not in text and detect(name, text) in TAKES_BYTES:
            return text
        line = raw[: error.start].count(b"\n") + 1
        raise SourceError(name, line, "it is not UTF-8 text") from None


def foreign_byte(text: str) -> int | None:
    """Return the offset of the first byte of a text that is not UTF-8; None when all is."""
    if text.isascii():
        return None
    found = re.search("[\udc80-\udcff]", text)
    return found.start() if found else None
