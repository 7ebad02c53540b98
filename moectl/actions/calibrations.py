"""Efficiencies that were measured, kept by platform and image among the records of runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from moectl.errors import SourceError, UsageError
from moectl.job import Job
from moectl.launch.store import Store

FORMAT = 1
_FOLDER = ".calibrations"  # hidden, so that it is not taken for a run
_LARGEST = 1 << 16
_REMEDY = "remove it, or let `moectl calibrate RUN` write it again"


def known(job: Job, store: Store | None = None) -> Mapping[str, float] | None:
    """Return the efficiencies that were measured on a job's platform with its image, or None.

    Raises:
        SourceError: there is a calibration that cannot be read; a prediction without it would
            pass for one with it.
    """
    try:
        path = file_of(store or Store(), job)
        text = path.read_bytes()[: _LARGEST + 1].decode("utf-8", "replace")
    except (OSError, UsageError):
        return None  # nothing was measured, or there is no folder of records
    try:
        data = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", None)
        raise SourceError(str(path), line, f"this calibration is no JSON; {_REMEDY}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        sentence = f"this calibration is not of the form {FORMAT} that is read here; {_REMEDY}"
        raise SourceError(str(path), None, sentence)
    said = data.get("efficiencies")
    if not isinstance(said, dict) or not said or not all(map(_sound, said.values())):
        sentence = "this calibration has no efficiencies between 0 and 100"
        raise SourceError(str(path), None, f"{sentence}; {_REMEDY}")
    return {str(name): float(value) for name, value in said.items()}


def _sound(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < 100


def file_of(store: Store, job: Job) -> Path:
    """Return where the efficiencies of a job's platform and image are kept."""
    image = re.sub(r"[^A-Za-z0-9.-]+", "_", job.container.image.reference)[-120:]
    return store.root / _FOLDER / f"{job.hardware.name}--{image}.json"
