"""What a preflight said of the processes of a job, as its judge left it beside the logs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl.logs.folders import beginning

PREFLIGHT = "preflight.json"
_LARGEST = 1 << 22


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that stopped a job before it trained.

    Attributes:
        kind: "missing", "failed", "different" or "slow".
        ranks: the processes.
        nodes: their nodes; none where all processes have it in common.
        what: one clause.
    """

    kind: str
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    what: str


@dataclass(frozen=True, slots=True)
class Preflight:
    """The verdict of a preflight.

    Attributes:
        passed: whether the training was let start.
        faults: what was wrong, the first cause first.
        excluded: nodes that were left out of the job for it.
        again: whether it is being done once more without them.
    """

    passed: bool
    faults: tuple[Fault, ...] = ()
    excluded: tuple[str, ...] = ()
    again: bool = False

    @property
    def said(self) -> str:
        """Return the verdict in one clause."""
        without = f" (without {', '.join(self.excluded)})" if self.excluded else ""
        if self.passed:
            return f"passed{without}"
        if self.again:
            return f"is done once more{without}"
        if not self.faults:
            return f"refused the job{without}"
        first = self.faults[0]
        more = f", and {len(self.faults) - 1} more" if len(self.faults) > 1 else ""
        who = _named("node", first.nodes) or _named("rank", first.ranks)
        return f"refused {who or 'all processes'}{without}: {first.what}{more}"


def preflight(folder: Path) -> Preflight | None:
    """Return what a preflight said, None where there was none or it cannot be read."""
    try:
        record: Any = json.loads(beginning(folder / PREFLIGHT, _LARGEST) or "null")
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("passed"), bool):
        return None
    return Preflight(
        record["passed"],
        tuple(_fault(row) for row in _list(record.get("faults")) if isinstance(row, dict)),
        _texts(record.get("excluded")),
        record.get("again") is True,
    )


def _fault(row: dict[str, Any]) -> Fault:
    ranks = tuple(rank for rank in _list(row.get("ranks")) if type(rank) is int and rank >= 0)
    kind, what = row.get("kind"), row.get("what")
    return Fault(
        kind if isinstance(kind, str) else "",
        ranks,
        _texts(row.get("nodes")),
        _line(what) if isinstance(what, str) else "",
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_line(text) for text in _list(value) if isinstance(text, str))


def _line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text[:2000])


def _named(noun: str, names: tuple[Any, ...]) -> str:
    """Return "node gpu000", "nodes gpu000, gpu001"; "" for none, and no more than six."""
    if not names:
        return ""
    more = ", ..." if len(names) > 6 else ""
    plural = "s" if len(names) > 1 else ""
    return f"{noun}{plural} {', '.join(str(name) for name in names[:6])}{more}"
