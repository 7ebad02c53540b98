"""Finds out what files hold, and reads them: logs, metrics files, event files, accounts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moectl.errors import LocalFilesError, MoectlError, UsageError
from moectl.logs import accounting, tensorboard
from moectl.logs.accounting import Allocation, read_accounts
from moectl.logs.folders import rank_of
from moectl.logs.maxtext import opened
from moectl.logs.metrics_file import MetricsFile
from moectl.logs.reading import Reading
from moectl.logs.tensorboard import EventFile
from moectl.logs.xplane import SUFFIX, profiles
from moectl.report.traced import Traced, traced

_EVENTS = "events.out.tfevents."
_METRICS = re.compile(rb'\s*\{[^\n]{0,100000}"(?:perf|learning|eval)/')
_HEAD = 1 << 16
# Files of a folder that may be one of a run's; others in it are not looked at.
_LIKELY = re.compile(r".*(?:\.log|\.out|\.err|\.jsonl?|\.txt)(?:\.gz)?|events\.out\.tfevents\..*")
_MOST_FILES = 20000


@dataclass(slots=True)
class Material:
    """All that there is of one run.

    Attributes:
        name: what the run is called.
        logs: its logs.
        metrics: its metrics files.
        events: its event files.
        accounts: its allocations.
        traces: its profiles.
        folder: logs of its last start, where they lie in a bundle.
        batch: what the batch script of that start printed.
        config: keys of MaxText that its bundle sets; the echo in a log says more.
        config_place: where they stand.
        hardware: its platform, "" where nothing says it.
        gpus: its GPUs, None where nothing says it.
        release: the MaxText release that wrote the logs; "" is the newest known.
        notes: what is to be said of the files.
    """

    name: str
    logs: list[Reading] = field(default_factory=list)
    metrics: list[MetricsFile] = field(default_factory=list)
    events: list[EventFile] = field(default_factory=list)
    accounts: list[Allocation] = field(default_factory=list)
    traces: list[Traced] = field(default_factory=list)
    folder: Path | None = None
    batch: Path | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    config_place: str = ""
    hardware: str = ""
    gpus: int | None = None
    release: str = ""
    notes: list[str] = field(default_factory=list)


def gather(name: str, paths: Sequence[Path], release: str = "") -> Material:
    """Read files and folders of one run.

    Args:
        name: what the run is called.
        paths: files of any of the kinds, and folders of them.
        release: the MaxText release.

    Raises:
        UsageError: a path is not there, or is nothing that can be read here.
        LocalFilesError: a file cannot be read.
    """
    found = Material(name, release=release)
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} is neither a run, nor a file, nor a folder")
        if not path.is_dir() and not path.is_file():
            raise UsageError(f"{path} is neither a file nor a folder")
        if path.is_dir():
            for file in sorted(_within(path), key=_order):
                add(found, file, named=False)
            add_profiles(found, path)
        else:
            add(found, path)
    return found


def add(material: Material, path: Path, *, named: bool = True) -> None:
    """Read a file of whatever kind it is, and add what it holds.

    Args:
        material: of the run.
        path: the file.
        named: whether somebody named it; else it counts only if it is a run's.

    Raises:
        MoectlError: it cannot be read.
    """
    if path.name.endswith(SUFFIX):
        material.traces.append(traced(path))
        return
    try:
        with opened(path) as stream:
            head = _first(stream.read, path, material)
        if path.name.startswith(_EVENTS) or tensorboard.looks_like(head):
            event = EventFile(path)
            event.update()
            material.events.append(event)
        elif _METRICS.match(head):
            metrics = MetricsFile(path)
            metrics.update()
            material.metrics.append(metrics)
        elif accounting.looks_like(head.decode("utf-8", "replace")):
            material.accounts.extend(read_accounts(path))
        else:
            log = Reading(path, rank_of(path), material.release)
            log.update()
            if named or log.count or log.starts or log.said or log.cut:
                material.logs.append(log)
    except OSError as error:
        raise LocalFilesError(f"{path}: {error.strerror or error}") from None


def add_profiles(material: Material, folder: Path) -> None:
    """Add the newest profiles below a folder; one that cannot be read is a note."""
    for path in profiles(folder):
        try:
            material.traces.append(traced(path))
        except MoectlError as error:
            material.notes.append(f"the profile is not told: {error}")


def _first(read: object, path: Path, material: Material) -> bytes:
    """Return the first bytes of a file; those of a damaged gzip file are none."""
    import gzip  # noqa: PLC0415
    import zlib  # noqa: PLC0415

    try:
        return read(_HEAD)  # type: ignore[operator,no-any-return]
    except (EOFError, gzip.BadGzipFile, zlib.error):
        material.notes.append(f"{path} is compressed and broken; what can be read of it counts")
        return b""


def _within(folder: Path) -> Iterator[Path]:
    for count, path in enumerate(_files(folder)):
        if count >= _MOST_FILES:
            return
        yield path


def _files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if _LIKELY.fullmatch(path.name) and path.is_file())


def _order(path: Path) -> tuple[list[tuple[int, str]], str]:
    """Order by name, numbers in it by their value: rank-2 before rank-10, job 9 before 10."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part) if part.isdecimal() else -1, part) for part in parts], str(path)
