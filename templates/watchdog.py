"""Ends a job that hangs, and says why. Standard library only, Python 3.8 or newer.

launch.sbatch starts it beside srun, outside of any container, where the logs of all ranks and
Slurm's programs are. It reads what the logs gain. When no rank writes a new step in time, or a
text that ends a process was written and nothing ended, it

    writes FOLDER/watchdog.json and FOLDER/first-failure,
    sends SIGABRT to the processes, whose Python then writes the stacks of all its threads
    (absl, which MaxText starts through, turns faulthandler on), and
    ends srun, after which launch.sbatch ends with the exit code in FOLDER/first-failure:
    124 when no step came in time, 125 after a known text.

Before the first step one limit holds; between steps the larger of a floor and a multiple of
the median step; after the last step a third one, for the last checkpoint; 0 is no limit. Lines
of evaluation count as steps. It never fails a run: whatever goes wrong in here ends the
watching only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NO_STEP, KNOWN_TEXT = 124, 125
# Rows of (id, pattern, cause, remedy, retry, ends, victim, task), filled in when rendered.
FATAL: Any = ()

STEP = re.compile(
    r"completed (?:profiler activation/deactivation )?step: (\d{1,12})\b(?:, seconds: (\d+\.\d+))?"
)
EVALUATION = re.compile(r"Completed eval (?:step: |after train step )\d")
STOPPED = re.compile(r"Training stopped: ")
STEPS = re.compile(r"\] Config param steps: (\d{1,12})\s*$")
ECHO = re.compile(r"\] Config param ")
# As a traceback ends; the process may go on, or wait for the others to end with it.
EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?:: .*)?$")
STACKS = "Fatal Python error: Aborted"
LONGEST = 8192
# Of one log and look; the rest of a log that grows faster is passed over.
MOST = 8 << 20
MEDIAN_OF = 21
# Two looks that lie farther apart, in s beyond what was meant, had a suspended job between them.
SUSPENDED = 60.0


class Rank:
    """What one process wrote so far."""

    def __init__(self, number: int, path: Path, now: float) -> None:
        self.number = number
        self.path = path
        self.offset = 0
        self.carry = b""
        self.step = -1
        self.grew = now
        self.begun = False
        self.last_line = ""

    def gained(self) -> list[str]:
        """Return the lines that came since the last look; none of a log that is not there."""
        try:
            with self.path.open("rb") as stream:
                size = stream.seek(0, 2)
                if size < self.offset:  # written anew
                    self.offset, self.carry = 0, b""
                if size - self.offset > MOST:
                    self.offset, self.carry = size - MOST, b""
                stream.seek(self.offset)
                data = stream.read(MOST)
        except OSError:
            return []
        if not data:
            return []
        self.offset += len(data)
        self.begun = True
        *lines, rest = (self.carry + data).split(b"\n")
        self.carry = rest[:LONGEST]
        return [line[:LONGEST].decode("utf-8", "replace") for line in lines]


class Watch:
    """All ranks of a job, and what they are given as time."""

    def __init__(self, folder: Path, options: Any, now: float) -> None:
        self.folder = folder
        self.options = options
        self.ranks = [
            Rank(number, folder / f"rank-{number}.log", now)
            for number in range(options.first, options.first + options.ranks)
        ]
        self.rows = [(row, re.compile(row[1])) for row in FATAL]
        self.any = re.compile("|".join(f"(?:{row[1]})" for row in FATAL) or r"(?!)")
        self.progress = now
        self.steps_seen = 0
        self.last_step = -1
        self.steps = options.steps
        self.seconds: Any = []
        self.stopped = False
        self.found: Any = []  # (moment, rank, row, line), in the order in which they were seen
        self.raised: Any = []  # (moment, rank, line) of exceptions
        self.failed_at: Any = None

    def look(self, now: float) -> None:
        """Read what the logs gained."""
        for rank in self.ranks:
            lines = rank.gained()
            if lines:
                rank.grew = now
                rank.last_line = next((line for line in reversed(lines) if line.strip()), "")
            for line in lines:
                self.take(rank, line, now)
        if self.failed_at is None and (self.folder / "first-failure").exists():
            self.failed_at = now

    def take(self, rank: Rank, line: str, now: float) -> None:
        """Take one line of one rank."""
        match = STEP.search(line)
        if match:
            before, rank.step = rank.step, int(match.group(1))
            if rank.step != before:
                self.progress = now
            if rank.step > self.last_step:
                self.last_step = rank.step
                self.steps_seen += 1
                if match.group(2):
                    self.seconds = [*self.seconds, float(match.group(2))][-MEDIAN_OF:]
        elif EVALUATION.search(line):
            self.progress = now
        elif STOPPED.search(line):
            self.stopped = True
        elif ECHO.search(line):
            match = STEPS.search(line)
            if match and not self.options.steps:
                self.steps = int(match.group(1))
        elif self.any.search(line):
            row = next(row for row, pattern in self.rows if pattern.search(line))
            self.found.append((now, rank, row, line))
            del self.found[1000:]
        elif EXCEPTION.match(line):
            self.raised.append((now, rank, line))
            del self.raised[1000:]

    def limit(self) -> Any:
        """Return (what is waited for, its limit in s)."""
        options = self.options
        if self.steps_seen < options.settle:
            return "the first step", options.start
        if self.stopped or (self.steps and self.last_step >= self.steps - 1):
            return "the end", options.end
        if not options.step:
            return "a step", 0
        middle = sorted(self.seconds)[len(self.seconds) // 2] if self.seconds else 0.0
        return "a step", max(options.step, options.factor * middle)

    def verdict(self, now: float) -> Any:
        """Return what is wrong, None while nothing is."""
        waited_for, limit = self.limit()
        limit = limit or float("inf")  # 0 is no limit
        waited = now - self.progress
        ending = [item for item in self.found if item[2][5] and item[0] >= self.progress]
        if ending and now - max(ending[0][0], self.progress) >= self.options.grace:
            return self.told(KNOWN_TEXT, "a known text, and the job went on", waited)
        if self.failed_at is not None and now - self.failed_at >= self.options.grace:
            return self.told(KNOWN_TEXT, "a process failed, and the others did not end", waited)
        if waited >= limit:
            return self.told(NO_STEP, f"{waited_for} did not come in {limit:.0f} s", waited, limit)
        return None

    def told(self, code: int, what: str, waited: float, limit: Any = None) -> Any:
        """Return the verdict as it is written."""
        since = [item for item in self.found if item[0] >= self.progress] or self.found
        explained = min(
            since,
            key=lambda item: (item[2][6], item[2][6] and self.named(item) is None, not item[2][5]),
            default=None,
        )
        row = explained[2] if explained else None
        raised = next((item for item in self.raised if item[0] >= self.progress), None)
        cause, text = "no rank says why", None
        if explained:
            rank, text = self.named(explained) or explained[1], explained[3]
        elif raised:
            cause, rank, text = "a process raised an exception and did not end", *raised[1:]
        else:
            rank = self.behind()
        return {
            "format": 1,
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "code": code,
            "verdict": what,
            "waited_seconds": round(waited),
            "limit_seconds": limit,
            "last_step": self.last_step if self.last_step >= 0 else None,
            "steps": self.steps or None,
            "rank": rank.number if rank else None,
            "node": self.node(rank.number) if rank else None,
            "known": row[0] if row else None,
            "cause": row[2] if row else cause,
            "remedy": row[3] if row else "compare the stacks at the ends of the ranks' logs",
            "retry": row[4] if row else True,
            "text": text[:1000] if text else None,
        }

    def named(self, item: Any) -> Any:
        """Return the rank that a text about another process names, None when it names none."""
        match = re.search(item[2][7], item[3]) if item[2][7] else None
        number = int(match.group(1)) if match else -1
        return next((rank for rank in self.ranks if rank.number == number), None)

    def behind(self) -> Any:
        """Return the rank that stays behind the others, None when none does."""
        quiet = [rank for rank in self.ranks if not rank.begun]
        if quiet and len(quiet) < len(self.ranks):
            return quiet[0]
        steps = sorted(rank.step for rank in self.ranks)
        if steps[0] < steps[-1]:
            return next(rank for rank in self.ranks if rank.step == steps[0])
        times = sorted(rank.grew for rank in self.ranks)
        first = min(self.ranks, key=lambda rank: rank.grew)
        return first if times[len(times) // 2] - first.grew >= self.options.apart else None

    def node(self, number: int) -> Any:
        """Return the node of a rank, by the file of launch.sbatch."""
        try:
            lines = (self.folder / "nodes").read_text("utf-8", "replace").splitlines()
            return lines[number // self.options.per_node].split()[0]
        except (OSError, IndexError):
            return None

    def table(self, now: float) -> Any:
        """Return how far every rank is."""
        return [
            {
                "rank": rank.number,
                "step": rank.step if rank.step >= 0 else None,
                "silent_seconds": round(now - rank.grew),
                "last_line": rank.last_line[:200],
            }
            for rank in self.ranks
        ]

    def stacks(self) -> Any:
        """Return the frames of the main thread, innermost first, of every rank that wrote them."""
        found = {}
        for rank in self.ranks:
            with contextlib.suppress(OSError), rank.path.open("rb") as stream:
                stream.seek(max(0, rank.offset - LONGEST))
                text = stream.read(MOST).decode("utf-8", "replace")
                _, aborted, rest = text.rpartition(STACKS)
                if aborted:
                    # The main thread comes last; an empty line ends it.
                    last = rest.rpartition("most recent call first):")[2].partition("\n\n")[0]
                    found[rank.number] = [line.strip()[:300] for line in last.splitlines() if line]
        return found


def alike(stacks: Any) -> Any:
    """Return frames to the ranks that stand there, on whichever lines of the same functions."""
    groups: Any = {}
    for rank, frames in stacks.items():
        place = tuple(re.sub(r", line \d+", "", frame) for frame in frames)
        groups.setdefault(place, (frames, []))[1].append(rank)
    return list(groups.values())


def odd_one(stacks: Any) -> Any:
    """Return (rank, its frames) when a few processes stand elsewhere than most, else None."""
    groups = [ranks for _, ranks in alike(stacks)]
    largest = max(groups, key=len, default=[])
    rest = sorted(rank for ranks in groups if ranks is not largest for rank in ranks)
    return (rest[0], stacks[rest[0]]) if rest and len(largest) > len(rest) else None


def write(folder: Path, record: Any) -> None:
    """Write watchdog.json whole or not at all."""
    part = folder / "watchdog.json.part"
    part.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    part.replace(folder / "watchdog.json")


def claim(folder: Path, record: Any, *, anew: bool = False) -> bool:
    """Leave the job's exit code and return whether that worked: a process may have before.

    Args:
        folder: where it goes.
        record: the verdict.
        anew: whether it replaces what this program left.
    """
    rank = "-" if record["rank"] is None else record["rank"]
    try:
        with (folder / "first-failure").open("w" if anew else "x", encoding="utf-8") as stream:
            stream.write(f"{record['code']} {rank} {record['node'] or '-'}\n")
    except OSError:
        return False
    return True


def children(parent: int, name: str) -> list[int]:
    """Return the processes of a name ("" is any) that a process started, this one left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = path.read_text("utf-8", "replace").rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        named = not name or head.partition("(")[2] == name
        if named and int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(path.parent.name))
    return [pid for pid in found if pid != os.getpid()]


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def end(watch: Watch, parent: int, record: Any) -> None:
    """Take the stacks and end srun; every step of it may fail."""
    with contextlib.suppress(OSError):
        write(watch.folder, record)
    ours = claim(watch.folder, record)
    stacks = abort(watch, parent)
    record["stacks"] = sorted(stacks)
    odd = odd_one(stacks)
    if odd is not None and record["rank"] is None:
        record["rank"], frames = odd
        record["node"] = watch.node(odd[0])
        record["cause"] = "its stack differs from those of most others"
        record["text"] = "; ".join(frames[:3])
        if ours:
            claim(watch.folder, record, anew=True)
    record["main_threads"] = [
        {"ranks": ranks, "frames": frames[:12]} for frames, ranks in alike(stacks)
    ]
    with contextlib.suppress(OSError):
        write(watch.folder, record)
    where = "" if record["rank"] is None else f", rank {record['rank']} on {record['node']}"
    told = f"{record['verdict']}; {record['cause']}{where}; {record['remedy']}"
    with contextlib.suppress(OSError):
        sys.stderr.write(f"moectl: the watchdog ends this job: {told}\n")
        sys.stderr.flush()
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in children(parent, watch.options.program):
            send(pid, number)
        deadline = time.monotonic() + watch.options.stacks
        while time.monotonic() < deadline and children(parent, watch.options.program):
            time.sleep(0.2)


