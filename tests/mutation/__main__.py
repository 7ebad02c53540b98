"""Put deliberate faults into a copy of the tree and tally which of them the tests see.

    python -m tests.mutation --sample 240 --seed 1 --tally docs/mutation.md

What was found is kept in the work folder, so the command goes on where it was stopped. A folder
belongs to the commit it was made at; after another commit take another one. With `--again`,
what survived is tried once more in the working tree's tests as they are now.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from moectl.interpreters import find_uv
from tests.mutation.copy import Copy, Covering, judged, learned, made
from tests.mutation.faults import Fault, drawn
from tests.mutation.page import page, reasons

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    """Return 0 when at least 85 of 100 faults were caught and every other one has a reason."""
    parser = argparse.ArgumentParser(description="Do the tests see deliberate faults?")
    parser.add_argument("--sample", type=int, default=240, help="faults, over four rooms")
    parser.add_argument("--seed", type=int, default=1, help="the same faults for the same seed")
    parser.add_argument("--tally", type=Path, help="write the tally to this file")
    parser.add_argument("--work", type=Path, default=Path("build/mutation"), help="work folder")
    parser.add_argument("--most", type=int, help="try so many faults in this call")
    parser.add_argument("--again", action="store_true", help="try survivors with today's tests")
    options = parser.parse_args(arguments)
    os.nice(10)
    work = options.work.resolve()
    copy = made(ROOT, work, str(find_uv()))
    learned(copy)
    covering = Covering(copy)
    faults = drawn(copy.tree, options.sample, options.seed)
    notes = copy.notes / f"results-{options.seed}.jsonl"
    known = dict(
        json.loads(line)
        for line in (notes.read_text("utf-8").splitlines() if notes.exists() else ())
    )
    if options.again:
        renewed(copy)
        known = {name: said for name, said in known.items() if said in ("caught", "slow")}
    tried = 0
    for number, fault in enumerate(faults, 1):
        if fault.name in known or (options.most is not None and tried >= options.most):
            continue
        tried += 1
        verdict, took = judged(copy, covering, fault)
        known[fault.name] = verdict
        with notes.open("a", encoding="utf-8") as out:
            out.write(json.dumps([fault.name, verdict]) + "\n")
        tell(number, len(faults), fault, verdict, took)
    done = [(fault, known[fault.name]) for fault in faults if fault.name in known]
    text, good = page(done, options.sample, options.seed, reasons())
    if options.tally:
        options.tally.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)
    return 0 if good else 1


def renewed(copy: Copy) -> None:
    """Bring the working tree's tests into the copy; the product stays as it was."""
    shutil.copytree(
        ROOT / "tests",
        copy.tree / "tests",
        dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__"),
    )


def tell(number: int, count: int, fault: Fault, verdict: str, took: float) -> None:
    """Say what became of a fault."""
    sys.stdout.write(f"{number}/{count} {verdict} in {took:.0f} s: {json.dumps(asdict(fault))}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
