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
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
JUDGE = ROOT / "tests" / "judge" / "maxtext_judge.py"
ENVIRONMENT = "maxtext-0.2.5"
PRESET, GPUS = "deepseek3-671b", 128
# What reaches into Python, JAX or MaxText from the shell. Among it is what forbids Python to
# keep its bytecode, without which every start compiles everything anew.
LEFT_OUT = ("PYTHON", "JAX_", "XLA_", "M_", "TF_", "HF_", "SLURM_")
HEAVY = ("jax", "jaxlib", "numpy", "pydantic", "typer", "rich")


@dataclass(slots=True)
class Subject:
    """One command that is measured.

    Attributes:
        name: how the table calls it.
        words: the command line.
        said: what it reads on standard input.
        seconds: wall time of every counted run.
        cpu: processor time of every counted run, user and system, children included.
        peak_mb: largest resident set of any counted run and of its children, in MB of 10^6 bytes;
            Linux never tells less than this program itself had, some 20 MB.
        heavy: which of `HEAVY` it imports.
        code: the exit code it ends with.
    """

    name: str
    words: list[str]
    said: str = ""
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    heavy: list[str] | None = None
    code: int = 0

    @property
    def least(self) -> float:
        """Return the wall time of the fastest run, in seconds."""
        return min(self.seconds)


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that is wanted, and the one that was measured."""

    what: str
    wanted: str
    measured: str
    met: bool


class BrokenRunError(Exception):
    """A measured command did not do what it is measured for."""


def run(subject: Subject, folder: Path) -> tuple[float, float, float, str]:
    """Run a command once in an empty folder.

    Returns:
        Wall seconds, processor seconds, peak resident MB, and standard output.

    Raises:
        BrokenRunError: it failed, with the end of what it said.
    """
    place = folder / "run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    with (folder / "in").open("w+b") as fed, (folder / "out").open("w+b") as out:
        fed.write(subject.said.encode())
        fed.seek(0)
        with (folder / "errors").open("w+b") as errors:
            start = time.perf_counter()
            process = subprocess.Popen(
                subject.words, stdin=fed, stdout=out, stderr=errors, cwd=place, env=surroundings()
            )
            # wait4 tells what this child used; getrusage would give the most of all children.
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            errors.seek(0)
            tail = errors.read().decode(errors="replace")[-1500:]
        out.seek(0)
        answer = out.read().decode(errors="replace")
    if process.returncode != subject.code:
        raise BrokenRunError(f"{' '.join(subject.words)}: exit {process.returncode}\n{tail}")
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 1e6, answer


def surroundings() -> dict[str, str]:
    """Return the environment of the measured processes."""
    return {key: value for key, value in os.environ.items() if not key.startswith(LEFT_OUT)}


def measure(
    subjects: Sequence[tuple[Subject, int]], folder: Path, say: Callable[[str], None]
) -> None:
    """Run every subject as often as wanted, in turns, after one run that does not count.

    The first run writes bytecode and brings the files into the page cache.
    """
    for subject, _ in subjects:
        say(f"warming: {subject.name}")
        run(subject, folder)
    for turn in range(max(runs for _, runs in subjects)):
        say(f"turn {turn + 1}")
        for subject, runs in subjects:
            if turn < runs:
                seconds, cpu, peak, _ = run(subject, folder)
                subject.seconds.append(seconds)
                subject.cpu.append(cpu)
                subject.peak_mb = max(subject.peak_mb, peak)


def imported(python: Path, words: Sequence[str], folder: Path) -> list[str]:
    """Return which of `HEAVY` a moectl command imports, as Python's import log tells."""
    place = folder / "imports"
    place.mkdir(exist_ok=True)
    log = subprocess.run(
        [str(python), "-X", "importtime", "-m", "moectl", *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=place,
        env=surroundings(),
    ).stderr
    shutil.rmtree(place)
    packages = {line.rpartition("|")[2].strip().partition(".")[0] for line in log.splitlines()}
    return [name for name in HEAVY if name in packages]


def installed(folder: Path) -> Path:
    """Build a wheel of this tree, install it into an environment, and return its Python."""
    from moectl.interpreters import find_uv  # noqa: PLC0415 - only the default needs it

    uv, dist, place = str(find_uv()), folder / "dist", folder / "environment"
    for words in (
        [uv, "build", "--quiet", "--wheel", "--out-dir", str(dist), str(ROOT)],
        [uv, "venv", "--quiet", "--python", sys.executable, str(place)],
    ):
        subprocess.run(words, check=True)
    python = place / "bin" / "python"
    wheels = [str(wheel) for wheel in dist.glob("*.whl")]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *wheels], check=True)
    return python


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


def table(subjects: Sequence[Subject], found: Sequence[Target]) -> str:
    """Return both tables as text, ready for Markdown."""
    base = subjects[0].least
    lines = [
        "| whole process | runs | fastest (s) | median (s) | CPU (s) | x python pass | peak MB |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {s.name} | {len(s.seconds)} | {s.least:.3f} | {median(s.seconds):.3f} | "
        f"{min(s.cpu):.3f} | {s.least / base:.1f} | {s.peak_mb:.0f} |"
        for s in subjects
    ]
    lines += ["", "| target | wanted | measured | met |", "|---|---|---|---|"]
    lines += [
        f"| {t.what} | {t.wanted} | {t.measured} | {'yes' if t.met else 'no'} |" for t in found
    ]
    return "\n".join(lines)


def machine() -> str:
    """Say on what machine this ran, in one line."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, load average {load}"
    )


def tell(sentence: str) -> None:
    """Say on standard error what takes the time."""
    print(sentence, file=sys.stderr, flush=True)


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
