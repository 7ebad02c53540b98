"""Runs the differential test by hand: many drawn cases, or one case again.

python -m tests.differential --count 2000            a new random seed, printed
python -m tests.differential --seed 7 --count 100
python -m tests.differential --case 7:42             one drawn case, or a permanent or directed one
python -m tests.differential --count 2000 --tally docs/differential.md
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.differential.case import Case
from tests.differential.directed import directed
from tests.differential.mutate import draw
from tests.differential.permanent import permanent
from tests.differential.verdicts import Comparison, Outcome, compared, tally
from tests.judge.client import Judge
from tests.support import components

_PART = 200  # cases between two lines of progress


def main(words: Sequence[str] | None = None) -> int:
    """Compare, print the tally and every disagreement; 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="drawn cases")
    parser.add_argument("--seed", type=int, help="of the draw; a new random one if not said")
    parser.add_argument("--first", type=int, default=0, help="index of the first drawn case")
    parser.add_argument("--case", help="id of one case: seed:index, or a name")
    parser.add_argument("--fixed", action="store_true", help="also all directed and permanent")
    parser.add_argument("--tally", type=Path, help="Markdown file for the tally")
    said = parser.parse_args(words)
    with Judge(components.found("maxtext")) as judge:
        if said.case:
            (row,) = compared([case(said.case)], judge)
            say(row.shown())
            return 0 if row.agrees else 1
        return run(judge, said)


def case(name: str) -> Case:
    """Return a case by its id."""
    for one in (*permanent(), *directed()):
        if one.id == name:
            return one
    seed, _, index = name.partition(":")
    return draw(int(seed), int(index))


def run(judge: Judge, said: argparse.Namespace) -> int:
    """Compare the drawn cases, and the fixed ones if wanted."""
    seed = secrets.randbelow(10**6) if said.seed is None else said.seed
    say(f"seed {seed}, {said.count} drawn cases from {said.first}")
    started = time.monotonic()
    rows: list[Comparison] = []
    last = said.first + said.count
    for first in range(said.first, last, _PART):
        part = [draw(seed, index) for index in range(first, min(first + _PART, last))]
        rows += report(compared(part, judge))
        say(f"{len(rows)} compared, {time.monotonic() - started:.0f} s")
    sections = [(f"{said.count} drawn cases of seed {seed}", rows)]
    if said.fixed:
        sections.append(("directed cases", report(compared(directed(), judge))))
        sections.append(("permanent cases", report(compared(permanent(), judge))))
    for title, found in sections:
        say(f"\n{title}\n" + "\n".join(tally(found)))
    if said.tally:
        said.tally.write_text(page(sections, time.monotonic() - started), encoding="utf-8")
    every = [row for _, found in sections for row in found]
    return 0 if all(row.agrees for row in every) else 1


def report(rows: list[Comparison]) -> list[Comparison]:
    """Print what does not agree, and return all."""
    for row in rows:
        if not row.agrees:
            say(row.shown())
    return rows


def say(text: str) -> None:
    """Print at once, also into a pipe."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def page(sections: Sequence[tuple[str, Sequence[Comparison]]], seconds: float) -> str:
    """Return the tally as a Markdown page; the checks one by one for the first section only."""
    lines = [
        "# Differential test against MaxText 0.2.5",
        "",
        "Written by `.ci/full`: `python -m tests.differential --count 2000 --fixed"
        " --tally docs/differential.md`.",
        "",
        "A case is a configuration file, a command line, and numbers of devices and slices. Real"
        " MaxText runs its start up to",
        "the mesh (`tests/judge/`); moectl says from the text alone whether MaxText would refuse."
        " Only findings of rules of",
        "the stages `reads` and `config` count; what MaxText accepts and a later stage refuses has"
        " a stage of its own.",
        "Drawn cases change one to four things of what moectl renders for a preset, or of a plain"
        " file that names a model",
        "(`tests/differential/mutate.py`). A seed draws the same cases as long as presets and key"
        " tables stay the same.",
        "Directed cases are two for each check of MaxText: one that it refuses, one that it only"
        " just accepts. Permanent",
        "cases are disagreements of the past.",
        "",
        f"Run time {seconds:.0f} s.",
    ]
    for number, (title, rows) in enumerate(sections):
        outcomes = {kind: sum(row.outcome is kind for row in rows) for kind in Outcome}
        said = tally(rows)
        lines += ["", f"## {title[0].upper()}{title[1:]}", "", "| outcome | cases |", "|---|---|"]
        lines += [f"| {kind} | {count} |" for kind, count in outcomes.items()]
        lines += ["", f"MaxText {said[1]}; {said[2]}."]
        if number == 0:
            lines += ["", "| refused by | cases |", "|---|---|"]
            lines += ["| {1} | {0} |".format(*row.split(maxsplit=1)) for row in said[3:]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
