"""Asks real MaxText from a test: jobs in, verdicts out, two judges side by side."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

PROGRAM = Path(__file__).with_name("maxtext_judge.py")
# What would reach into MaxText, JAX or Python from the shell that started the tests.
OURS = ("M_", "JAX_", "XLA_", "SLURM_", "TF_", "PYTHON", "HF_")


class JudgeError(AssertionError):
    """The judge itself is broken, or a job is one that it cannot judge."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What real MaxText did with one job.

    Attributes:
        id: the id of the job.
        verdict: "accepted", "refused", "crashed" or "too-large".
        stage: how far it got: config, validate, mesh, state, done; or crash.
        seconds: how long it took.
        error_type: the type of the exception.
        error: its text.
        where: file:line of the innermost frames, outermost first.
        unknown_keys: every unknown key, when one was the error.
        warnings: lines of the log that say WARNING.
        log: the end of the log, of a crash.
        mesh: mesh axes above 1.
        derived: resolved keys.
        bytes: bytes a device: parameters, optimizer, other, total.
        parameters: number of parameters.
        indivisible: (path, dimension, size, shards) that the mesh does not divide.
        unsharded: the share that MaxText compares with sharding_tolerance; None if it did not.
        leaves: the parameter leaves, when asked for.
        flops: FLOPs a step and device as MaxText counts them, when asked for.
    """

    id: Any
    verdict: str
    stage: str
    seconds: float = 0.0
    error_type: str = ""
    error: str = ""
    where: list[str] = field(default_factory=list)
    unknown_keys: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    log: str = ""
    mesh: dict[str, int] = field(default_factory=dict)
    derived: dict[str, Any] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    parameters: int = 0
    indivisible: list[tuple[str, int, int, int]] = field(default_factory=list)
    unsharded: float | None = None
    leaves: list[dict[str, Any]] = field(default_factory=list)
    flops: float = 0.0

    @property
    def accepted(self) -> bool:
        """Whether MaxText would have gone on to train."""
        return self.verdict == "accepted"

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> Self:
        """Read one answer; what it does not say stays empty."""
        known = {item.name for item in fields(cls)}
        values = {name: value for name, value in answer.items() if name in known}
        rows = values.get("indivisible", [])
        return cls(**{**values, "indivisible": [(p, d, s, c) for p, d, s, c in rows]})


class Worker:
    """One judge process, which imports MaxText on the first question."""

    def __init__(self, python: Path) -> None:
        self.python = python
        self._process: subprocess.Popen[str] | None = None
        self.ready: dict[str, Any] = {}
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()

    @property
    def pid(self) -> int:
        """Return the process id of the judge, 0 before it was started."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start the process, if it was not, without waiting for it."""
        if self._process is None:
            kept = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
            self._process = subprocess.Popen(
                [str(self.python), str(PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                env=kept,
            )

    def ask(self, job: Mapping[str, Any]) -> Verdict:
        """Have one job judged.

        Raises:
            JudgeError: the process is gone, or the job cannot be judged.
        """
        self.start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            if not self.ready:
                self.ready = self._line()
            process.stdin.write(json.dumps(dict(job)) + "\n")
            process.stdin.flush()
        except BrokenPipeError as error:
            raise JudgeError(f"the judge is gone: {self._tail()}") from error
        answer = self._line()
        if answer["verdict"] == "unusable":
            raise JudgeError(f"job {job.get('id')!r}: {answer['error']}\n{answer.get('log', '')}")
        return Verdict.from_answer(answer)

    def close(self) -> None:
        """End the process by closing its input."""
        if self._process is not None:
            process, self._process = self._process, None
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()
            process.wait()
        self._said.close()

    def _line(self) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise JudgeError(f"the judge died: {self._tail()}")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def _tail(self) -> str:
        # Its output ends before it does; what it has to say of that comes last.
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        self._said.seek(0)
        return self._said.read().decode(errors="replace")[-2000:]


class Judge:
    """Several workers; call it with jobs to get their verdicts in the same order."""

    def __init__(self, python: Path, workers: int = 2) -> None:
        self.workers = [Worker(python) for _ in range(workers)]
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0

    def __call__(self, jobs: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """Judge jobs, see `maxtext_judge`; without an id a job gets its index.

        Raises:
            JudgeError: a judge died or a job cannot be judged.
        """
        started = time.monotonic()
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for index in range(len(jobs)):
            waiting.put(index)
        done: dict[int, Verdict] = {}
        faults: list[Exception] = []

        def serve(worker: Worker) -> None:
            while not faults:
                try:
                    index = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    done[index] = worker.ask({"id": index, **jobs[index]})
                except Exception as error:  # told below, in the test's thread
                    faults.append(error)

        # One question is not worth a second import.
        used = self.workers[: max(1, len(jobs))]
        threads = [threading.Thread(target=serve, args=(worker,)) for worker in used]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.seconds += time.monotonic() - started
        if faults:
            raise faults[0]
        verdicts = [done[index] for index in range(len(jobs))]
        self.counts.update(verdict.verdict for verdict in verdicts)
        return verdicts

    def one(self, **job: Any) -> Verdict:
        """Judge one job, given as keywords."""
        return self([job])[0]

    @property
    def summary(self) -> str:
        """Say what was judged, in one line."""
        counted = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        return f"real MaxText judged {self.counts.total()} jobs ({counted}) in {self.seconds:.1f} s"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self.workers:
            worker.close()
