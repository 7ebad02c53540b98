"""The copy of the tree that faults are put into, and which of its tests run which lines."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.faults import Fault, changed
from tests.mutation.plugin import TESTS, TIMES

# Tests of the source text itself see every change, whatever it means.
LEFT_OUT = ("tests/test_house.py", "tests/test_packaging.py", "tests/test_mutation.py")
# Tests enough for one fault, and how long they may hang beyond what they took without it.
SECONDS, PATIENCE = 40.0, 60.0
COVERAGE = """\
[run]
branch = true
source = moectl
patch = subprocess
parallel = true
data_file = {folder}/.coverage
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """A clone of the tree with an environment of its own.

    Attributes:
        tree: where the clone is.
        notes: where results, times and coverage lie.
    """

    tree: Path
    notes: Path

    @property
    def python(self) -> str:
        """Return its interpreter."""
        return str(self.tree / ".venv" / "bin" / "python")


def made(root: Path, work: Path, uv: str) -> Copy:
    """Clone the tree at its last commit, once, and install it with all that its tests need."""
    copy = Copy(work / "tree", work / "notes")
    if not copy.notes.is_dir():
        subprocess.run(["git", "clone", "--quiet", str(root), str(copy.tree)], check=True)
        subprocess.run(
            [uv, "venv", "--quiet", "--python", sys.executable, str(copy.tree / ".venv")],
            check=True,
        )
        subprocess.run(
            [uv, "pip", "install", "--quiet", "--python", copy.python, "-e", ".[test,mutation]"],
            check=True,
            cwd=copy.tree,
        )
        copy.notes.mkdir()
    return copy


def ran(
    copy: Copy, words: Sequence[str], settings: Mapping[str, str], seconds: float | None = None
) -> int | None:
    """Run the copy's tests; return pytest's exit code, or None when they took too long."""
    command = [copy.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "tests.mutation.plugin", *words]
    surroundings = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
        "PYTHONPATH": str(copy.tree),
        # Bytecode is told apart by its second and its size; a fault may change neither.
        "PYTHONDONTWRITEBYTECODE": "1",
        **settings,
    }
    with (copy.notes / "pytest.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=copy.tree,
            env=surroundings,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            # Whatever a test with a fault in it left running goes with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()


def learned(copy: Copy) -> None:
    """Run all quick tests once with coverage, and note which of them run which lines."""
    if (copy.notes / "times.json").is_file():
        return
    settings = copy.notes / "coverage.ini"
    settings.write_text(COVERAGE.format(folder=copy.notes), "utf-8")
    words = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    times = copy.notes / "times.new"
    ran(copy, [*words, "tests"], {TIMES: str(times)})
    times.rename(copy.notes / "times.json")


class Covering:
    """Which tests run a line, quickest first, those named after its module before all others."""

    def __init__(self, copy: Copy) -> None:
        from coverage import CoverageData  # noqa: PLC0415

        self._copy = copy
        self._times: dict[str, float] = {
            name: took
            for name, took in json.loads((copy.notes / "times.json").read_text("utf-8")).items()
            if not name.startswith(LEFT_OUT)
        }
        self._data = CoverageData(str(copy.notes / ".coverage"))
        self._data.read()

    def tests(self, fault: Fault) -> list[str]:
        """Return the ids of the tests to run for a fault, `SECONDS` long at most.

        A line that only child processes or the import of its module run has no tests of its
        own; then those that run anything of the module are taken.
        """
        lines = self._data.contexts_by_lineno(str(self._copy.tree / fault.module))
        named = self._named(fault.module)
        own = {context.rpartition("|")[0] for context in lines.get(fault.line, ())} - {""}
        everything = {c.rpartition("|")[0] for found in lines.values() for c in found}
        ordered: dict[str, None] = {}
        for group in (own & named, own, named, everything):
            ordered.update(dict.fromkeys(self._quickest(group)))
        spent = 0.0
        chosen: list[str] = []
        for name in ordered:
            spent += self._times[name]
            if spent > SECONDS and chosen:
                break
            chosen.append(name)
        return chosen

    def _named(self, module: str) -> set[str]:
        """Return the tests of files that are called after a module or, failing that, its room."""
        words = Path(module).with_suffix("").parts[1:]
        for length in range(len(words), 0, -1):
            for tail in _shorter("_".join(words[:length])):
                start = f"tests/test_{tail}"
                if found := {name for name in self._times if name.startswith(start)}:
                    return found
        return set()

    def _quickest(self, names: Iterable[str]) -> list[str]:
        known = [name for name in names if name in self._times]
        return sorted(known, key=lambda name: (self._times[name], name))

    def seconds(self, names: Iterable[str]) -> float:
        """Return how long tests took without a fault."""
        return sum(self._times[name] for name in names)


def _shorter(name: str) -> list[str]:
    """Return a name and what is left of it as its words are taken off, the room kept."""
    words = name.split("_")
    return ["_".join(words[:length]) for length in range(len(words), 1, -1)]


def judged(copy: Copy, covering: Covering, fault: Fault) -> tuple[str, float]:
    """Put a fault in, run the tests, take it out again.

    Returns:
        "caught", "slow" (the tests did not come to an end, which is caught too), "survived" or
        "not run" (no test runs the module), and the seconds it took.
    """
    names = covering.tests(fault)
    if not names:
        return "not run", 0.0
    chosen = copy.notes / "tests.json"
    chosen.write_text(json.dumps(names), "utf-8")
    file = copy.tree / fault.module
    text, stamp = file.read_text("utf-8"), file.stat()
    files = list(dict.fromkeys(name.partition("::")[0] for name in names))
    start = time.monotonic()
    try:
        file.write_text(changed(text, fault.operator, fault.occurrence), "utf-8")
        limit = 3 * covering.seconds(names) + PATIENCE
        code = ran(copy, ["-x", *files], {TESTS: str(chosen)}, limit)
    finally:
        file.write_text(text, "utf-8")
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    verdict = "slow" if code is None else "survived" if code == 0 else "caught"
    return verdict, time.monotonic() - start
