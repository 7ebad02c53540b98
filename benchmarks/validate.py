"""Measures `moectl validate`: one cold file beside MaxText's own check, and many files at once.

    python3 benchmarks/validate.py [--python PY] [--runs N] [--files N] [--many N]

As in `startup.py`, everything is a whole process, measured in one run and in turns; the ratio
counts, and the exit code is 0 whether or not a target is met. What is checked cold is the same
configuration that MaxText checks, as its YAML stands in a bundle.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from processes import (
    ROOT,
    BrokenRunError,
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

RUN_FILE = """\
preset: {preset}
name: run-{number}
gpus: {gpus}
batch: {{per_device: {batch}}}
environment: {{NCCL_DEBUG: WARN, TAG: "{number}"}}
training: {{steps: {steps}}}
"""
# Three faults a file, each with words of its own.
FAULTY = """\
base_config: base.yml
hardware: gpu_multiprocess
steps_{number}: 1
scan_layers: 'no {number}'
ici_fsdp_parallelsim: {number}
"""
COUNTS = (64, 128, 256, 512)


def written(folder: Path, count: int) -> Path:
    """Write that many run files, no two alike, and return their folder."""
    place = folder / f"files-{count}"
    place.mkdir()
    for number in range(count):
        text = RUN_FILE.format(
            preset=PRESET,
            number=number,
            gpus=COUNTS[number % len(COUNTS)],
            batch=1 + number % 8,
            steps=10 + number,
        )
        (place / f"run-{number}.yaml").write_text(text, "utf-8")
    return place


def faulty(folder: Path, count: int) -> Path:
    """Write that many configs with faults, no two alike, and return their folder."""
    place = folder / f"faulty-{count}"
    place.mkdir()
    for number in range(count):
        (place / f"config-{number}.yml").write_text(FAULTY.format(number=number), "utf-8")
    return place


def benchmark(options: argparse.Namespace, folder: Path) -> str:
    """Measure everything and return the tables."""
    python = Path(options.python) if options.python else installed(folder)
    script = python.parent / "moectl"
    moectl = [str(script)] if script.is_file() else [str(python), "-m", "moectl"]
    render = ["render", PRESET, "--gpus", str(GPUS), "--output", "bundle"]
    summary = json.loads(run(Subject("", [*moectl, *render, "--format", "json"]), folder)[3])
    config = folder / "config.yml"
    config.write_text(Path(folder, "run", "bundle", "config.yml").read_text("utf-8"), "utf-8")
    judge = maxtext({**summary, "text": config.read_text("utf-8")})
    checked(judge, folder)
    one = ["validate", str(config), "--gpus", str(GPUS), "--gpus-per-node", "4"]
    cold = Subject("validate one config", [*moectl, *one])
    cold.heavy = imported(python, one, folder)
    run_file = written(folder, 1) / "run-0.yaml"
    subjects = [
        (Subject("python pass", [str(python), "-c", "pass"]), options.runs),
        (cold, options.runs),
        (Subject("validate one run file", [*moectl, "validate", str(run_file)]), options.runs),
        (judge, options.maxtext_runs),
    ]
    for count in (options.files, options.many):
        name = f"validate {count} run files"
        words = [*moectl, "validate", str(written(folder, count)), "--quiet"]
        subjects.append((Subject(name, words), 1))
    for count in (options.files, options.many):
        words = [*moectl, "validate", str(faulty(folder, count)), "--quiet"]
        subjects.append((Subject(f"validate {count} faulty configs", words, code=1), 1))
    measure(subjects, folder, tell)
    measured = {subject.name: subject for subject, _ in subjects}
    many = measured[f"validate {options.files} run files"]
    most = measured[f"validate {options.many} run files"]
    counts = (options.files, options.many)
    faults = [measured[f"validate {count} faulty configs"].peak_mb for count in counts]
    times = judge.least / cold.least
    per_file = (many.least - cold.least) / options.files / measured["python pass"].least
    found = [
        Target("MaxText's check over a cold validate", "60 x", f"{times:.0f} x", times >= 60),
        Target(
            f"{options.files} run files in one call",
            "under 10 s",
            f"{many.least:.1f} s ({per_file:.2f} x python pass a file)",
            many.least < 10,
        ),
        Target(
            f"peak memory, {options.many} files over {options.files}",
            "under 1.5 x",
            f"{most.peak_mb / many.peak_mb:.2f} x",
            most.peak_mb < 1.5 * many.peak_mb,
        ),
        Target(
            f"peak memory, {options.many} faulty configs over {options.files}",
            "under 1.2 x",
            f"{faults[1] / faults[0]:.2f} x",
            faults[1] < 1.2 * faults[0],
        ),
        Target("JAX imported", "no", "yes" if "jax" in cold.heavy else "no", not cold.heavy),
    ]
    return table([subject for subject, _ in subjects], found)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description="Speed of moectl validate, in ratios.")
    parser.add_argument("--python", help="a Python that has moectl; by default a wheel is built")
    parser.add_argument("--runs", type=int, default=15, help="counted runs of one file")
    parser.add_argument("--maxtext-runs", type=int, default=3, help="counted runs of MaxText")
    parser.add_argument("--files", type=int, default=1000, help="files of one call")
    parser.add_argument("--many", type=int, default=10000, help="files of the largest call")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    before = machine()
    with tempfile.TemporaryDirectory(prefix="validate-") as folder:
        try:
            text = benchmark(options, Path(folder))
        except (BrokenRunError, OSError, json.JSONDecodeError) as error:
            tell(f"no figures: {type(error).__name__}: {error}")
            return
    sys.stdout.write(f"before: {before}\nafter:  {machine()}\n\n{text}\n")


if __name__ == "__main__":
    main()
