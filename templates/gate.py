"""Decides whether the rung of a climb passed. Standard library only, Python 3.8 or newer.

A job that depends on the end of a rung runs it; the next rung depends on its success. It reads
the logs of the rung, and of the verdicts of the rungs below, and writes RUNG.json:

    {"rung": 128, "passed": true, "checks": [{"name": ..., "passed": ..., "told": ...}], ...}

Exit code 0 when the rung passed, 1 when it did not.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

STEP = re.compile(
    r"completed step: (\d{1,12}), seconds: (\d+\.\d+)"
    r"(?:.*?TFLOP/s/device: (\d+\.\d+))?(?:.*?Tokens/s/device: (\d+\.\d+))?"
    r"(?:.*?[ ,]loss: ([0-9.eE+-]+|nan|inf|-inf))?"
)
RANK = re.compile(r"rank-(\d{1,7})\.log")
FOLDER = re.compile(r"(\d{1,18})(?:\.(\d{1,6}))?")
LONGEST = 8192


def median(values: Any) -> float:
    """Return the median of at least one value."""
    held = sorted(values)
    middle = len(held) // 2
    return float(held[middle] if len(held) % 2 else (held[middle - 1] + held[middle]) / 2)


class Rung:
    """What the logs of a rung say."""

    def __init__(self, bundle: Path, overflow: str) -> None:
        self.steps: Any = {}  # step to (seconds, TFLOP/s, tokens/s, loss) of the lowest rank
        self.seconds: Any = {}  # rank to step to seconds
        self.overflow = ""
        self.first_failure = ""
        lost = re.compile(overflow)
        for folder in folders(bundle):
            failure = folder / "first-failure"
            # Only how the last start ended counts.
            self.first_failure = failure.read_text("utf-8", "replace") if failure.exists() else ""
            for path in sorted(folder.iterdir(), key=lambda item: (len(item.name), item.name)):
                match = RANK.fullmatch(path.name)
                if match:
                    self.read(path, int(match.group(1)), lost)

    def read(self, path: Path, rank: int, lost: Any) -> None:
        """Read the log of one process."""
        with path.open("rb") as stream:
            for raw in iter(lambda: stream.readline(LONGEST), b""):
                line = raw.decode("utf-8", "replace")
                match = STEP.search(line)
                if match:
                    number = int(match.group(1))
                    seconds, tflops, tokens = (
                        float(match.group(place) or "nan") for place in (2, 3, 4)
                    )
                    loss = float(match.group(5) or "nan")
                    self.seconds.setdefault(rank, {})[number] = seconds
                    if rank == min(self.seconds):
                        self.steps[number] = (seconds, tflops, tokens, loss)
                elif not self.overflow and lost.search(line):
                    self.overflow = line.strip()[:300]


def folders(bundle: Path) -> Any:
    """Return the folders of logs of a bundle, in the order of their starts."""
    found = []
    for path in (bundle / "logs").glob("*"):
        match = FOLDER.fullmatch(path.name)
        if match and path.is_dir():
            found.append((int(match.group(1)), int(match.group(2) or 0), path))
    return [path for _, _, path in sorted(found)]


def checks(rung: Rung, asked: Any, below: Any) -> Any:
    """Yield name, whether it passed, and why, of every check.

    Args:
        rung: what the logs say.
        asked: thresholds and the number of steps.
        below: verdicts of the rungs below, lowest first.
    """
    last = max(rung.steps, default=None)
    wanted = asked["steps"]
    if last is None:
        yield "finished", False, "no step was completed"
        return
    done = wanted is None or last >= wanted - 1
    told = f"step {last}" + ("" if wanted is None else f" of {wanted - 1}")
    failure = rung.first_failure.split()
    if failure:
        done, told = False, f"{told}; a process ended with code {failure[0]}"
    yield "finished", done, told
    yield "no overflow", not rung.overflow, rung.overflow or "none in the logs"
    losses = {number: row[3] for number, row in rung.steps.items() if not math.isnan(row[3])}
    odd = [number for number, row in rung.steps.items() if not math.isfinite(row[3])]
    yield "loss is finite", not odd, f"not at step {odd[0]}" if odd else f"{len(losses)} steps"
    steady = [number for number in sorted(rung.steps) if number >= asked["skip"]]
    if not steady:
        yield "steady steps", False, f"none after the first {asked['skip']}"
        return
    tflops = median([rung.steps[number][1] for number in steady])
    tokens = median([rung.steps[number][2] for number in steady])
    if asked["tflops"]:
        yield "TFLOP/s a GPU", tflops >= asked["tflops"], f"{tflops:.3f}, {asked['tflops']} asked"
    if below:
        share = tokens / below[0]["tokens_per_s"] if below[0]["tokens_per_s"] else 0.0
        told = f"{share:.1%} of {below[0]['rung']} GPUs, {asked['efficiency']:.0%} asked"
        yield "scaling efficiency", share >= asked["efficiency"], told
        yield parity(losses, asked["loss"], below[-1])
    yield stragglers(rung, steady, asked["straggler"])


def parity(losses: Any, tolerance: float, below: Any) -> Any:
    """Return the check of the loss against the rung below."""
    theirs = {int(number): loss for number, loss in below["losses"].items()}
    shared = sorted(set(losses) & set(theirs))
    if not shared:
        return "loss parity", False, f"no step in common with {below['rung']} GPUs"
    number = shared[-1]
    off = abs(losses[number] - theirs[number]) / max(abs(theirs[number]), 1e-9)
    told = (
        f"step {number}: {losses[number]:.3f}, {theirs[number]:.3f} on {below['rung']} GPUs "
        f"({off:.1%} apart, {tolerance:.0%} allowed)"
    )
    return "loss parity", off <= tolerance, told


def stragglers(rung: Rung, steady: Any, factor: float) -> Any:
    """Return the check of the processes against each other."""
    each = {
        rank: median([seconds[number] for number in steady if number in seconds])
        for rank, seconds in rung.seconds.items()
        if any(number in seconds for number in steady)
    }
    middle = median(each.values())
    rank = max(each, key=lambda number: each[number])
    told = f"rank {rank}: {each[rank]:.3f} s, {middle:.3f} s in the middle of {len(each)}"
    return "no straggler", each[rank] <= factor * middle, told


def verdict(bundle: Path, asked: Any, below: Any) -> Any:
    """Return the verdict as it is written."""
    rung = Rung(bundle, asked["overflow"])
    rows = [
        {"name": name, "passed": bool(passed), "told": told}
        for name, passed, told in checks(rung, asked, below)
    ]
    steady = [rung.steps[number] for number in sorted(rung.steps) if number >= asked["skip"]]
    figures = [median([row[place] for row in steady]) if steady else None for place in range(3)]
    losses = {number: row[3] for number, row in sorted(rung.steps.items()) if math.isfinite(row[3])}
    return {
        "format": 1,
        "rung": asked["rung"],
        "passed": bool(rows) and all(row["passed"] for row in rows),
        "checks": rows,
        "steps": len(rung.steps),
        "step_time_s": figures[0],
        "tflops": figures[1],
        "tokens_per_s": figures[2],
        "losses": losses,
    }


def write(path: Path, found: Any) -> None:
    """Write a verdict whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def main(arguments: list[str]) -> int:
    """Judge a rung."""
    parser = argparse.ArgumentParser(description="Decide whether the rung of a climb passed.")
    parser.add_argument("asked", help="thresholds of the rung, JSON")
    parser.add_argument("verdict", help="where the verdict is written")
    parser.add_argument("below", nargs="*", help="verdicts of the rungs below, lowest first")
    options = parser.parse_args(arguments)
    asked = json.loads(Path(options.asked).read_text("utf-8"))
    below = [json.loads(Path(path).read_text("utf-8")) for path in options.below]
    found = verdict(Path(asked["bundle"]), asked, below)
    write(Path(options.verdict), found)
    for row in found["checks"]:
        word = "passed" if row["passed"] else "FAILED"
        sys.stdout.write(f"{word}  {row['name']}: {row['told']}\n")
    sys.stdout.write(f"{asked['rung']} GPUs {'passed' if found['passed'] else 'failed'}\n")
    return 0 if found["passed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
