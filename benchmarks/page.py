"""Measures everything in one run and writes the tables of docs/benchmarks.md.

    benchmarks/run [--quick] [--only NAME] [--page FILE]

Each part is a program of this folder and stands between its own marks on the page. A part that
has no figures leaves what stands there, and its name is said at the end. `--quick` takes few
runs, small logs and no MaxText: it shows that everything works, and writes no page.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from processes import ROOT, machine, surroundings, tell

PAGE = ROOT / "docs" / "benchmarks.md"
# A part's program with its words: for the page, and to see that it works.
PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "startup": ((), ("--quick", "--runs", "2")),
    "launchers": ((), ("--runs", "2")),
    "validate": ((), ("--runs", "2", "--maxtext-runs", "1", "--files", "50", "--many", "100")),
    "plan": (("--plot", "docs/plan-growth.svg"), ("--runs", "1")),
    "estimate": ((), ("--quick", "--runs", "2")),
    "runs": ((), ("--runs", "50", "--repeat", "2")),
    "report": ((), ("--lines", "20000")),
}


def measured(name: str, *, quick: bool) -> str:
    """Run a part and return its tables, or "" when it has none."""
    words = PARTS[name][int(quick)]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *words],
        cwd=ROOT,
        env=surroundings(),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    tell(f"{name}: {time.monotonic() - begun:.0f} s")
    if done.returncode or "no figures" in done.stdout or "|--" not in done.stdout:
        tell(f"{name}: no figures\n{done.stdout[-1500:]}")
        return ""
    # What a part's programs say before its tables is left out.
    lines = done.stdout.splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if line.startswith(("|", "before:")))
    return "".join(lines[first:])


def main() -> int:
    """Measure; return 1 when a part had no figures."""
    parser = argparse.ArgumentParser(description="All figures of docs/benchmarks.md, in one run.")
    parser.add_argument("--quick", action="store_true", help="show that every part works")
    parser.add_argument("--only", choices=PARTS, action="append", help="leave out all other parts")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to write")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.estimates.page import replaced  # noqa: PLC0415 - of this tree

    begun = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    sections = {"machine": f"Measured on {begun} UTC: {machine()}."}
    absent = []
    for name in options.only or PARTS:
        if text := measured(name, quick=options.quick):
            sections[name] = text.replace("\nafter:", "  \nafter:")
        else:
            absent.append(name)
    if options.quick:
        for name, text in sections.items():
            sys.stdout.write(f"## {name}\n\n{text}\n")
    else:
        options.page.write_text(replaced(options.page.read_text("utf-8"), sections), "utf-8")
    if absent:
        tell(f"without figures: {', '.join(absent)}")
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main())
