"""Runs of several jobs: how many links a run has, which of them exist, and what comes next.

A chain is a group of jobs of one run: the first one, and those that follow it, each waiting for
the end of the one before. `moectl resume` begins a new group. The record holds how many links
the last group is meant to have, so that one whose submission was interrupted can be completed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from moectl.launch.backend import JobState
from moectl.launch.record import JobEntry, RunRecord, Why
from moectl.logs.folders import job_folders, rank_logs

# Options of a record: links of its last group, and the place of that group's first job.
CHAIN = "chain"
CHAIN_FROM = "chain_from"


def links(record: RunRecord) -> int:
    """Return how many jobs the last group of a run is meant to have; 1 without a chain."""
    said = record.options.get(CHAIN)
    return said if type(said) is int and said > 0 else 1


def group(record: RunRecord) -> tuple[JobEntry, ...]:
    """Return the jobs of the last group, oldest first; none before the first is known."""
    said = record.options.get(CHAIN_FROM)
    return record.jobs[said if type(said) is int and said > 0 else 0 :]


def missing(record: RunRecord) -> int:
    """Return how many links of a chain were never submitted; 0 for a run of one job."""
    return max(0, links(record) - len(group(record))) if CHAIN in record.options else 0


def next_why(record: RunRecord) -> Why:
    """Return what the next job of a run is: its first, a further link, or a resumption."""
    if not record.jobs:
        return "first"
    return "chain" if group(record) and missing(record) else "resume"


def begun(record: RunRecord, count: int) -> RunRecord:
    """Return a run whose next job begins a new group of so many links."""
    options = dict(record.options)
    options.pop(CHAIN_FROM, None)
    options.pop(CHAIN, None)
    if count > 1:
        options[CHAIN] = count
    if record.jobs:
        options[CHAIN_FROM] = len(record.jobs)
    return replace(record, options=options)


def unused(record: RunRecord) -> int:
    """Return how many links of the last group never trained, at least 1."""
    return max(1, links(record) - len(_trained(record, {entry.job for entry in group(record)})))


def _trained(record: RunRecord, jobs: Collection[str]) -> set[str]:
    """Return those of the jobs that have logs of ranks."""
    folders = job_folders(Path(record.bundle), jobs)
    return {folder.job for folder in folders if rank_logs(folder.path)}


def at(record: RunRecord, jobs: Sequence[JobState]) -> int | None:
    """Return which link counts at the moment, from 1; None for a run that is no chain.

    It is the one that runs, else the first that waits, else the last that trained.
    """
    if links(record) < 2 or not group(record):
        return None
    states = {state.job: state for state in jobs}
    held = [states.get(entry.job) for entry in group(record)]
    live = [(number, state) for number, state in enumerate(held, 1) if state and state.live]
    if live:
        return next((n for n, state in live if state.phase != "pending"), live[0][0])
    trained = _trained(record, {entry.job for entry in group(record)})
    numbers = [n for n, entry in enumerate(group(record), 1) if entry.job in trained]
    return max(numbers, default=len(held))
