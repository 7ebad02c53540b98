"""Where a climb stands: what the scheduler says of its runs and gates, and what the gates found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl.campaign.ladder import Climb, Rung, root, verdict
from moectl.launch.backend import Backend, JobState
from moectl.launch.record import RunRecord
from moectl.launch.settle import settle
from moectl.launch.store import Store

_GATES = "gates"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a rung stands.

    Attributes:
        rung: the rung.
        state: waiting, running, judged by its gate (passed, failed), or never started.
        job: id of its job; empty before.
        verdict: what its gate found; None before.
        told: why it failed or waits.
    """

    rung: Rung
    state: str
    job: str
    verdict: Mapping[str, Any] | None
    told: str


@dataclass(frozen=True, slots=True)
class Ladder:
    """A climb as it is now.

    Attributes:
        climb: its record.
        folder: its folder.
        rungs: where each stands.
        unreachable: why the scheduler could not be asked; empty when it answered.
    """

    climb: Climb
    folder: Path
    rungs: tuple[Standing, ...]
    unreachable: str = ""

    @property
    def done(self) -> bool:
        """Whether every rung passed."""
        return all(one.state == "passed" for one in self.rungs)

    @property
    def failed(self) -> bool:
        """Whether a rung failed, so that nothing above it starts."""
        return any(one.state == "failed" for one in self.rungs)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "id": self.climb.id,
            "target": self.climb.target,
            "folder": str(self.folder),
            "done": self.done,
            "failed": self.failed,
            "thresholds": dict(self.climb.thresholds),
            "unreachable": self.unreachable,
            "rungs": [
                {
                    "gpus": one.rung.gpus,
                    "run": one.rung.run,
                    "attempt": one.rung.attempt,
                    "state": one.state,
                    "job": one.job,
                    "told": one.told,
                    "verdict": one.verdict,
                }
                for one in self.rungs
            ],
        }


def look(store: Store, backend: Backend | None, climb: Climb) -> Ladder:
    """Return a climb as it is now.

    Args:
        store: where records lie.
        backend: the scheduler; None tells only what verdicts and records say.
        climb: the climb.
    """
    folder = root(store.root) / climb.id
    runs, why = _states(store, backend, [rung.run for rung in climb.rungs])
    gates, other = _states(gates_of(folder), backend, [rung.gate for rung in climb.rungs])
    standing = [
        _standing(folder, rung, runs.get(rung.run), gates.get(rung.gate)) for rung in climb.rungs
    ]
    return Ladder(climb, folder, tuple(standing), why or other)


def _states(
    store: Store, backend: Backend | None, identities: Sequence[str]
) -> tuple[dict[str, tuple[RunRecord, JobState | None]], str]:
    records = [record for record in store.list().records if record.id in set(identities)]
    if backend is None or not records:
        return {record.id: (record, None) for record in records}, ""
    survey = settle(store, backend, records)
    found: dict[str, tuple[RunRecord, JobState | None]] = {}
    for record in survey.records:
        states = survey.states(record)
        found[record.id] = (record, states[-1] if states else None)
    return found, survey.unreachable


def _standing(
    folder: Path,
    rung: Rung,
    run: tuple[RunRecord, JobState | None] | None,
    gate: tuple[RunRecord, JobState | None] | None,
) -> Standing:
    found = verdict(folder, rung)
    job = run[0].job_ids[-1] if run is not None and run[0].jobs else ""
    if found is not None:
        told = "; ".join(
            f"{row['name']}: {row['told']}" for row in found["checks"] if not row["passed"]
        )
        return Standing(rung, "passed" if found["passed"] else "failed", job, found, told)
    judging = gate[1] if gate is not None else None
    if judging is not None and not judging.live and judging.phase != "unknown":
        return Standing(
            rung, "failed", job, None, f"its gate ended without a verdict: {judging.raw}"
        )
    if not job:
        lost = run is not None and run[0].state in {"lost", "cancelled"}
        return Standing(rung, "lost" if lost else "not submitted", "", None, "")
    state = run[1] if run is not None else None
    if state is None:
        return Standing(rung, "unknown", job, None, "")
    if not state.live and judging is None and gate is None:
        return Standing(rung, "without a gate", job, None, "")
    return Standing(rung, state.phase if state.live else "being judged", job, None, state.reason)


def job_of(store: Store, identity: str) -> str:
    """Return the last job of a run; empty when it has none."""
    record = next((one for one in store.list().records if one.id == identity), None)
    return record.job_ids[-1] if record is not None and record.jobs else ""


def gates_of(folder: Path) -> Store:
    """Return the records of the gates of a climb."""
    return Store(folder / _GATES)
