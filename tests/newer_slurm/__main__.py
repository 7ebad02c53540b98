"""Run all cases under the newer Slurm and print a tally.

python -m tests.newer_slurm [--tally docs/slurm-newer.md]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.newer_slurm.cases import CASES
from tests.support.slurm_newer import SUITE, newer


def main(arguments: list[str]) -> int:
    """Return 0 when every case held."""
    parser = argparse.ArgumentParser(description="Run rendered bundles under a newer Slurm.")
    parser.add_argument("--tally", type=Path, help="write the tally to this file")
    options = parser.parse_args(arguments)
    rows: list[tuple[str, bool, str]] = []
    with newer(2, 18) as slurm, tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        Path(scratch).chmod(0o755)
        for case in CASES:
            folder = Path(scratch) / case.__name__
            folder.mkdir()
            name = case.__name__.replace("_", " ")
            try:
                held, said = True, case(slurm, folder)
            except (AssertionError, OSError, RuntimeError) as error:
                traceback.print_exc()
                held, said = False, str(error).partition("\n")[0]
            rows.append((name, held, said))
            sys.stdout.write(f"{'held' if held else 'FAILED'}: {name}: {said}\n")
        version = slurm.version
    good = sum(held for _, held, _ in rows)
    summary = f"{good} of {len(rows)} cases held under Slurm {version}"
    sys.stdout.write(f"{summary}\n")
    if options.tally:
        options.tally.write_text(page(version, summary, rows), encoding="utf-8")
    return 0 if good == len(rows) else 1


def page(version: str, summary: str, rows: list[tuple[str, bool, str]]) -> str:
    """Return the tally as a page."""
    lines = [
        f"# Slurm {version}",
        "",
        "The tests run under the Slurm of Debian 12, 22.05, which has neither `--segment` nor "
        f"topology/block. Once more, by `.ci/full`, Slurm {version} of Debian's {SUITE} runs in a "
        "root file system of its own: 36 nodes of 4 pretend GPUs in two blocks of 18, one "
        "machine, no container (a stand-in for pyxis parses its options), and a stand-in for "
        "MaxText that notes its environment.",
        "",
        f"{summary} on {time.strftime('%Y-%m-%d', time.gmtime())} "
        "(`python -m tests.newer_slurm --tally docs/slurm-newer.md`):",
        "",
        "| case | | seen |",
        "|---|---|---|",
        *(f"| {name} | {'held' if held else '**failed**'} | {said} |" for name, held, said in rows),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
