"""Times whole processes, for every benchmark here.

A command runs in an empty folder, from before its start to after its end, without what reaches
into Python, JAX or MaxText from the shell.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
# Among it is what forbids Python to keep its bytecode, without which every start compiles
# everything anew.
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
    wheels = [f"moectl[jax] @ file://{wheel}" for wheel in dist.glob("*.whl")]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *wheels], check=True)
    return python


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
    if not found:
        return "\n".join(lines)
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
