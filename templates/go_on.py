"""Says whether a job of a long run has anything left to do. Standard library, Python 3.8 or newer.

launch.sbatch starts it on the first node, outside of any container:

    go_on.py begin --steps N [--judge] FOLDER                       before MaxText starts
    go_on.py end --steps N --code C --again M [--preempted] FOLDER  after it ended

FOLDER is logs/JOB, or logs/JOB.N after N requeues. The folders beside it hold the other starts;
those of the same run have the same job name in their start.json. `begin` with --judge ends with

    0 when there is something to do,
    10 when the last step was reached already,
    11 when the start before failed in a way in which this one would fail as well.

`end` writes FOLDER/end.json and ends with 75 when the job should go back into the queue: it was
preempted, or a fault that may pass ended it. Nothing that happens in here fails a job: whatever
goes wrong, the job starts, and it ends as it ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

GO_ON, DONE, STOP, QUEUE = 0, 10, 11, 75
# What preflight_judge.py ends with when the job must not start.
REFUSED = 79
# Rows of (id, pattern, cause, retry, ends, victim, again, unless), filled in when rendered.
FATAL: Any = ()

FOLDER = re.compile(r"(\d{1,18})(?:\.(\d{1,6}))?")
STEP = re.compile(r"completed (?:profiler activation/deactivation )?step: (\d{1,12})\b")
# MaxText's words when it ends before its last step, as on SIGTERM.
STOPPED = re.compile(r"Training stopped: ")
ECHO = re.compile(r"\] Config param ")
# Bytes from the end of a log: of the rank that counts, and of every other one.
OF_FIRST, OF_OTHERS = 1 << 20, 1 << 14
LONGEST = 8192


def last_lines(path: Path, amount: int, begin: int = 0) -> list[str]:
    """Return the lines in the last bytes of a file, from a place on; none where it has none."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, min(begin, size), size - amount))
            data = stream.read(amount)
    except OSError:
        return []
    return [line[:LONGEST].decode("utf-8", "replace") for line in data.split(b"\n")]


def held(path: Path) -> Any:
    """Return a file of JSON, an empty mapping where it holds none."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(path.read_text("utf-8", "replace"))
        if isinstance(found, dict):
            return found
    return {}


def write(path: Path, record: Any) -> None:
    """Write a file of JSON whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def cause(lines: Any) -> Any:
    """Return the row that says why a process ended, None when no line is known."""
    found = []
    for line in lines:
        if STEP.search(line):
            continue
        row = next((row for row in FATAL if re.search(row[1], line)), None)
        if row is not None and not ECHO.search(line):
            found.append(row)
    ids = {row[0] for row in found}
    found = [row for row in found if not ids.intersection(row[7])]
    return min(found, key=lambda row: (row[5], not row[4]), default=None)


