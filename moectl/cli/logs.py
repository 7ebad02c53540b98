"""moectl logs."""

from __future__ import annotations

import sys

from moectl.errors import UsageError, ValueUsageError
from moectl.reports.escape import printable

_LINES = 50


def run(
    run: str,
    follow: bool,
    failed: bool,
    rank: str | None,
    job: str | None,
    lines: str | None,
) -> int:
    """Print the end of a run's log, and with --follow what it gains."""
    from moectl.actions.kubernetes import bringer  # noqa: PLC0415
    from moectl.actions.logs import Wish, find, is_live, newest, tail  # noqa: PLC0415
    from moectl.actions.logs import follow as following  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    if failed and rank is not None:
        raise UsageError("--failed names the rank by itself; leave --rank out")
    if job == "":
        raise ValueUsageError("--job", job, "a job's id, e.g. 1234, or 1234.1 for its restart")
    count = _LINES if lines is None else _count("--lines", lines)
    wish = Wish(None if rank is None else _count("--rank", rank), job or "", failed)
    store = Store()
    if not follow:
        _, log = find(store, run, wish)
        sys.stderr.write(f"moectl: {log.name}: {printable(str(log.path))}\n")
        for line in tail(log.path, count):
            _say(line)
        return 0
    record = store.find(run)
    bring = bringer(record, store)
    begin = newest(store, record.id, wish, bring)
    if begin is None:
        sys.stderr.write(f"moectl: {record.id} has no log yet; waiting for one\n")
    else:
        sys.stderr.write(f"moectl: {begin.name}: {printable(str(begin.path))}\n")
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


def _count(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueUsageError(option, text, "a whole number, 0 or more")
    return int(text)
