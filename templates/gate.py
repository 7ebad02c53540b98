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

RANK = re.compile(r"rank-(\d{1,7})\.log")
FOLDER = re.compile(r"(\d{1,18})(?:\.(\d{1,6}))?")
ECHO = re.compile(r"\] Config param ")
LONGEST = 8192


def median(values: Any) -> float:
    """Return the median of at least one value."""
    held = sorted(values)
    middle = len(held) // 2
    return float(held[middle] if len(held) % 2 else (held[middle - 1] + held[middle]) / 2)


class Lines:
    """How MaxText writes the lines of steps: words of the release, from the thresholds."""

    def __init__(self, words: Any) -> None:
        kinds = "|".join(re.escape(words[kind]) for kind in ("step", "boundary"))
        self.number = re.compile(rf"(?:{kinds}): (\d{{1,12}})\b")
        self.fields = {
            name: re.compile(rf"(?:^|[ ,]){re.escape(field)}: ([^ ,]+)")
            for name, field in words["fields"].items()
        }

    def step(self, line: str) -> Any:
        """Return the number of a step and what its line says; None for another line."""
        match = self.number.search(line)
        if not match or ECHO.search(line):
            return None
        rest = line[match.end() :]
        said = {name: field.search(rest) for name, field in self.fields.items()}
        return int(match.group(1)), {name: number(m.group(1)) for name, m in said.items() if m}


def number(text: str) -> float:
    """Return a number of a log; nan for what is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


class Rung:
    """What the logs of a rung say.

    The steps are those of the lowest rank. A step around a profile, or while the batch still
    grows, may lack its time and rates; it was reached all the same.
    """

    def __init__(self, bundle: Path, asked: Any) -> None:
        self.lines = Lines(asked["lines"])
        self.steps: Any = {}  # step to what its line says
        self.seconds: Any = {}  # rank to step to seconds
        self.overflow = ""
        self.first_failure = ""
        lost = re.compile(asked["overflow"])
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
                found = self.lines.step(line)
                if found:
                    step, said = found
                    held = self.seconds.setdefault(rank, {})
                    if "seconds" in said:
                        held[step] = said["seconds"]
                    if rank == min(self.seconds):
                        self.steps[step] = said
                elif not self.overflow and lost.search(line) and not ECHO.search(line):
                    self.overflow = line.strip()[:300]

    def steady(self, skip: int) -> Any:
        """Return the steps whose time counts."""
        return [
            step for step in sorted(self.steps) if step >= skip and "seconds" in self.steps[step]
        ]

    def middle(self, skip: int, name: str) -> Any:
        """Return the median of what the steady steps say of something; None where none does."""
        said = [self.steps[step].get(name, math.nan) for step in self.steady(skip)]
        said = [value for value in said if math.isfinite(value)]
        return median(said) if said else None


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
    losses = {step: said["loss"] for step, said in rung.steps.items() if "loss" in said}
    odd = [step for step, loss in losses.items() if not math.isfinite(loss)]
    yield "loss is finite", not odd, f"not at step {odd[0]}" if odd else f"{len(losses)} steps"
    steady = rung.steady(asked["skip"])
    if not steady:
        yield "steady steps", False, f"none after the first {asked['skip']}"
        return
    tflops = rung.middle(asked["skip"], "tflops")
    tokens = rung.middle(asked["skip"], "tokens_per_s")
    if asked["tflops"]:
        told = "not logged" if tflops is None else f"{tflops:.3f}, {asked['tflops']} asked"
        yield "TFLOP/s a GPU", (tflops or 0.0) >= asked["tflops"], told
    if below:
        first = below[0]["tokens_per_s"]
        share = tokens / first if tokens and first else 0.0
        told = f"{share:.1%} of {below[0]['rung']} GPUs, {asked['efficiency']:.0%} asked"
        yield "scaling efficiency", share >= asked["efficiency"], told
        finite = {step: loss for step, loss in losses.items() if math.isfinite(loss)}
        yield parity(finite, asked["loss"], below[-1])
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
    rung = Rung(bundle, asked)
    rows = [
        {"name": name, "passed": bool(passed), "told": told}
        for name, passed, told in checks(rung, asked, below)
    ]
    skip = asked["skip"]
    losses = {
        step: said["loss"]
        for step, said in sorted(rung.steps.items())
        if math.isfinite(said.get("loss", math.nan))
    }
    return {
        "format": 1,
        "rung": asked["rung"],
        "passed": bool(rows) and all(row["passed"] for row in rows),
        "checks": rows,
        "steps": len(rung.steps),
        "step_time_s": rung.middle(skip, "seconds"),
        "tflops": rung.middle(skip, "tflops"),
        "tokens_per_s": rung.middle(skip, "tokens_per_s"),
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