class Start:
    """One start of a job: what it reached, and how it ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job, _, restart = path.name.partition(".")
        self.order = (int(self.job), int(restart or 0))
        self.begun = held(path / "start.json")
        self.end = held(path / "end.json")

    @property
    def idle(self) -> bool:
        """Whether it had nothing to do."""
        return self.end.get("idle") is True

    def reached(self) -> int:
        """Return the last step that it completed, -1 for none."""
        said = self.end.get("reached")
        if type(said) is int:
            return said
        for amount in (OF_OTHERS, 1 << 22):
            for line in reversed(last_lines(self.path / "rank-0.log", amount)):
                match = STEP.search(line)
                if match and not ECHO.search(line):
                    return int(match.group(1))
        return -1

    def code(self) -> Any:
        """Return its exit code, None when it was ended before its script could tell."""
        said = self.end.get("code")
        return said if type(said) is int else None

    def stopped(self) -> bool:
        """Whether MaxText ended in good order before its last step."""
        said = self.end.get("stopped")
        lines = last_lines(self.path / "rank-0.log", OF_OTHERS)
        return said if isinstance(said, bool) else any(map(STOPPED.search, lines))

    def why(self) -> Any:
        """Return (cause, whether it may pass, whether another start would fail as well)."""
        said = self.end.get("why")
        if isinstance(said, list) and len(said) == 3:
            return said
        if self.code() == REFUSED:
            return self.refused()
        watched = held(self.path / "watchdog.json")
        if watched:
            row = next((row for row in FATAL if row[0] == watched.get("known")), None)
            if row is not None:
                return self.of(row)
            return [str(watched.get("cause")), watched.get("retry") is True, False]
        return self.of(self.row())

    def refused(self) -> Any:
        """Return what a preflight that refused means: other nodes may do, another job may not."""
        faults = held(self.path / "preflight.json").get("faults")
        first = faults[0] if isinstance(faults, list) and faults else None
        if not isinstance(first, dict):
            return ["the preflight refused it", False, False]
        alone = bool(first.get("nodes"))
        return [f"the preflight found {first.get('what')}", alone, not alone]

    def of(self, row: Any) -> Any:
        """Return what a row of the table means for the starts after this one."""
        if row is None:
            return ["", False, False]
        # A text that ends no process may be harmless where the script never saw an end.
        sure = row[4] or self.code() not in (None, 0)
        return [row[2], bool(row[3]), not row[3] and not row[6] and sure]

    def row(self) -> Any:
        """Return the row of the table that the logs name, None for none."""
        words = last_words(self.path / "first-failure")
        first = None
        if len(words) > 1 and words[1].isdigit():
            first = self.path / f"rank-{int(words[1])}.log"
        own = cause(last_lines(first, OF_FIRST)) if first else None
        if own is not None and not own[5]:
            return own
        others = []
        for path in sorted(self.path.glob("rank-*.log")):
            found = cause(last_lines(path, OF_OTHERS)) if path != first else None
            if found is not None and not found[5]:
                return found
            others.append(found)
        if own is not None:
            return own
        printed = cause(self.printed())
        if printed is not None or first is not None:
            return printed  # that rank says nothing known, and those after it blame another
        return next((row for row in others if row is not None), None)

    def printed(self) -> list[str]:
        """Return the end of what the batch script printed in this start."""
        begin = self.begun.get("printed")
        for path in self.path.parent.parent.glob(f"*-{self.job}.log"):
            return last_lines(path, OF_OTHERS, begin if type(begin) is int else 0)
        return []


def last_words(path: Path) -> list[str]:
    """Return the words of a small file."""
    return " ".join(last_lines(path, 1000)).split()


def starts(folder: Path, name: str) -> Any:
    """Return the starts of a run before this one, in their order; those with nothing to do not."""
    this = Start(folder)
    found = [
        Start(path)
        for path in folder.parent.iterdir()
        if FOLDER.fullmatch(path.name) and path != folder
    ]
    mine = [each for each in found if each.begun.get("name") == name and each.order < this.order]
    return sorted((each for each in mine if not each.idle), key=lambda each: each.order)


def judged(before: Any, steps: int) -> Any:
    """Return (what to do, why) after the starts before."""
    if not before:
        return GO_ON, ""
    last = before[-1]
    reached = [each.reached() for each in before]
    code = last.code()
    if steps and max(reached) >= steps - 1 and code == 0:
        return DONE, f"job {last.job} reached step {max(reached)}, the last one"
    what, may_pass, sure = last.why()
    if code != 0 and sure:
        return STOP, f"job {last.job} failed in a way that stays: {what}"
    by_itself = code is not None and not may_pass and not last.stopped()
    if by_itself and reached[-1] <= max(reached[:-1], default=-1):
        return STOP, f"job {last.job} ended by itself (exit code {code}) without a new step"
    at = f"step {max(reached)}" if max(reached) >= 0 else "no step"
    return GO_ON, f"job {last.job} reached {at}{'; ' + what if what else ''}"


def begin(options: Any, folder: Path, name: str) -> int:
    """Note down that this start begins, and say whether there is something to do."""
    logs = folder.parent.parent.glob(f"*-{Start(folder).job}.log")
    printed = max((path.stat().st_size for path in logs), default=0)
    told = {"format": 1, "name": name, "printed": printed}
    write(folder / "start.json", told)
    what, why = judged(starts(folder, name), options.steps) if options.judge else (GO_ON, "")
    if what != GO_ON:
        ended = {"format": 1, "idle": True, "done": what == DONE, "cause": why}
        write(folder / "end.json", ended)
        sys.stdout.write(f"moectl: nothing is left to do here: {why}\n")
    elif why:
        sys.stdout.write(f"moectl: long run: goes on where {why}\n")
    return int(what)


def end(options: Any, folder: Path, name: str) -> int:
    """Note down how this start ended, and say whether the job goes back into the queue."""
    this = Start(folder)
    this.end = {"code": options.code}
    before = starts(folder, name)
    reached, stopped = this.reached(), this.stopped()
    why = this.why() if options.code else ["", False, False]
    finished = bool(options.steps) and reached >= options.steps - 1 and options.code == 0
    progress = reached > max((each.reached() for each in before), default=-1)
    again = ""
    if not options.again:  # the site wants none of it
        again = ""
    elif options.preempted and not finished and not why[2]:
        again = "preempted"
    elif options.code and why[1]:
        tried = [each for each in before if each.job == this.job]
        count = sum(each.end.get("again") == "failed" for each in tried)
        again = "failed" if progress or count < options.again else ""
    record = {
        "format": 1,
        "code": options.code,
        "reached": reached if reached >= 0 else None,
        "stopped": stopped,
        "done": finished,
        "why": why,
        "again": again,
    }
    write(folder / "end.json", record)
    if again:
        text = "it was preempted" if again == "preempted" else "what ended it may pass: " + why[0]
        sys.stdout.write(f"moectl: long run: back into the queue, for {text}\n")
    return QUEUE if again else GO_ON


def main(arguments: list[str]) -> int:
    """Do what launch.sbatch asks for."""
    parser = argparse.ArgumentParser(description="Say whether a long run has more to do.")
    parser.add_argument("what", choices=("begin", "end"))
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--code", type=int, default=0)
    parser.add_argument("--again", type=int, default=0)
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--preempted", action="store_true")
    parser.add_argument("folder")
    options = parser.parse_args(arguments)
    folder = Path(options.folder)
    work = begin if options.what == "begin" else end
    return work(options, folder, os.environ.get("SLURM_JOB_NAME", ""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
