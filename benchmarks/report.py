"""Measures `moectl report` over a log of 1 GB, and how far a following read lags.

    python3 benchmarks/report.py [--python PY] [--lines N] [--folder DIR]

Three logs of as many lines: one in which every tenth line is a step of one of 8 ranks among
lines that say nothing, the same compressed, and one of nothing but step lines without prefixes,
as an old MaxText wrote them. Every report is a whole process; time is wall-clock with the share
of the processor that it got, and memory is the process's largest resident set.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from moectl.actions.report_follow import follow

ROOT = Path(__file__).parent.parent
LINES = 8_000_000
ABSL = "I1130 {hour:02d}:{minute:02d}:{second:02d}.461972 140264779340672 {place}] "
NOISE = "checkpoint and data messages that say nothing\n"
STEP = (
    "completed step: {step}, seconds: 5.{tail:03d}, TFLOP/s/device: 1068.003, "
    "Tokens/s/device: 4264.{tail:03d}, total_weights: 3145728, loss: 2.{tail:03d}, "
    "lm_loss: 2.{tail:03d}, perplexity: 9.{tail:03d}, moe_lb_loss: 0.000{tail:03d}\n"
)
OLD = (
    "completed step: {step}, seconds: 5.{tail:03d}, TFLOP/s/device: 1068.003, "
    "Tokens/s/device: 4264.{tail:03d}, total_weights: 3145728, loss: 2.{tail:03d}\n"
)
RANKS, EVERY = 8, 10
GAINS, PAUSE = 60, 0.1


def mixed(lines: int) -> Iterator[str]:
    """Yield lines of 8 ranks, of which every tenth is a step."""
    for number in range(lines // (RANKS * EVERY)):
        hour, rest = divmod(number * 5 % 86400, 3600)
        when = {"hour": hour, "minute": rest // 60, "second": rest % 60}
        noise = ABSL.format(place="checkpointing.py:211", **when) + NOISE
        step = ABSL.format(place="metric_logger.py:265", **when)
        step += STEP.format(step=number, tail=number * 7 % 1000)
        for rank in range(RANKS):
            yield f"{rank}: {noise}" * (EVERY - 1) + f"{rank}: {step}"


def bare(lines: int) -> Iterator[str]:
    """Yield step lines and nothing else."""
    for number in range(lines):
        yield OLD.format(step=number, tail=number * 7 % 1000)


def report(python: str, path: Path, folder: Path) -> tuple[float, float, float, dict[str, object]]:
    """Report on a log in a process of its own; return s, s of processor, MB, and its JSON."""
    out = folder / "out.json"
    words = [python, "-m", "moectl", "report", str(path), "--format", "json"]
    begun = time.perf_counter()
    with out.open("wb") as stream:
        process = subprocess.Popen(
            words, stdout=stream, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    spent = time.perf_counter() - begun
    if process.returncode:
        raise SystemExit(f"the report of {path} ended with {process.returncode}")
    busy = used.ru_utime + used.ru_stime
    return spent, busy, used.ru_maxrss / 1024, json.loads(out.read_text())


def lag(folder: Path) -> float:
    """Return the longest time from a line's writing until a following report has its step, s."""
    path = folder / "growing.log"
    path.write_text("".join(OLD.format(step=step, tail=step % 1000) for step in range(20_000)))
    written: dict[int, float] = {}
    done = threading.Event()

    def write() -> None:
        for step in range(20_000, 20_000 + GAINS):
            with path.open("a") as stream:
                stream.write(OLD.format(step=step, tail=step % 1000))
            written[step] = time.monotonic()
            time.sleep(PAUSE)
        done.set()

    longest, seen = 0.0, 19_999
    writer = threading.Thread(target=write)
    for found in follow([str(path)]):
        now = time.monotonic()
        last = int(found.value("last_step") or 0)
        waited = [now - written[step] for step in range(seen + 1, last + 1)]
        longest, seen = max([longest, *waited]), last
        if not writer.is_alive() and not done.is_set():
            writer.start()
        if done.is_set() and seen == 20_000 + GAINS - 1:
            break
    writer.join()
    return longest


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="a Python that has moectl")
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--folder", help="where the logs are made, about 1.2 GB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="report-", dir=options.folder) as name:
        folder = Path(name)
        print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}\n")
        print("| log | size | lines | wall | processor | memory | steps |")
        print("|---|---|---|---|---|---|---|")
        for kind, made in (("8 ranks, every 10th line a step", mixed), ("step lines only", bare)):
            path = folder / "run.log"
            with path.open("w") as stream:
                stream.writelines(made(options.lines))
            tell(kind, path, options, folder)
            if made is mixed:
                packed = folder / "run.log.gz"
                with path.open("rb") as plain, gzip.open(packed, "wb", compresslevel=1) as stream:
                    shutil.copyfileobj(plain, stream)
                path.unlink()
                tell(f"{kind}, gzip", packed, options, folder)
                packed.unlink()
        print(f"\nA following report lags {lag(folder):.2f} s at most over {GAINS} lines.")


def tell(kind: str, path: Path, options: argparse.Namespace, folder: Path) -> None:
    """Report on a log and print its row."""
    size = path.stat().st_size / 1e9
    wall, busy, memory, found = report(options.python, path, folder)
    print(
        f"| {kind} | {size:.2f} GB | {options.lines:,} | {wall:.1f} s | {busy:.1f} s | "
        f"{memory:.0f} MB | {found['steps']:,} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
