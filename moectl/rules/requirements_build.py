"""Makes `facts/data/requirements.json` of the table that people edit.

Run it after a change: `python -m moectl.rules.requirements_build`.
"""

from __future__ import annotations

import json
from pathlib import Path

from moectl.facts.yaml_facts import read

TABLE = "requirements.yaml"


def compiled() -> str:
    """Return the text of `requirements.json` as the table makes it now."""
    return json.dumps(read(TABLE), ensure_ascii=False, indent=0) + "\n"


def main() -> None:
    """Write `requirements.json` in the source tree."""
    data = Path(__file__).parent.parent / "facts" / "data"
    data.joinpath("requirements.json").write_text(compiled(), "utf-8")


if __name__ == "__main__":
    main()
