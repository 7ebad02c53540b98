"""moectl runs, cancel and resume."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from moectl.cli.text import say, say_json
from moectl.errors import BackendError
from moectl.facts.yaml_facts import read
from moectl.reports.escape import printable

if TYPE_CHECKING:
    from moectl.actions.runs import Row, Table

# Longest units first: seconds in one, and its letter.
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))
_JOBS_SHOWN = 3


def runs(format: str) -> int:  # noqa: A002 - the option's name
    """List the runs; exit code 3 when the scheduler could not be asked."""
    from moectl.actions.runs import table  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    store = Store()
    found = table(store)
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
            sys.stderr.write(
                f"moectl: {run} has {there} of its {row.links} jobs: `moectl resume {run}` submits "
                "the rest\n"
            )
        if row.blocked:
            sys.stderr.write(
                f"moectl: {printable(row.record.id)} waits: {printable(row.blocked)}\n"
            )
    for broken in found.broken:
        sys.stderr.write(f"moectl: {printable(str(broken.folder))}: its record {broken.why}\n")
    if found.bare:
        first = printable(found.bare[0].name)
        more = f" and {len(found.bare) - 1} more" if len(found.bare) > 1 else ""
        sys.stderr.write(
            f"moectl: {first}{more} in {printable(str(store.root))} hold no record: launches that "
            "died before anything was submitted, or are at it; what is old may be removed\n"
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
    from moectl.launch.settle import age  # noqa: PLC0415

    rows = [
        (
            printable(row.record.id),
            row.said,
            _jobs(row),
            str(row.record.gpus),
            _age(age(row.record, now)),
        )
        for row in found.rows
    ]
    if not rows:
        return
    head = ("RUN", "STATE", "JOBS", "GPUS", "AGE")
    widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]
    for line in [head, *rows]:
        cells = [
            text.rjust(width) if column >= 3 else text.ljust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        say("  ".join(cells))


def _jobs(row: Row) -> str:
    ids = [job.job for job in row.jobs]
    left = len(ids) - _JOBS_SHOWN
    shown = ids if left <= 0 else [f"+{left}", *ids[-_JOBS_SHOWN:]]
    return printable(" ".join(shown)) or "-"


def _age(seconds: float) -> str:
    """Return a length of time in its largest whole unit."""
    for length, letter in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)}{letter}"
    return f"{int(seconds)}s"
