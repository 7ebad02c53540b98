"""moectl logs."""

from __future__ import annotations

import sys

from moectl.cli.manner import remark
from moectl.cli.numbers import whole
from moectl.cli.text import say_json
from moectl.errors import UsageError, ValueUsageError
from moectl.reports.escape import printable

_LINES = 50
_LEGAL = "a whole number, 0 or more"


def run(
    run: str,
    follow: bool,
    failed: bool,
    rank: str | None,
    job: str | None,
    lines: str | None,
    format: str = "text",  # noqa: A002 - the option's name
) -> int:
    """Print the end of a run's log, and with --follow what it gains."""
    from moectl.actions.kubernetes import bringer  # noqa: PLC0415
    from moectl.actions.logs import Wish, find, is_live, newest, tail  # noqa: PLC0415
    from moectl.actions.logs import follow as following  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    if follow and format == "json":
        raise UsageError("--follow prints lines as they come; leave --format out")
    if failed and rank is not None:
        raise UsageError("--failed names the rank by itself; leave --rank out")
    if job == "":
        raise ValueUsageError("--job", job, "a job's id, e.g. 1234, or 1234.1 for its restart")
    count = _LINES if lines is None else whole("--lines", lines, _LEGAL, least=0)
    wish = Wish(None if rank is None else whole("--rank", rank, _LEGAL, least=0), job or "", failed)
    store = Store()
    if not follow:
        found, log = find(store, run, wish)
        if format == "json":
            say_json(
                {
                    "run": found.id,
                    "log": log.name,
                    "path": str(log.path),
                    "lines": [line.removesuffix("\r") for line in tail(log.path, count)],
                }
            )
            return 0
        remark(f"{log.name}: {log.path}")
        for line in tail(log.path, count):
            _say(line)
        return 0
    record = store.find(run)
    bring = bringer(record, store)
    begin = newest(store, record.id, wish, bring)
    if begin is None:
        remark(f"{record.id} has no log yet; waiting for one")
    else:
        remark(f"{begin.name}: {begin.path}")
    gained = following(
        lambda: newest(store, record.id, wish, bring),
        lambda: is_live(store, record.id, bring),
        begin,
        count,
    )
    for line in gained:
        _say(line)
        sys.stdout.flush()
    return 0


def _say(line: str) -> None:
    text = line.removesuffix("\r").replace("\t", "    ")
    sys.stdout.write(f"{printable(text)}\n")
