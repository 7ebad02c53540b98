"""Compares every estimate with real MaxText, and writes the tables of a page.

python -m tests.estimates                                every preset on every mesh
python -m tests.estimates --page docs/estimates.md       and its tables
python -m tests.estimates --published --page docs/estimates.md     published runs only
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.estimates.page import points_table, predictions, published_table, replaced
from tests.estimates.points import Compared, compared, every
from tests.judge.client import Judge
from tests.support import components

_PART = 8  # points between two lines of progress


def main(words: Sequence[str] | None = None) -> int:
    """Compare, print, and write; 1 if a point differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.estimates", description=__doc__)
    parser.add_argument("--page", type=Path, help="Markdown file whose tables are renewed")
    parser.add_argument("--published", action="store_true", help="leave real MaxText out")
    said = parser.parse_args(words)
    sections = {"published": published_table(predictions())}
    rows: list[Compared] = [] if said.published else asked()
    if rows:
        sections["points"] = points_table(rows)
    for body in sections.values():
        say(f"{body}\n")
    if said.page:
        text = said.page.read_text("utf-8")
        said.page.write_text(replaced(text, sections), encoding="utf-8")
    return 0 if all(row.equal for row in rows) else 1


def asked() -> list[Compared]:
    """Have real MaxText answer for every point."""
    points = every()
    rows: list[Compared] = []
    started = time.monotonic()
    with Judge(components.found("maxtext")) as judge:
        for first in range(0, len(points), _PART):
            rows += compared(points[first : first + _PART], judge)
            say(f"{len(rows)} of {len(points)} compared, {time.monotonic() - started:.0f} s")
    return rows


def say(text: str) -> None:
    """Print at once, as it takes long."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
