"""Measures `moectl runs` over many recorded runs, beside one `squeue` and one `sacct` by hand.

    python3 benchmarks/runs.py [--runs N] [--repeat N]

Everything is a whole process at a real Slurm with accounts (started here; root, slurm-wlm,
slurmdbd and MariaDB are needed), in turns. The ratio counts: what the table costs over what its
two questions to Slurm cost anyway. Calls of Slurm's programs are counted by wrappers on PATH.
Jobs are 16 real ones; the other records name jobs that neither queue nor accounts have.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.launching import Site, person, run_command

REAL = 16


def recorded(site: Site, count: int) -> None:
    """Record that many runs: a few real ones, and copies of them whose jobs are long gone."""
    for number in range(REAL):
        run_command(site.words(f"real-{number}"))
    base = next(iter(site.records().values()))
    for number in range(count - REAL):
        name = f"old-{number}"
        copy = site.runs / f"{name}-20261101-{number:06d}-0000"
        copy.mkdir()
        job = {"job": str(1_000_000 + number), "submitted": base["created"], "why": "first"}
        record = {**base, "id": copy.name, "name": name, "jobs": [job]}
        if number % 100 == 0:
            record |= {"state": "intent", "jobs": []}
        (copy / "record.json").write_text(json.dumps(record))


def seconds(words: list[str], site: Site) -> float:
    """Run a program and return how long it took."""
    begun = time.perf_counter()
    subprocess.run(words, env=site.environment, cwd=site.folder, check=True, capture_output=True)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        person(Path(folder) / "person") as site,
    ):
        recorded(site, options.runs)
        calls = site.folder / "calls"
        for name in ("squeue", "sacct"):
            site.program(name, f'echo {name} >>{calls}; exec $REAL "$@"')
        door = "import sys; from moectl.cli.runs import runs; sys.exit(runs('text'))"
        runs = [sys.executable, "-c", door]
        jobs = ",".join(str(1_000_000 + number) for number in range(options.runs))
        subjects = {
            "python pass": [sys.executable, "-c", "pass"],
            "squeue": ["squeue", "--me", "--noheader", "--states=all"],
            "sacct": ["sacct", "--allocations", "--noheader", f"--jobs={jobs}"],
            "moectl runs": runs,
        }
        seconds(runs, site)  # settles the intents
        calls.unlink()
        seconds(runs, site)
        counted = Counter(calls.read_text().split())
        taken: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(options.repeat):
            for name, words in subjects.items():
                taken[name].append(seconds(words, site))
        medians = {name: statistics.median(times) for name, times in taken.items()}
        asked = medians["squeue"] + medians["sacct"]
        print(f"| {options.runs} recorded runs | median of {options.repeat} (ms) |")
        print("|---|--:|")
        for name, median in medians.items():
            print(f"| {name} | {1000 * median:.1f} |")
        print(f"\nmoectl runs / (squeue + sacct): {medians['moectl runs'] / asked:.1f}")
        print(f"calls: {dict(counted)}")


if __name__ == "__main__":
    main()
