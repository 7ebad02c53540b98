"""Reads the fact files that people edit by hand.

They are YAML for the people and are read as JSON, which takes a tenth of the time. After a
change: `python -m moectl.facts.yaml_facts`; a test holds the two together.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from moectl.resources import fact

COMPILED = "compiled"


@cache
def read(name: str) -> dict[str, Any]:
    """Return the fact file `name`, e.g. "hardware.yaml", as plain data."""
    found = json.loads(fact(COMPILED, compiled_name(name)).read_text("utf-8"))
    assert isinstance(found, dict)  # noqa: S101 - the file is ours
    return found


def compiled_name(name: str) -> str:
    """Return the name under which a fact file is read."""
    return name.removesuffix(".yaml") + ".json"


def compiled(text: str) -> str:
    """Return the JSON text of a fact file's YAML."""
    import yaml  # noqa: PLC0415

    return json.dumps(yaml.safe_load(text), ensure_ascii=False, indent=0) + "\n"


def main() -> None:
    """Write the JSON of every fact file, in the source tree."""
    data = Path(__file__).parent / "data"
    folder = data / COMPILED
    folder.mkdir(exist_ok=True)
    for path in data.glob("*.yaml"):
        text = compiled(path.read_text("utf-8"))
        folder.joinpath(compiled_name(path.name)).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