def abort(watch: Watch, parent: int) -> Any:
    """Send every process of the job's steps SIGABRT and return the stacks they write."""
    if watch.options.program == "srun":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                ["scancel", "--signal=ABRT", os.environ.get("SLURM_JOB_ID", "")],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=watch.options.stacks,
                check=False,
            )
    else:  # launch.py of the local launcher starts the processes itself
        for pid in children(parent, watch.options.program):
            send(pid, signal.SIGABRT)
    deadline = time.monotonic() + watch.options.stacks
    before: Any = None
    found = watch.stacks()
    # A stack is whole when nothing was added to it since the last look.
    while found != before or len(found) < len(watch.ranks):
        if time.monotonic() >= deadline or not children(parent, watch.options.program):
            break
        time.sleep(0.5)
        before, found = found, watch.stacks()
    return found


def leave(*_: Any) -> None:
    """End at the end of the job."""
    raise SystemExit(0)


def main(arguments: list[str]) -> int:
    """Watch until the job ends or must be ended."""
    parser = argparse.ArgumentParser(description="End a job that hangs, and say why.")
    for name, kind, default in (
        ("ranks", int, None),
        ("first", int, 0),
        ("per-node", int, 1),
        ("steps", int, 0),
        ("settle", int, 1),
        ("start", float, None),
        ("step", float, None),
        ("factor", float, None),
        ("end", float, None),
        ("grace", float, None),
        ("every", float, None),
        ("stacks", float, None),
        ("apart", float, 60.0),
        ("parent", int, os.getppid()),
        ("program", str, "srun"),
    ):
        parser.add_argument("--" + name, type=kind, default=default, required=default is None)
    parser.add_argument("folder")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, leave)
    parent = options.parent
    watch = Watch(Path(options.folder), options, time.monotonic())
    # Time in which the whole job was suspended, this program included, does not count.
    now = seen = time.monotonic()
    while os.getppid() == parent:
        time.sleep(options.every)
        before, seen = seen, time.monotonic()
        now += min(seen - before, options.every + SUSPENDED)
        watch.look(now)
        record = watch.verdict(now)
        if record is not None and children(parent, watch.options.program):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # launch.sbatch waits for the rest
            record["ranks"] = watch.table(now)
            end(watch, parent, record)
            return int(record["code"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
