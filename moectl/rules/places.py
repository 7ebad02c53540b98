"""Where a setting was said, for findings."""

from __future__ import annotations

from moectl.job import Job, Origin


def at(job: Job, path: str) -> tuple[str, int | None, int | None]:
    """Return file (or layer), line and column of the setting at `path`."""
    value = job.settings.get(path)
    origin = value.origin if value else Origin("moectl default")
    return origin.file or origin.layer, origin.line, origin.column
