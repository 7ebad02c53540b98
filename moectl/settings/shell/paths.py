"""How a script that a here-document wrote is found again."""

from __future__ import annotations

from moectl.workload import MARK, Text


def script_key(path: Text) -> str:
    """Return a key that two words have in common when they certainly name the same file.

    What is not known counts by what stands there: `$TMPDIR/run.sh` is the same file twice, but
    `$(mktemp)` is only when both come from the same place.
    """
    parts: list[str] = []
    for piece in path.pieces:
        if MARK not in piece.text:
            parts.append(piece.text)
        elif piece.raw.startswith("$") and not piece.raw.startswith("$("):
            parts.append(f"\0{piece.raw.replace('{', '').replace('}', '')}\0")
        else:
            parts.append(f"\0{piece.origin.line}:{piece.origin.column}\0")
    text = "".join(parts)
    for here in ("./", "\0$PWD\0/"):
        text = text.removeprefix(here)
    return text
