"""Reads shipped presets without YAML.

A preset is YAML for the people. What it says lies beside it as JSON, which takes a twentieth
of the time, with the text that it was made of: once somebody edits the YAML, the JSON no longer
belongs to it and the YAML itself is read. After a change: `python -m moectl.settings.preset_json`;
a test holds the two together.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from moectl.resources import fact, shipped
from moectl.settings.yaml_source import read_mapping

FOLDER = "presets"


def data(name: str) -> dict[str, Any]:
    """Return what a shipped preset says.

    Raises:
        SourceError: somebody edited it, and it is no YAML now.
    """
    text = shipped(FOLDER).joinpath(f"{name}.yaml").read_text("utf-8")
    file = fact(FOLDER, f"{name}.json")
    if file.is_file():
        held: dict[str, Any] = json.loads(file.read_text("utf-8"))
        if held["text"] == text:
            said: dict[str, Any] = held["data"]
            return said
    return _read(name, text)


def compiled(name: str, text: str) -> str:
    """Return the JSON of a preset's YAML text."""
    held = {"text": text, "data": _read(name, text)}
    return json.dumps(held, ensure_ascii=False, indent=0, allow_nan=False) + "\n"


def _read(name: str, text: str) -> dict[str, Any]:
    return read_mapping(text, f"presets/{name}.yaml").data


def main() -> None:
    """Write the JSON of every preset, in the source tree."""
    folder = Path(str(fact(FOLDER)))
    folder.mkdir(exist_ok=True)
    for path in Path(str(shipped(FOLDER))).glob("*.yaml"):
        text = compiled(path.stem, path.read_text("utf-8"))
        folder.joinpath(f"{path.stem}.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
