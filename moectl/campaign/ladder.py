"""The record of a climb: its rungs, and where each stands.

A climb is one folder: climb.json, a bundle a rung and attempt, a gate a rung and attempt with
its verdict, and the records of the gates' jobs. climb.json is written whole before anything is
submitted and names every run, so that a climb goes on after a crash at any point.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from moectl.errors import LocalFilesError, UnknownNameError, UsageError, shown
from moectl.launch.whole_file import write

FORMAT = 1
FILE = "climb.json"
CLIMBS = ".climbs"  # hidden, so that it is not taken for a run
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung.

    Attributes:
        gpus: GPUs of its run.
        run: id of its run.
        gate: id of the run of its gate.
        attempt: which try it is, from 1.
    """

    gpus: int
    run: str
    gate: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Climb:
    """A climb.

    Attributes:
        id: its folder's name.
        name: name of the runs, without the GPUs.
        target: what is climbed: preset or run file.
        created: when it was meant, UTC.
        said: what was asked for beside the target, to render rungs anew.
        thresholds: what a rung must show.
        rungs: lowest first.
    """

    id: str
    name: str
    target: str
    created: str
    said: Mapping[str, Any]
    thresholds: Mapping[str, float]
    rungs: tuple[Rung, ...]

    def renewed(self, index: int, rung: Rung) -> Climb:
        """Return the climb with another rung in a place."""
        rungs = list(self.rungs)
        rungs[index] = rung
        return replace(self, rungs=tuple(rungs))


def root(runs: Path) -> Path:
    """Return the folder of climbs in the folder of run records.

    The first version that climbed kept them beside that folder; they stay where they are.
    """
    folder, older = runs / CLIMBS, runs.parent / CLIMBS.removeprefix(".")
    if not folder.is_dir() and next(older.glob(f"*/{FILE}"), None) is not None:
        return older
    return folder


def bundle_of(folder: Path, rung: Rung) -> Path:
    """Return where the bundle of a rung lies."""
    return folder / f"rung-{rung.gpus}.{rung.attempt}"


def gate_of(folder: Path, rung: Rung) -> Path:
    """Return where the gate of a rung lies."""
    return folder / f"gate-{rung.gpus}.{rung.attempt}"


def verdict_file(folder: Path, rung: Rung) -> Path:
    """Return where the verdict on a rung is written."""
    return gate_of(folder, rung) / "verdict.json"


def save(folder: Path, climb: Climb) -> None:
    """Write a climb down, whole or not at all.

    Raises:
        LocalFilesError: the file system refuses.
    """
    text = json.dumps({"format": FORMAT, **asdict(climb)}, indent=1)
    write(folder / climb.id / FILE, f"{text}\n")


def load(folder: Path, said: str) -> Climb:
    """Return a climb by its id, the beginning of one, or its name (the newest).

    Raises:
        UnknownNameError: there is none.
        UsageError: it cannot be read, or several begin so.
    """
    names = sorted(path.parent.name for path in folder.glob(f"*/{FILE}"))
    climbs = {name: read(folder / name / FILE) for name in names}
    exact = [name for name in names if name == said]
    named = sorted((c.created, name) for name, c in climbs.items() if c.name == said)
    begun = [name for name in names if name.startswith(said)] if said else []
    if exact or named:
        return climbs[exact[0] if exact else named[-1][1]]
    if len(begun) > 1:
        raise UsageError(f"{shown(said)} begins {len(begun)} climbs: {', '.join(begun[:5])}")
    if not begun:
        raise UnknownNameError("climb", said, [*names, *(c.name for c in climbs.values())])
    return climbs[begun[0]]


def read(path: Path) -> Climb:
    """Return the climb of a file.

    Raises:
        LocalFilesError: it cannot be read, or is no climb.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise LocalFilesError(f"{path} is no record of a climb: it is too large")
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LocalFilesError(f"{path}: {error.strerror or error}") from None
    except ValueError:
        raise LocalFilesError(f"{path} is no record of a climb: it is no JSON") from None
    try:
        if data.pop("format") != FORMAT:
            raise LocalFilesError(f"{path} was written by another moectl than this one")
        rungs = tuple(Rung(**rung) for rung in data.pop("rungs"))
        return Climb(rungs=rungs, **data)
    except (AttributeError, KeyError, TypeError):
        raise LocalFilesError(f"{path} is no record of a climb: keys are missing") from None


def verdict(folder: Path, rung: Rung) -> Mapping[str, Any] | None:
    """Return the verdict on a rung; None while there is none that can be read."""
    try:
        found = json.loads(verdict_file(folder, rung).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "passed" in found else None
