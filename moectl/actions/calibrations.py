"""Efficiencies that were measured, kept by platform and image among the records of runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from moectl.errors import UsageError
from moectl.job import Job
from moectl.launch.store import Store

FORMAT = 1
_FOLDER = ".calibrations"  # hidden, so that it is not taken for a run
_LARGEST = 1 << 16


def known(job: Job, store: Store | None = None) -> Mapping[str, float] | None:
    """Return the efficiencies that were measured on a job's platform with its image, or None."""
    try:
        path = file_of(store or Store(), job)
        if path.stat().st_size > _LARGEST:
            return None
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, UsageError):
        return None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return None
    said = data.get("efficiencies")
    sound = isinstance(said, dict) and all(
        isinstance(value, int | float) and 0 < value < 100 for value in said.values()
    )
    return {str(name): float(value) for name, value in said.items()} if sound and said else None


def file_of(store: Store, job: Job) -> Path:
    """Return where the efficiencies of a job's platform and image are kept."""
    image = re.sub(r"[^A-Za-z0-9.-]+", "_", job.container.image.reference)[-120:]
    return store.root / _FOLDER / f"{job.hardware.name}--{image}.json"
