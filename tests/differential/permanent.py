"""Cases on which moectl and MaxText once disagreed; each stays, with what MaxText says to it."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.differential.case import Case

CASES = Path(__file__).parent / "cases"


def permanent() -> list[Case]:
    """Return the cases of every file, in order."""
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        rows = yaml.safe_load(path.read_text(encoding="utf-8")) or []
        found += [Case.from_dict(row) for row in rows]
    return found
