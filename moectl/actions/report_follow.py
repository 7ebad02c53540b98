"""Reports of a run that still goes on: read on, measured anew whenever its files gained steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from moectl.actions.logs import is_live
from moectl.actions.report import material
from moectl.errors import LocalFilesError
from moectl.launch.store import Store
from moectl.logs.folders import job_folders
from moectl.logs.metrics_file import MetricsFile
from moectl.logs.reading import Reading
from moectl.report.context import Wish
from moectl.report.gather import Material
from moectl.report.measure import Report
from moectl.report.measure import report as measure

# Seconds between two looks at the log that leads, between two looks at all files, and between two
# questions whether a run still lives and has further logs.
LOOK, ALL, ASK = 0.1, 5.0, 15.0


def follow(
    words: Sequence[str],
    wish: Wish | None = None,
    release: str = "",
    store: Store | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Report]:
    """Yield the report of a run, and again whenever its files gained steps.

    A run is followed until nothing of it is live, over its restarts and jobs; files are followed
    until somebody interrupts.

    Args:
        words: as of `moectl.actions.report.report`.
        wish: likewise.
        release: likewise.
        store: likewise.
        sleep: waits that many seconds.

    Raises:
        MoectlError: as of `moectl.actions.report.report`.
    """
    held = material(words, release, store)
    last = measure(held, wish)
    yield last
    run = "" if Path(words[0]).exists() else held.name
    before, waited, unseen = _folders(store, run), 0.0, 0.0
    while True:
        sleep(LOOK)
        waited, unseen = waited + LOOK, unseen + LOOK
        # A run has a log a rank; only the leader's is worth a look so often.
        few = None if unseen >= ALL else last.series.paths[-1:]
        unseen = 0.0 if few is None else unseen
        if gained(held, few):
            last = measure(held, wish)
            yield last
        if run and waited >= ASK:
            waited = 0.0
            now = _folders(store, run)
            live = is_live(store or Store(), run)
            if now != before or not live:
                before = now
                held = material(words, release, store)
                last = measure(held, wish)
                yield last
            if not live:
                return


def _folders(store: Store | None, run: str) -> list[Path]:
    if not run:
        return []
    record = (store or Store()).read(run)
    return [folder.path for folder in job_folders(Path(record.bundle), record.job_ids)]


def gained(held: Material, few: Collection[str] | None = None) -> int:
    """Read on; return how many steps came. A file that is gone for a moment waits.

    Args:
        held: what was read so far.
        few: the files that are looked at; None or none for all.

    Raises:
        LocalFilesError: a file cannot be read.
    """
    found = 0
    readers: list[Reading | MetricsFile] = [*held.logs, *held.metrics]
    for each in readers:
        if few and str(each.path) not in few:
            continue
        try:
            found += each.update()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise LocalFilesError(f"{each.path}: {error.strerror or error}") from None
    for event in held.events:
        if few and str(event.path) not in few:
            continue
        before = event.table.count
        if event.path.is_file() and event.path.stat().st_size != event.size:
            found += event.update() - before
    return max(0, found)
