"""How jobs ended, kept in the record for when the scheduler has forgotten it.

Slurm forgets a job after MinJobAge, five minutes by default, where the site keeps no accounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, get_args

from moectl.launch.backend import LIVE, JobState, Phase
from moectl.launch.record import RunRecord

_PHASES: frozenset[Phase] = frozenset(get_args(Phase)) - LIVE - {"refused", "unknown"}
_TEXTS = ("raw", "reason", "nodes", "start", "end")
_NUMBERS = ("signal", "restarts")


def kept(record: RunRecord, states: Iterable[JobState]) -> RunRecord:
    """Return a run's record with how those of its jobs ended that have; the last word counts."""
    ended = dict(record.ended)
    for state in states:
        if state.phase in _PHASES and state.job in record.job_ids:
            row = asdict(state)
            del row["job"], row["name"]
            ended[state.job] = row
    return record if ended == record.ended else replace(record, ended=ended)


def recalled(record: RunRecord, state: JobState) -> JobState:
    """Return a job's state, or how it ended by its record where the scheduler has forgotten it."""
    row = record.ended.get(state.job)
    if state.phase != "unknown" or row is None or row.get("phase") not in _PHASES:
        return state
    code = row.get("exit_code")
    return JobState(
        state.job,
        row["phase"],
        exit_code=code if type(code) is int else None,
        name=record.id,
        **_of_kind(row, _TEXTS, str),
        **_of_kind(row, _NUMBERS, int),
    )


def _of_kind(row: Mapping[str, Any], names: Iterable[str], kind: type) -> dict[str, Any]:
    return {name: row[name] for name in names if type(row.get(name)) is kind}
