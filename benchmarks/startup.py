"""Measures how soon moectl answers, beside Python itself, JAX, and real MaxText's own check.

    python3 benchmarks/startup.py [--python PY | --quick] [--runs N] [--json]

Everything is a whole process, from before its start to after its end, and all of it is measured
in one run, in turns, so that what slows the machine down slows all of them down. Ratios are what
counts; a figure in seconds is one of this machine at this hour. It is a benchmark: it ends with
exit code 0 whether or not a target is met, and no test waits for a clock.

By default moectl is measured as its users have it: a wheel of this tree, in an environment of
its own. MaxText runs in the managed environment of the tests, on as many virtual CPU devices
as the job has GPUs, through the program with which the tests have MaxText judge configurations.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

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

JUDGE = ROOT / "tests" / "judge" / "maxtext_judge.py"
ENVIRONMENT = "maxtext-0.2.5"
PRESET, GPUS = "deepseek3-671b", 128


def maxtext(job: Mapping[str, Any]) -> Subject:
    """Return the process that has real MaxText check a configuration.

    It imports MaxText's pre_train trainer, loads and validates the configuration with its
    arguments as `initialize` does, and makes the mesh: no model, no state.

    Args:
        job: the summary of a render, with the text of its config.yml under "text".
    """
    from moectl.environments import managed  # noqa: PLC0415

    python = managed(ENVIRONMENT, say=tell).python
    question = {
        "id": job["name"],
        "text": job["text"],
        "arguments": job["maxtext"]["arguments"],
        "devices": job["gpus"],
        "slices": job["slices"],
    }
    return Subject("MaxText's check", [str(python), str(JUDGE)], json.dumps(question) + "\n")


def checked(subject: Subject, folder: Path) -> None:
    """Make sure that MaxText accepts; a refusal would be measured as a quick check.

    Raises:
        BrokenRunError: it does not.
    """
    verdict = json.loads(run(subject, folder)[3].splitlines()[-1])
    if verdict["verdict"] != "accepted":
        raise BrokenRunError(f"MaxText: {verdict['verdict']}: {verdict.get('error', '')[:500]}")


def targets(subjects: Mapping[str, Subject]) -> list[Target]:
    """Compare the fastest runs with what is wanted."""
    least = {name: subject.least for name, subject in subjects.items()}
    render, version, told = subjects["render"], subjects["--version"], subjects["--help"]
    over = least["--version"] / least["python pass"]
    found = [
        Target("--version over `python -c pass`", "under 10 x", f"{over:.1f} x", over < 10),
        Target("--help", "under 0.33 s", f"{told.least:.3f} s", told.least < 0.33),
        Target(
            "peak memory of a render",
            "under 100 MB",
            f"{render.peak_mb:.0f} MB",
            render.peak_mb < 100,
        ),
    ]
    loads_jax = [s.name for s in (version, told, render) if "jax" in (s.heavy or ())]
    found.append(
        Target("JAX imported", "by none", ", ".join(loads_jax) or "by none", not loads_jax)
    )
    if "MaxText's check" in least:
        times = least["MaxText's check"] / least["render"]
        found.insert(
            0,
            Target("MaxText's check over a render", "40 x or more", f"{times:.0f} x", times >= 40),
        )
    return found


def benchmark(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure everything and return it."""
    began = machine()
    python = Path(options.python) if options.python else installed(folder)
    moectl = [str(python), "-m", "moectl"]
    script = python.parent / "moectl"
    if script.is_file():
        moectl = [str(script)]
    render = ["render", PRESET, "--gpus", str(GPUS), "--output", "bundle"]
    subjects = [
        Subject("python pass", [str(python), "-c", "pass"]),
        Subject("import jax", [str(python), "-c", "import jax"]),
        Subject("--version", [*moectl, "--version"]),
        Subject("--help", [*moectl, "--help"]),
        Subject("render", [*moectl, *render]),
    ]
    for subject, words in zip(subjects[2:], (["--version"], ["--help"], render), strict=True):
        subject.heavy = imported(python, words, folder)
    runs = [(subject, options.runs) for subject in subjects]
    if not options.quick:
        summary = json.loads(run(Subject("", [*moectl, *render, "--format", "json"]), folder)[3])
        config = Path(folder, "run", "bundle", "config.yml").read_text("utf-8")
        judge = maxtext({**summary, "text": config})
        checked(judge, folder)
        subjects.append(judge)
        runs.append((judge, options.maxtext_runs))
    measure(runs, folder, tell)
    found = targets({subject.name: subject for subject in subjects})
    return {
        "machine": {"before": began, "after": machine()},
        "subjects": [asdict(subject) | {"said": ""} for subject in subjects],
        "targets": [asdict(target) for target in found],
        "text": table(subjects, found),
    }


def main() -> None:
    """Measure, and print tables or JSON."""
    parser = argparse.ArgumentParser(description="Start-up of moectl, in ratios.")
    parser.add_argument("--python", help="a Python that has moectl; by default a wheel is built")
    parser.add_argument("--runs", type=int, default=15, help="counted runs of the quick commands")
    parser.add_argument("--maxtext-runs", type=int, default=3, help="counted runs of MaxText")
    parser.add_argument("--quick", action="store_true", help="leave MaxText out")
    parser.add_argument("--json", action="store_true", help="print every figure as JSON")
    options = parser.parse_args()
    options.runs, options.maxtext_runs = max(1, options.runs), max(1, options.maxtext_runs)
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory(prefix="startup-") as folder:
        try:
            found = benchmark(options, Path(folder))
        except Exception as error:  # a benchmark that cannot run says why and stops nothing
            print(f"no figures: {type(error).__name__}: {error}")
            return
    if options.json:
        print(json.dumps({key: value for key, value in found.items() if key != "text"}, indent=2))
    else:
        print(f"before: {found['machine']['before']}")
        print(f"after:  {found['machine']['after']}\n")
        print(found["text"])


if __name__ == "__main__":
    main()
