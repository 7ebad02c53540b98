"""Measures how soon other launchers answer, each in an environment of its own, beside moectl.

    python3 benchmarks/launchers.py [--runs N]

What is measured is `--help`, and for a library without a command its import. One that cannot be
installed or does not start gets a row that says why.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import (
    ROOT,
    BrokenRunError,
    Subject,
    installed,
    machine,
    measure,
    run,
    table,
    tell,
)

# Package, and what is run of it: a program of its environment, or Python.
OTHERS = (
    ("torchx", ("torchx", "--help")),
    ("nemo-run", ("nemorun", "--help")),
    ("xpk", ("xpk", "--help")),
    ("submitit", ("python", "-c", "import submitit")),
)


def environment(package: str, folder: Path) -> tuple[Path, str]:
    """Install a package into an environment of its own.

    Returns:
        The folder of its programs, and its version.

    Raises:
        BrokenRunError: it cannot be installed.
    """
    from moectl.interpreters import find_uv  # noqa: PLC0415 - of this tree

    uv, place = str(find_uv()), folder / package
    python = str(place / "bin" / "python")
    told = f"from importlib.metadata import version; print(version({package!r}))"
    answer = ""
    for words in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(place)],
        [uv, "pip", "install", "--quiet", "--python", python, package],
        [python, "-c", told],
    ):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokenRunError((done.stderr.strip() or "no message").splitlines()[-1][:200])
        answer = done.stdout.strip()
    return place / "bin", answer


def benchmark(runs: int, folder: Path) -> str:
    """Measure everything and return the table."""
    own = installed(folder)
    subjects = [
        Subject("python pass", [str(own), "-c", "pass"]),
        Subject("moectl --help", [str(own.parent / "moectl"), "--help"]),
    ]
    absent = []
    for package, (program, *words) in OTHERS:
        tell(f"installing: {package}")
        try:
            programs, version = environment(package, folder)
            shown = " ".join([program, *words])
            subject = Subject(f"{shown} ({package} {version})", [str(programs / program), *words])
            run(subject, folder)
        except (BrokenRunError, OSError) as error:
            absent.append(f"{package}: {str(error).splitlines()[-1]}")
        else:
            subjects.append(subject)
    measure([(subject, runs) for subject in subjects], folder, tell)
    notes = "".join(f"\n\nNot measured: {sentence}" for sentence in absent)
    return f"{table(subjects, ())}{notes}"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Start-up of other launchers beside moectl.")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    before = machine()
    with tempfile.TemporaryDirectory(prefix="launchers-") as folder:
        try:
            text = benchmark(max(1, options.runs), Path(folder))
        except (BrokenRunError, OSError, subprocess.CalledProcessError) as error:
            tell(f"no figures: {type(error).__name__}: {error}")
            return
    sys.stdout.write(f"before: {before}\nafter:  {machine()}\n\n{text}\n")


if __name__ == "__main__":
    main()
