"""Kills launches at every kind of step, and counts what became of them.

    MOECTL_RUNS=ROOT python -m tests.support.launch_faults --points 40 --seed 1 WORDS OF A LAUNCH

A step is an audit event of Python (opening, renaming, making a folder, starting a program, ...)
or an edge of an fsync. Every launch is a forked process, so that modules are loaded already and
all its steps are its own; each has a folder of records of its own, ROOT/<name>, so that all
take the same steps. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.support.launching import run_command


class Steps:
    """Counts the steps of this process from now on, and ends it at one of them.

    Args:
        last: the step at which the process is killed; 0 for none.
    """

    def __init__(self, last: int = 0) -> None:
        self.last = last
        self.names: list[str] = []
        sys.addaudithook(lambda event, _: self.step(event))
        synced = os.fsync

        def fsync(descriptor: int) -> None:
            self.step("before fsync")
            synced(descriptor)
            self.step("after fsync")

        os.fsync = fsync  # type: ignore[assignment]

    def step(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def child(work: Callable[[], int]) -> tuple[int, str]:
    """Do work in a forked process; return its exit code (minus the signal) and what it wrote."""
    return children([work])[0]


def children(works: Sequence[Callable[[], int]]) -> list[tuple[int, str]]:
    """Do works at the same moment, each in a forked process, see `child`."""
    started = []
    for work in works:
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            _be_a_child(work, writer)
        os.close(writer)
        started.append((process, reader))
    ended = []
    for process, reader in started:
        with os.fdopen(reader, errors="replace") as stream:
            said = stream.read()
        ended.append((os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), said))
    return ended


def _be_a_child(work: Callable[[], int], writer: int) -> NoReturn:
    code = 99
    try:
        os.dup2(writer, 2)
        os.close(writer)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        code = work()
        sys.stderr.flush()
    finally:
        os._exit(code)


def launch(words: list[str], name: str, last: int = 0) -> tuple[int, str]:
    """Launch under a name, killed at a step; without one, return the steps' names as well."""

    def work() -> int:
        os.environ["MOECTL_RUNS"] = str(Path(os.environ["MOECTL_RUNS"]) / name)
        steps = Steps(last)
        code = run_command([*words, "--name", name])
        if not last:
            counted = list(steps.names)
            sys.stderr.write("\n" + json.dumps(counted))
        return code

    return child(work)


def points(names: list[str], count: int, seed: int) -> list[int]:
    """Return steps to die at: anywhere, while the run is written, and around the submission."""
    draw = random.Random(seed)  # noqa: S311 - a test wants it repeatable
    last = len(names)
    writes = names.index("os.mkdir") + 1
    record = names.index("tempfile.mkstemp") + 1  # the intent's own file
    parts = [(1, count // 5), (writes, count // 3), (record, count)]
    drawn = [step for first, n in parts for step in draw.choices(range(first, last + 1), k=n)]
    return sorted([1, last, *drawn][:count])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options, words = parser.parse_known_args()
    run_command_quietly([*words, "--name", "warm", "--dry-run"])
    import moectl.actions.runs  # noqa: PLC0415 - loaded before the steps are counted
    import moectl.cli.launch  # noqa: PLC0415
    import moectl.launch.submit  # noqa: F401, PLC0415

    code, said = launch(words, "whole")
    names: list[str] = json.loads(said.splitlines()[-1])
    ends: list[dict[str, Any]] = []
    for number, last in enumerate(points(names, options.points, options.seed)):
        name = f"fault-{number}"
        ended, _ = launch(words, name, last)
        ends.append({"name": name, "step": last, "event": names[last - 1], "code": ended})
    sys.stdout.write(json.dumps({"whole": code, "steps": len(names), "ends": ends}) + "\n")


def run_command_quietly(words: list[str]) -> None:
    """Run a command in this process, so that what it loads stays loaded."""
    kept = os.dup(1), os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    run_command(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(kept[0], 1)
    os.dup2(kept[1], 2)


if __name__ == "__main__":
    main()
