"""Measures `moectl estimate`: a cold start beside Python's and MaxText's own check, and many.

    python3 benchmarks/estimate.py [--python PY | --quick] [--runs N]

As in `startup.py`, everything is a whole process, measured in one run and in turns; the ratio
counts, and the exit code is 0 whether or not a target is met. What a planner asks is measured in
one process: thousands of meshes of one prepared model, in processor time each.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from processes import (
    ROOT,
    Subject,
    Target,
    imported,
    installed,
    machine,
    measure,
    run,
    table,
    tell,
)
from startup import GPUS, PRESET, checked, maxtext

COLD_SECONDS = 0.5
CANDIDATE_MS = 0.2
# Runs inside the measured Python: memory and step time of many meshes of one prepared model.
MANY = """
import json, time
from dataclasses import replace
from moectl.actions.estimate import request_of
from moectl.actions.plan import Wishes, plan
from moectl.estimate.assessment import assess, prepare
found = {}
for name in ("deepseek3-671b", "gpt-oss-120b", "qwen3.5-397b-a17b"):
    job = plan(name, Wishes(options={"gpus": (1024, "--gpus")}))
    values = dict(job.effective)
    model, request = prepare(values, "0.2.5"), request_of(job)
    meshes = [
        replace(request, ici={"fsdp": fsdp, "expert": expert}, dcn={"data": 1024 // fsdp // expert})
        for fsdp in (1, 2, 4, 8, 16, 32, 64, 128)
        for expert in (1, 2, 4, 8)
    ]
    best = None
    for _ in range(10):
        start = time.process_time()
        for mesh in meshes * 10:
            assess(model, values, mesh)
        took = (time.process_time() - start) / len(meshes) / 10 * 1e3
        best = took if best is None else min(best, took)
    found[name] = round(best, 4)
print(json.dumps(found))
"""


def targets(subjects: dict[str, Subject], many: dict[str, float]) -> list[Target]:
    """Compare the fastest runs with what is wanted."""
    cold = subjects["estimate"]
    slowest = max(many.values())
    found = [
        # Of a machine that does other work too, the processor's time is what can be told.
        Target(
            "a cold estimate, processor time",
            "under 0.5 s",
            f"{min(cold.cpu):.3f} s",
            min(cold.cpu) < COLD_SECONDS,
        ),
        Target(
            "memory and step time of a candidate",
            "under 0.2 ms",
            f"{slowest:.3f} ms",
            slowest < CANDIDATE_MS,
        ),
        Target(
            "JAX imported", "no", "yes" if "jax" in (cold.heavy or ()) else "no",
            "jax" not in (cold.heavy or ()),
        ),
    ]  # fmt: skip
    if "MaxText's check" in subjects:
        times = subjects["MaxText's check"].least / cold.least
        found.insert(
            1,
            Target("MaxText's check over an estimate", "20 x or more", f"{times:.0f} x",
                   times >= 20),
        )  # fmt: skip
    return found


def benchmark(options: argparse.Namespace, folder: Path) -> str:
    """Measure everything, and return it as text."""
    began = machine()
    python = Path(options.python) if options.python else installed(folder)
    moectl = [str(python), "-m", "moectl"]
    words = ["estimate", PRESET, "--gpus", str(GPUS)]
    cold = Subject("estimate", [*moectl, *words])
    cold.heavy = imported(python, words, folder)
    subjects = [
        Subject("python pass", [str(python), "-c", "pass"]),
        cold,
        Subject("estimate --explain", [*moectl, *words, "--explain"]),
    ]
    runs = [(subject, options.runs) for subject in subjects]
    if not options.quick:
        render = ["render", PRESET, "--gpus", str(GPUS), "--output", "bundle", "--format", "json"]
        summary = json.loads(run(Subject("", [*moectl, *render]), folder)[3])
        config = Path(folder, "run", "bundle", "config.yml").read_text("utf-8")
        judge = maxtext({**summary, "text": config})
        checked(judge, folder)
        subjects.append(judge)
        runs.append((judge, options.maxtext_runs))
    measure(runs, folder, tell)
    many = json.loads(run(Subject("", [str(python), "-c", MANY]), folder)[3])
    each = ", ".join(f"{name} {took:.3f} ms" for name, took in many.items())
    found = targets({subject.name: subject for subject in subjects}, many)
    return (
        f"before: {began}\nafter:  {machine()}\n\n{table(subjects, found)}\n\n"
        f"A candidate (memory and step time, processor time): {each}."
    )


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description="moectl estimate, in ratios.")
    parser.add_argument("--python", help="a Python that has moectl; by default a wheel is built")
    parser.add_argument("--runs", type=int, default=10, help="counted runs of the quick commands")
    parser.add_argument("--maxtext-runs", type=int, default=2, help="counted runs of MaxText")
    parser.add_argument("--quick", action="store_true", help="leave MaxText out")
    options = parser.parse_args()
    options.runs, options.maxtext_runs = max(1, options.runs), max(1, options.maxtext_runs)
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory(prefix="estimate-") as folder:
        try:
            print(benchmark(options, Path(folder)))
        except Exception as error:  # a benchmark that cannot run says why and stops nothing
            print(f"no figures: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
