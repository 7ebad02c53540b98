"""Jobs of the local launcher: one file each, written by the program that runs it.

    $MOECTL_RUNS/<run>/jobs/<job>.json

Its writer is known by process id, start time and boot of the machine, so that a process id
that was given out again is never taken for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl.launch.backend import JobState, Phase

JOBS = "jobs"
JOB = re.compile(r"\d{11,18}", re.ASCII)
LARGEST = 1 << 16
_CANCEL = ".cancel"
_PHASES: dict[str, Phase] = {
    "pending": "pending", "running": "running", "completed": "completed", "failed": "failed",
    "cancelled": "cancelled",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LocalJob:
    """A job as its file says it.

    Attributes:
        path: the file.
        job: its id.
        name: the run's name.
        phase: what the program wrote last.
        pid, start_ticks, boot: who the program is; ticks of the clock since that boot.
        host: the machine.
        start, end: UTC, empty before.
        exit_code: None before its end.
        reason: why it could not start, or empty.
    """

    path: Path
    job: str
    name: str
    phase: str
    pid: int
    start_ticks: int
    boot: str
    host: str
    start: str = ""
    end: str = ""
    exit_code: int | None = None
    reason: str = ""

    @property
    def alive(self) -> bool:
        """Whether the program that runs it is still there."""
        here = self.boot == boot()
        return self.exit_code is None and here and started(self.pid) == self.start_ticks

    @property
    def elsewhere(self) -> bool:
        """Whether it runs on another machine, of which nothing can be told from here."""
        return self.exit_code is None and self.host != os.uname().nodename

    def state(self) -> JobState:
        """Return what it does."""
        phase: Phase = _PHASES.get(self.phase, "unknown")
        reason = self.reason
        if self.exit_code is None and self.elsewhere:
            phase, reason = "unknown", f"it was started on {self.host}; ask there"
        elif self.exit_code is None and not self.alive:
            asked = self.path.with_suffix(_CANCEL).exists()
            phase = "cancelled" if asked else "failed"
            reason = "the program that ran it was killed, or the machine was started anew"
        elif self.exit_code is None and self.path.with_suffix(_CANCEL).exists():
            phase = "completing"
        return JobState(
            self.job,
            phase,
            raw=self.phase,
            reason=reason,
            nodes=self.host,
            start=self.start,
            end=self.end,
            exit_code=self.exit_code,
            name=self.name,
        )

    def cancel(self) -> None:
        """Ask the program to end, and leave a mark that it was asked.

        The process is held by a descriptor of its own while it is compared and signalled, so
        that nobody else can have its id by then.
        """
        with contextlib.suppress(OSError):
            self.path.with_suffix(_CANCEL).touch()
        try:
            held = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            if self.alive:
                signal.pidfd_send_signal(held, signal.SIGTERM)
                signal.pidfd_send_signal(held, signal.SIGCONT)
        except ProcessLookupError:
            return
        finally:
            os.close(held)


def boot() -> str:
    """Return the identity of this boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def started(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 when it is not there."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if len(fields) < 20 or fields[0] in {"Z", "X"} else int(fields[19])


def of_run(folder: Path) -> Iterator[LocalJob]:
    """Yield the jobs of a run, oldest first; files that are none are passed over."""
    try:
        names = sorted(entry.name for entry in (folder / JOBS).iterdir())
    except OSError:
        return
    found = [_read(folder / JOBS / name) for name in names if name.endswith(".json")]
    yield from sorted((job for job in found if job is not None), key=lambda job: int(job.job))


def _read(path: Path) -> LocalJob | None:
    try:
        with path.open("rb") as stream:
            data = json.loads(stream.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not JOB.fullmatch(path.stem) or data.get("job") != path.stem:
        return None

    def text(name: str) -> str:
        return data[name] if isinstance(data.get(name), str) else ""

    def count(name: str) -> Any:
        return data[name] if type(data.get(name)) is int else None

    return LocalJob(
        path,
        path.stem,
        text("name"),
        text("phase"),
        count("pid") or 0,
        count("start_ticks") or -1,
        text("boot") or "-",
        text("host"),
        text("start"),
        text("end"),
        count("exit_code"),
        text("reason"),
    )
