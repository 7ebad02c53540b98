"""Whole files that a test compares with, renewed only on request.

MOECTL_RENEW_GOLDEN=1 writes them; without it a file that is missing or differs is a failure.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "golden"


def compare(folder: str, files: dict[str, str]) -> None:
    """Compare texts with the files of `tests/golden/<folder>`, all of them and no others."""
    place = FOLDER / folder
    if os.environ.get("MOECTL_RENEW_GOLDEN") == "1":
        place.mkdir(parents=True, exist_ok=True)
        for old in place.iterdir():
            old.unlink()
        for name, text in files.items():
            (place / name).write_text(text, encoding="utf-8")
    held = (
        {path.name: path.read_text("utf-8") for path in place.iterdir()} if place.is_dir() else {}
    )
    assert files == held
