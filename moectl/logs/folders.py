"""Where a run's logs lie: one folder a job and restart in its bundle, one file a rank."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOGS = "logs"
AS_RUN = "as-run.json"
END = "end.json"
FIRST_FAILURE = "first-failure"
WATCHDOG = "watchdog.json"
_FOLDER = re.compile(r"(?P<job>\d{1,18})(?:\.(?P<restart>\d{1,6}))?", re.ASCII)
_RANK = re.compile(r"rank-(\d{1,7})\.log(?:\.gz)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The logs of one start of a job.

    Attributes:
        job: its id.
        restart: how often it had been requeued, 0 at first.
        path: the folder.
    """

    job: str
    restart: int
    path: Path


@dataclass(frozen=True, slots=True)
class Failure:
    """What the first process that failed left.

    Attributes:
        code: the job's exit code.
        rank: the process, None where nobody is to blame.
        node: its node, "" where it is not known.
    """

    code: int
    rank: int | None
    node: str


def job_folders(bundle: Path, jobs: Collection[str] | None = None) -> list[JobFolder]:
    """Return the folders of logs in a bundle, in the order of their starts.

    Those of jobs that had nothing left to do are left out.

    Args:
        bundle: the bundle; one that cannot be read has none.
        jobs: the jobs that count, since a bundle may be launched more than once; None for all.
    """
    try:
        entries = list((bundle / LOGS).iterdir())
    except OSError:
        return []
    found = [
        JobFolder(match["job"], int(match["restart"] or 0), entry)
        for entry in entries
        if (match := _FOLDER.fullmatch(entry.name)) and (jobs is None or match["job"] in jobs)
    ]
    found = [folder for folder in found if end_of(folder.path).get("idle") is not True]
    return sorted(found, key=lambda folder: (int(folder.job), folder.restart))


def rank_of(path: Path) -> int | None:
    """Return whose log a file is by its name, None when the name does not say."""
    match = _RANK.fullmatch(path.name)
    return int(match[1]) if match else None


def rank_logs(folder: Path) -> dict[int, Path]:
    """Return the logs of a job's folder by rank; none of a folder that cannot be read."""
    try:
        entries = list(folder.iterdir())
    except OSError:
        return {}
    found = [(rank, path) for path in entries if (rank := rank_of(path)) is not None]
    return dict(sorted(found))


def rank_log(folder: Path, rank: int) -> Path:
    """Return where the log of a rank is, or would be."""
    plain = folder / f"rank-{rank}.log"
    packed = folder / f"rank-{rank}.log.gz"
    return packed if not plain.exists() and packed.exists() else plain


def batch_log(bundle: Path, job: str) -> Path | None:
    """Return what the batch script of a job printed, where it lies in the bundle; else None.

    There srun, the container's start and the watchdog say what no rank could write.
    """
    try:
        return next((path for path in sorted(bundle.glob(f"*-{job}.log")) if path.is_file()), None)
    except OSError:
        return None


def first_failure(folder: Path) -> Failure | None:
    """Return what the first process that failed left, None when none did."""
    words = beginning(folder / FIRST_FAILURE, 1000).split()
    if len(words) < 2 or not re.fullmatch(r"\d{1,3}", words[0], re.ASCII):
        return None
    rank = int(words[1]) if re.fullmatch(r"\d{1,7}", words[1], re.ASCII) else None
    node = words[2] if len(words) > 2 and words[2] not in {"-", "?"} else ""
    return Failure(int(words[0]), rank, node)


def end_of(folder: Path) -> dict[str, Any]:
    """Return what the script of a job that saves checkpoints left at its end; {} for nothing."""
    try:
        found = json.loads(beginning(folder / END, 1 << 16) or "null")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def beginning(path: Path, most: int) -> str:
    """Return the first bytes of a file as text; "" when it cannot be read."""
    try:
        if not path.is_file():  # a pipe would never end
            return ""
        with path.open("rb") as stream:
            return stream.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
