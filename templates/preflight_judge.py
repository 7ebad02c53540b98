"""Judges what preflight.py wrote in every process. Standard library only, Python 3.8 or newer.

    preflight_judge.py [--retry] FOLDER LOGS       in the batch script, when they have ended

Reads FOLDER/rank-N.json and writes LOGS/preflight.json: the processes that are missing, failed,
differ from the rendered job or from the others, or are slow by a factor of the median.
Exit code 0: nothing is wrong. 79: the job must not start; LOGS/first-failure says so as well.
75, with --retry: there are spare nodes, and LOGS/excluded now names the nodes to leave out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Any

AGAIN, REFUSED = 75, 79
# What the job is and what counts as slow; filled in when rendered.
PLAN: Any = {}

STAGES = ("environment", "gpu", "folders", "jax", "peers", "work", "axes", "done")
# What ends a process here may be the fault of another one.
TOGETHER = ("peers", "axes")
# What the processes of a job must have in common, by table of their records.
ALIKE = (
    (
        "gpu",
        (
            "name",
            "memory.total",
            "driver_version",
            "clocks.max.sm",
            "power.limit",
            "ecc.mode.current",
            "mig.mode.current",
            "links",
            "fabric",
            "imex",
            "imex_channels",
        ),
    ),
    ("versions", ("python", "jax", "platform", "device")),
    ("memory", ("MemTotal",)),
)
UNCORRECTED, USED = "ecc.errors.uncorrected.volatile.total", "memory.used"
LARGEST = 1 << 20


def read(folder: Path) -> Any:
    """Return rank to what it wrote, of records that can be what they should be."""
    found = {}
    for rank in range(PLAN["ranks"]):
        try:
            path = folder / f"rank-{rank}.json"
            if path.stat().st_size > LARGEST:
                continue
            record = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(record, dict) and record.get("rank") == rank and record.get("format") == 1:
            found[rank] = record
    return found


def part(record: Any, name: str) -> Any:
    """Return a part of a record that must be a table."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def seconds(value: Any) -> Any:
    """Return a time, or None for what cannot be one."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def count(value: Any) -> int:
    """Return a number that a tool wrote, 0 for what is none."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,12}", value) else 0


def timed(value: Any) -> Any:
    """Return the time of a measure, in whichever form it stands."""
    return seconds(value.get("seconds") if isinstance(value, dict) else value)


def stage(record: Any) -> str:
    """Return how far a process came."""
    said = record.get("stage")
    return said if said in STAGES else STAGES[0]


