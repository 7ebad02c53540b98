"""moectl runs, cancel and resume."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from moectl.cli.manner import remark
from moectl.cli.text import say, say_json
from moectl.errors import BackendError
from moectl.facts.yaml_facts import read
from moectl.reports.columns import age, columns
from moectl.reports.escape import printable

if TYPE_CHECKING:
    from moectl.actions.runs import Row, Table

_JOBS_SHOWN = 3


def runs(format: str) -> int:  # noqa: A002 - the option's name
    """List the runs; exit code 3 when the scheduler could not be asked."""
    from moectl.actions.status import statuses  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    store = Store()
    found = statuses(store).table
    now = time.time()
    if format == "json":
        say_json(
            {
                "folder": str(store.root),
                "runs": [row.as_dict(now) for row in found.rows],
                "broken": [{"folder": str(b.folder), "why": b.why} for b in found.broken],
                "without_record": [str(folder) for folder in found.bare],
                "unreachable": found.unreachable,
            }
        )
    else:
        _say_table(found, now)
        if not found.rows:
            say(f"no runs in {store.root}; `moectl launch` starts one")
    for row in found.rows:
        if row.lacks:
            run, there = printable(row.record.id), row.links - row.lacks
            remark(
                f"{run} has {there} of its {row.links} jobs: `moectl resume {run}` submits the rest"
            )
        if row.blocked:
            remark(f"{row.record.id} waits: {printable(row.blocked)}")
    for broken in found.broken:
        remark(f"{broken.folder}: its record {printable(broken.why)}")
    if found.bare:
        first = printable(found.bare[0].name)
        more = f" and {len(found.bare) - 1} more" if len(found.bare) > 1 else ""
        remark(
            f"{first}{more} in {store.root} hold no record: launches that died before anything was "
            "submitted, or are at it; what is old may be removed"
        )
    if found.unreachable:
        raise BackendError(found.unreachable)
    return 0


def cancel(run: str, format: str) -> int:  # noqa: A002 - the option's name
    """End a run's jobs."""
    from moectl.actions.runs import cancel as end  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    row, ended = end(Store(), run)
    if format == "json":
        say_json({**row.as_dict(time.time()), "cancelled": ended})
    elif ended:
        say(f"{row.record.id}: cancelled job {', '.join(ended)}")
    else:
        say(f"{row.record.id} had ended already: {row.state}")
    return 0


def resume(run: str, chain: str | None, format: str) -> int:  # noqa: A002 - the option's name
    """Submit further jobs of a run."""
    from moectl.actions.runs import resume as go_on  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    count = None
    if chain is not None:
        from moectl.actions.chain import links_of  # noqa: PLC0415

        count = links_of("--chain", chain, 1, read("launch.yaml")["chain"]["most_jobs"])
    store = Store()
    before = store.find(run).job_ids
    record = go_on(store, run, count)
    new = [job for job in record.job_ids if job not in before]
    if format == "json":
        say_json(record.as_dict())
    else:
        jobs = f"job{'s' if len(new) > 1 else ''} {', '.join(new)}"
        say(f"{record.id}: {jobs}, of the bundle {record.bundle}")
        say(f"  next    moectl status {record.id}")
    return 0


def _say_table(found: Table, now: float) -> None:
    from moectl.launch.settle import age as age_of  # noqa: PLC0415

    rows = [
        (
            printable(row.record.id),
            row.said,
            _jobs(row),
            str(row.record.gpus),
            age(age_of(row.record, now)),
        )
        for row in found.rows
    ]
    if not rows:
        return
    head = ("RUN", "STATE", "JOBS", "GPUS", "AGE")
    for line in columns(head, rows, {3, 4}):
        say(line)


def _jobs(row: Row) -> str:
    ids = [job.job for job in row.jobs]
    left = len(ids) - _JOBS_SHOWN
    shown = ids if left <= 0 else [f"+{left}", *ids[-_JOBS_SHOWN:]]
    return printable(" ".join(shown)) or "-"
