"""moectl status."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from moectl.cli.manner import remark
from moectl.cli.text import say, say_json
from moectl.errors import BackendError, UsageError
from moectl.reports.columns import age, columns
from moectl.reports.escape import printable

if TYPE_CHECKING:
    from moectl.actions.status import Details, Status, Statuses

_HEAD = ("RUN", "STATE", "STEP", "S/STEP", "TFLOP/S", "TOKENS/S", "LOSS", "AGE", "JOB")
_RIGHT = frozenset(range(2, 8))


def run(run: list[str], watch: bool, format: str) -> int:  # noqa: A002 - the option's name
    """Say how runs are; exit code 3 when the scheduler could not be asked."""
    from moectl.actions import status as action  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    if len(run) > 1:
        raise UsageError("status looks at one run or at all; leave the others out")
    if watch and format == "json":
        raise UsageError("--watch shows a table; leave --format out")
    store = Store()
    if watch:

        def look() -> Statuses:
            if run:
                return action.only(*action.status(store, run[0]))
            return action.statuses(store)

        _watch(action.watched(look))
        return 0
    if run:
        found_one, unreachable = action.status(store, run[0])
        details = action.details(found_one)
        if format == "json":
            say_json({**details.as_dict(time.time()), "unreachable": unreachable})
        else:
            for line in _about(details):
                say(line)
    else:
        found = action.statuses(store)
        unreachable = found.table.unreachable
        _say_all(found, str(store.root), format)
    if unreachable:
        raise BackendError(unreachable)
    return 0


def _say_all(found: Statuses, folder: str, form: str) -> None:
    now = time.time()
    if form == "json":
        say_json(
            {
                "folder": folder,
                "runs": [each.as_dict(now) for each in found.runs],
                "broken": [{"folder": str(b.folder), "why": b.why} for b in found.table.broken],
                "unreachable": found.table.unreachable,
            }
        )
    else:
        for line in _table(found.runs):
            say(line)
        if not found.runs:
            say(f"no runs in {printable(folder)}; `moectl launch` starts one")
    for broken in found.table.broken:
        remark(f"{broken.folder}: its record {printable(broken.why)}")


def _watch(looks: Iterator[Statuses]) -> None:
    """Show every look: in place on a terminal, one below the other elsewhere."""
    if not sys.stdout.isatty():
        for index, found in enumerate(looks):
            for line in [*([""] if index else []), *_table(found.runs), *_unreachable(found)]:
                say(line)
            sys.stdout.flush()
        return
    from rich.live import Live  # noqa: PLC0415 - only a live table pays for it
    from rich.text import Text  # noqa: PLC0415

    with Live(auto_refresh=False, vertical_overflow="ellipsis") as live:
        for found in looks:
            lines = [*_table(found.runs), *_unreachable(found), time.strftime("%H:%M:%S")]
            live.update(Text("\n".join(lines), no_wrap=True), refresh=True)


def _unreachable(found: Statuses) -> list[str]:
    reason = found.table.unreachable
    return [f"the scheduler gives no answer: {printable(reason.splitlines()[0])}"] if reason else []


def _table(runs: tuple[Status, ...]) -> list[str]:
    if not runs:
        return []
    return list(columns(_HEAD, map(_cells, runs), _RIGHT))


def _cells(status: Status) -> tuple[str, ...]:
    log = status.log
    jobs = [job for job in status.row.jobs if job.live] or list(status.row.jobs[-1:])
    return (
        printable(status.row.record.id),
        _state(status),
        _step(status),
        _number(log.seconds, 3),
        _number(log.tflops, 1),
        _number(log.tokens_per_s, 0),
        _number(log.loss, 3),
        "-" if status.age is None else age(status.age),
        printable(jobs[0].job) if jobs else "-",
    )


def _state(status: Status) -> str:
    """Return the state, with the link that counts of a run of several jobs."""
    row = status.row
    return status.state if row.link is None else f"{status.state}, link {row.link} of {row.links}"


def _step(status: Status) -> str:
    """Return the steps that are done, of how many: step 0 is the first."""
    last = status.log.last_step
    if last is None:
        return "-"
    return f"{last + 1}/{status.steps if status.steps is not None else '?'}"


def _number(value: float | None, digits: int) -> str:
    """Return a number with so many digits; small ones get as many as say something."""
    if value is None:
        return "-"
    return f"{value:.3g}" if 0 < abs(value) < 10.0**-digits else f"{value:.{digits}f}"


def _about(details: Details) -> Iterator[str]:
    """Yield the lines about one run."""
    status = details.status
    record = status.row.record
    yield f"{printable(record.id)}: {_state(status)}"
    yield f"  bundle  {printable(record.bundle)}"
    yield f"  size    {record.gpus} GPUs on {record.nodes} nodes of {printable(record.hardware)}"
    for entry, job in zip(record.jobs, status.row.jobs, strict=False):
        words = [job.phase, f"on {job.nodes}" if job.nodes else "", job.reason]
        told = ", ".join(printable(word) for word in words if word)
        code = f", exit code {job.exit_code}" if job.exit_code is not None else ""
        again = f", restarted {job.restarts} times" if job.restarts else ""
        yield f"  job     {printable(job.job)} ({entry.why}): {told}{code}{again}"
    if status.row.lacks:
        yield (
            f"  lacks   {status.row.lacks} of its {status.row.links} jobs; `moectl resume "
            f"{printable(record.id)}` submits them"
        )
    if status.row.blocked:
        yield f"  blocked {printable(status.row.blocked)}"
    if status.folder is None:
        yield "  logs    none yet"
        yield from _why(details)
        return
    yield f"  logs    {printable(str(status.folder.path))}"
    if details.preflight:
        yield f"  checked the preflight {printable(details.preflight)}"
    log = status.log
    if log.last_step is not None:
        yield (
            f"  steps   {_step(status)} done, {_number(log.seconds, 3)} s a step, "
            f"{_number(log.tflops, 1)} TFLOP/s and {_number(log.tokens_per_s, 0)} tokens/s a "
            f"device, loss {_number(log.loss, 3)}"
        )
    if status.age is not None:
        yield f"  written {age(status.age)} ago"
    if log.stopped:
        yield f"  ended   {printable(log.stopped)}"
    yield from _why(details)
    for line in details.differences:
        yield f"  differs {printable(line)}"


def _why(details: Details) -> Iterator[str]:
    why = details.verdict
    if why is None:
        return
    where = "" if why.rank is None else f"rank {why.rank}"
    where += f" on {printable(why.node)}" if where and why.node else ""
    code = "" if why.exit_code is None else f"exit code {why.exit_code}"
    yield f"  failed  {', '.join(filter(None, (where, code, printable(why.cause))))}"
    if why.text:
        yield f"  text    {printable(why.text[:500])}"
    if why.remedy:
        yield f"  try     {why.remedy}"
    if why.retry is not None:
        yield f"  again   {'may well work' if why.retry else 'would fail the same way'}"