class Judge:
    """What is wrong with the processes of a job."""

    def __init__(self, folder: Path, logs: Path) -> None:
        self.folder, self.logs = folder, logs
        self.records = read(folder)
        self.faults: Any = []
        self.notes: Any = []
        try:
            text = (logs / "nodes").read_text("utf-8", "replace")
        except OSError:
            text = ""
        self.nodes = [line.split()[0] for line in text.splitlines() if line.split()]

    def node(self, rank: int) -> str:
        """Return the node of a process, by the plan, else by its own word."""
        index = rank // PLAN["per_node"]
        said = self.records.get(rank, {}).get("node")
        if index < len(self.nodes):
            return str(self.nodes[index])
        return said if isinstance(said, str) else ""

    def fault(self, kind: str, ranks: Any, what: str) -> None:
        """Note something that stops the job; nobody is to blame for what all have in common."""
        ranks = sorted(ranks)
        nodes = list(dict.fromkeys(self.node(rank) for rank in ranks))
        if len(ranks) == PLAN["ranks"]:
            nodes = []
        self.faults.append(
            {"kind": kind, "ranks": ranks, "nodes": [name for name in nodes if name], "what": what}
        )

    def named(self) -> Any:
        """Return the ranks that a fault names."""
        return {rank for fault in self.faults for rank in fault["ranks"]}

    def run(self) -> None:
        """Find everything; first what cannot be another one's fault."""
        alone = [name for name in STAGES[:-1] if name not in TOGETHER]
        cut = {key: ranks for key, ranks in self.ended(alone).items() if not key[1]}
        for key, ranks in self.ended(alone).items():
            if key not in cut:
                self.fault("failed", ranks, ending(*key))
        silent = self.missing()
        self.different()
        self.slow_alone()
        # When one has ended, the others are not waited for much longer.
        first = not self.faults
        if silent and first:
            self.fault("missing", silent, "never came")
        elif silent:
            self.note_ranks(silent, "had not come when the first process ended")
        for key, ranks in cut.items():
            if first:
                self.fault("failed", ranks, ending(*key))
            else:
                self.note_ranks(ranks, ending(*key))
        self.ended_together()
        self.slow_together()

    def note_ranks(self, ranks: Any, what: str) -> None:
        """Note something that follows from a fault."""
        self.notes.append(f"{spoken(ranks)} {what}")

    def ended(self, where: Any) -> Any:
        """Return (number of the stage, error) to the ranks that ended there, early stages first."""
        found: Any = {}
        for rank, record in self.records.items():
            if stage(record) in where:
                error = record.get("error")
                error = plain(error) if isinstance(error, str) else ""
                found.setdefault((STAGES.index(stage(record)), error), []).append(rank)
        return dict(sorted(found.items()))

    def ended_together(self) -> None:
        """Find processes that ended where each needs the others; without a cause, the last."""
        found = self.ended(TOGETHER)
        first = min((index for index, _ in found), default=0) if not self.faults else -1
        for (index, error), ranks in found.items():
            if index == first:
                self.fault("failed", ranks, ending(index, error))
            else:
                words = "could not go on with the others"
                self.note_ranks(ranks, f"{words}{': ' + error if error else ''}")

    def missing(self) -> Any:
        """Find processes that left no record; return those that left nothing at all."""
        absent: Any = {}
        for rank in range(PLAN["ranks"]):
            if rank not in self.records:
                there = (self.folder / f"rank-{rank}.json").exists()
                what = "left a record that cannot be read" if there else "never came"
                absent.setdefault((what, self.last_line(rank)), []).append(rank)
        silent = absent.pop(("never came", ""), [])
        for (what, line), ranks in absent.items():
            self.fault("missing", ranks, f"{what}{': ' + line if line else ''}")
        return silent

    def last_line(self, rank: int) -> str:
        """Return the last line of a process's output."""
        try:
            with (self.folder / f"rank-{rank}.log").open("rb") as stream:
                stream.seek(max(0, stream.seek(0, 2) - 4096))
                lines = stream.read().decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        return plain(next((line.strip() for line in reversed(lines) if line.strip()), ""))

    def different(self) -> None:
        """Find variables, GPUs and versions that are not as rendered or not as the others'."""
        expected = PLAN["environment"]
        names = {name for record in self.records.values() for name in part(record, "environment")}
        for name in sorted(names | set(expected)):
            if name in PLAN["by_rank"]:
                continue
            values = {
                rank: part(record, "environment").get(name)
                for rank, record in self.records.items()
                if "environment" in record
            }
            self.unlike(name, values, expected.get(name, ...), " as rendered")
        for rank, record in self.records.items():
            said = part(record, "environment").get("JAX_PARTITION_INDEX")
            meant = str(rank // PLAN["gpus_per_slice"])
            if "environment" in record and said != meant:
                self.fault("different", [rank], f"JAX_PARTITION_INDEX is {said}, not {meant}")
        for table, fields in ALIKE:
            for name in fields:
                values = {
                    rank: part(record, table)[name]
                    for rank, record in self.records.items()
                    if name in part(record, table)
                }
                self.unlike(f"{table} {name}", values, ..., "")
        self.broken()

    def unlike(self, name: str, values: Any, meant: Any, how: str) -> None:
        """Find values other than the one that is meant; `...` for that of most processes."""
        groups: Any = {}
        for rank, value in values.items():
            if not isinstance(value, (str, int, float, type(None))):
                value = values[rank] = "no plain value"  # noqa: PLW2901
            groups.setdefault(json.dumps(value), []).append(rank)
        if meant is ... and len(groups) > 1:
            largest = max(groups.values(), key=len)
            if sum(len(ranks) == len(largest) for ranks in groups.values()) > 1:
                shares = "; ".join(f"{plain(text)} on {spoken(r)}" for text, r in groups.items())
                return self.fault("different", list(values), f"{name} is not the same: {shares}")
            meant = values[largest[0]]
        for ranks in groups.values():
            value = values[ranks[0]]
            if meant is not ... and value != meant and not near(name, value, meant):
                self.fault("different", ranks, f"{name} {versus(value, meant)}{how}")
        return None

    def broken(self) -> None:
        """Find GPUs with errors of their memory, or with memory that somebody else holds."""
        used = {}
        for rank, record in self.records.items():
            table = part(record, "gpu")
            if count(table.get(UNCORRECTED)):
                what = f"its GPU counts {table[UNCORRECTED]} uncorrected errors of its memory"
                self.fault("failed", [rank], what)
            if table:
                used[rank] = count(table.get(USED))
        middle = statistics.median_low(used.values()) if used else 0
        for rank, value in used.items():
            if value - middle > PLAN["used_mib"]:
                what = f"{value} MiB of its GPU are in use, {middle} usually"
                self.fault("different", [rank], what)

    def rules(self) -> Any:
        """Return the limits of the platform that most processes have."""
        kinds = [str(part(record, "versions").get("platform")) for record in self.records.values()]
        kind = max(set(kinds), key=kinds.count) if kinds else ""
        return PLAN["platforms"].get(kind, PLAN["platforms"]["other"])

    def slow_alone(self) -> None:
        """Find processes whose own work takes long, by the median of all."""
        rules = self.rules()
        for table, kind in (("work", "alone"), ("host", "together")):
            for title in sorted({t for r in self.records.values() for t in part(r, table)}):
                times = {}
                for rank, record in self.records.items():
                    value = seconds(part(record, table).get(title))
                    if value is not None:
                        times[rank] = value
                for rank, value, middle in outliers(times, rules[kind], rules["least"]):
                    self.fault("slow", [rank], too_slow(title, value, middle, rules[kind]))
        for rank, record in self.records.items():
            times = [seconds(value) for value in part(record, "work").values()]
            beyond = STAGES.index(stage(record)) > STAGES.index("work")
            if beyond and (not times or None in times):
                self.fault("failed", [rank], "left a record without the times of its work")

    def slow_together(self) -> None:
        """Find nodes in whose groups collectives take long; the fewest that explain them all."""
        rules, known = self.rules(), self.named()
        slow: Any = []
        for title in sorted({t for record in self.records.values() for t in part(record, "axes")}):
            groups: Any = {}
            for rank, record in self.records.items():
                said = part(part(record, "axes"), title)
                if isinstance(said.get("first"), int) and seconds(said.get("seconds")) is not None:
                    groups.setdefault(said["first"], {})[rank] = seconds(said["seconds"])
            times = {
                first: statistics.median_low(group.values())
                for first, group in groups.items()
                if not known & set(group)
            }
            for first, value, middle in outliers(times, rules["together"], rules["least"]):
                what = too_slow(title, value, middle, rules["together"])
                slow.append((sorted(groups[first]), what))
        while slow:
            counts: Any = {}
            for group, _ in slow:
                for node in {rank // PLAN["per_node"] for rank in group}:
                    counts[node] = counts.get(node, 0) + 1
            most = max(counts.values())
            blamed = {node for node, count in counts.items() if count == most}
            group, what = next(
                row for row in slow if blamed & {rank // PLAN["per_node"] for rank in row[0]}
            )
            here = {rank // PLAN["per_node"] for rank in group} & blamed
            ranks = [rank for rank in group if rank // PLAN["per_node"] in here]
            self.fault("slow", ranks, what if len(here) == 1 else f"one of them: {what}")
            slow = [row for row in slow if not here & {rank // PLAN["per_node"] for rank in row[0]}]

    def verdict(self) -> Any:
        """Return the verdict as it is written."""
        times = {}
        for table in ("work", "host", "axes"):
            for title in sorted(
                {t for record in self.records.values() for t in part(record, table)}
            ):
                said = [timed(part(r, table).get(title)) for r in self.records.values()]
                held = [value for value in said if value is not None]
                if held:
                    times[plain(title)] = statistics.median_low(held)
        nodes = list(dict.fromkeys(name for fault in self.faults for name in fault["nodes"]))
        return {
            "format": 1,
            "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "passed": not self.faults,
            "ranks": PLAN["ranks"],
            "nodes": nodes,
            "faults": self.faults,
            "notes": self.notes,
            "median_seconds": times,
            "again": False,
            "excluded": [],
        }


def ending(index: int, error: str) -> str:
    """Return where a process ended, and why if it said so."""
    return f"ended in the stage {STAGES[index]}: {error or 'its time ran out'}"


def outliers(times: Any, factor: float, least: float) -> Any:
    """Return [(key, time, median)] of what is slower than the median by factor and by time."""
    if len(times) < 2:
        return []
    middle = statistics.median_low(times.values())
    return [
        (key, value, middle)
        for key, value in times.items()
        if value > factor * middle and value - middle > least
    ]


def too_slow(title: str, value: float, middle: float, factor: float) -> str:
    """Return a time against the median."""
    times = f"{value / middle:.1f} times" if middle else "far more than"
    return (
        f"{plain(title)} takes {value * 1e3:.4g} ms, {times} the median of {middle * 1e3:.4g} ms "
        f"(more than {factor:g} counts)"
    )


def near(name: str, value: Any, meant: Any) -> bool:
    """Return whether two sizes of a host's memory are as good as the same: within a hundredth."""
    sizes = [seconds(value), seconds(meant)]
    if not name.startswith("memory ") or None in sizes:
        return False
    return abs(sizes[0] - sizes[1]) <= 0.01 * max(sizes)


def versus(value: Any, meant: Any) -> str:
    """Return how a value differs; of flags only those that do."""
    if isinstance(value, str) and isinstance(meant, str) and "--" in value + meant:
        has, lacks = value.split(), meant.split()
        more = " ".join(word for word in has if word not in lacks)
        less = " ".join(word for word in lacks if word not in has)
        words = [f"has {plain(more)}" if more else "", f"lacks {plain(less)}" if less else ""]
        if any(words):
            return " and ".join(word for word in words if word) + ", not"
    shown = ["unset" if text is None else plain(str(text)) for text in (value, meant)]
    return f"is {shown[0]}, not {shown[1]}"


def plain(text: str) -> str:
    """Return a text as one printable line that is not too long."""
    line = "".join(char if char.isprintable() else " " for char in text[:600]).strip()
    return line if len(text) <= 600 else f"{line} ..."


def spoken(ranks: Any) -> str:
    """Return "rank 3" or "ranks 0-3, 7"."""
    runs: Any = []
    for rank in sorted(ranks):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs[:12])
    more = ", ..." if len(runs) > 12 else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {text}{more}"


def said_of(fault: Any) -> str:
    """Return a fault as one clause."""
    nodes = ", ".join(fault["nodes"][:12]) + (", ..." if len(fault["nodes"]) > 12 else "")
    return f"{spoken(fault['ranks'])}{' on ' + nodes if nodes else ''}: {fault['what']}"


def judge(folder: Path, logs: Path, *, retry: bool) -> int:
    """Write the verdict and say it; return the exit code."""
    judged = Judge(folder, logs)
    judged.run()
    record = judged.verdict()
    left = logs / "first-failure"
    for fault in record["faults"]:
        sys.stderr.write(f"moectl: preflight: {said_of(fault)}\n")
    for note in record["notes"]:
        sys.stderr.write(f"moectl: preflight: {note}\n")
    whole = all(fault["nodes"] for fault in record["faults"])
    again = retry and whole and 0 < len(record["nodes"]) <= PLAN["spare"]
    if again:
        with (logs / "excluded").open("a", encoding="utf-8") as stream:
            stream.write("".join(f"{name}\n" for name in record["nodes"]))
        with contextlib.suppress(OSError):
            left.unlink()
        sys.stderr.write(
            f"moectl: preflight: once more without {', '.join(record['nodes'])}, on spare nodes\n"
        )
    elif record["faults"]:
        first = record["faults"][0]
        rank = first["ranks"][0] if len(first["ranks"]) < PLAN["ranks"] else "-"
        left.write_text(f"{REFUSED} {rank} {(first['nodes'] or ['-'])[0]}\n", encoding="utf-8")
        sys.stderr.write("moectl: the preflight ends this job before it trains\n")
    else:
        times = ", ".join(f"{t} {s * 1e3:.3g} ms" for t, s in record["median_seconds"].items())
        sys.stdout.write(
            f"moectl: preflight: {PLAN['ranks']} processes are there and alike; {times}\n"
        )
    record["again"] = again
    with contextlib.suppress(OSError):
        record["excluded"] = (logs / "excluded").read_text("utf-8", "replace").split()
    path = logs / "preflight.json.part"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    path.replace(logs / "preflight.json")
    return AGAIN if again else REFUSED if record["faults"] else 0


def main(arguments: list[str]) -> int:
    """Judge all processes."""
    parser = argparse.ArgumentParser(description="Judge what the preflight found.")
    parser.add_argument("--retry", action="store_true")
    parser.add_argument("folder", type=Path)
    parser.add_argument("logs", type=Path)
    options = parser.parse_args(arguments)
    return judge(options.folder, options.logs, retry=options.retry)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
