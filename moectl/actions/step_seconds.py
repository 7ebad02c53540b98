"""How long a step will take: as long as in an earlier run of the same settings, else estimated."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from moectl.actions.calibrations import known
from moectl.actions.estimate import request_of
from moectl.estimate.assessment import assess, prepare
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.launch.record import RunRecord
from moectl.launch.store import Store
from moectl.logs.folders import beginning, job_folders, rank_log
from moectl.logs.tail import tail_state
from moectl.render.bundle import bundle
from moectl.settings.bundle_names import CONFIG, LAUNCH

# Runs that are looked at, the newest first, and those of them whose range counts.
LOOKED_AT, COUNTED = 100, 5
# Lines of a bundle that say what a step computes, by its file.
_RANK = "rank.sh"
_FLAGS = re.compile(r"^XLA_FLAGS=.*?(?=  # |$)", re.M)
_ARGUMENTS = re.compile(r"-m maxtext\..*?(?:\n\n|\Z)", re.S)
_KEY = re.compile(r"^([a-z]\w*): (.*)$", re.M)
_MOST = 1 << 18


@dataclass(frozen=True, slots=True)
class StepSeconds:
    """A range of seconds a step, and where it comes from."""

    low: float
    high: float
    source: str

    def __str__(self) -> str:
        low, high = f"{self.low:.3g}", f"{self.high:.3g}"
        return f"{low} s" if low == high else f"{low} to {high} s"


def predicted_step_seconds(job: Job, store: Store | None = None) -> StepSeconds | None:
    """Return how long a step of a job takes, as a range.

    Measured where earlier runs differ in nothing that counts, else estimated.

    Args:
        job: the job.
        store: the records of this person's runs.

    Returns:
        The range of the medians of the newest such runs, or from the fast to the slow end of the
        estimate; None where neither is known.

    Raises:
        LocalFilesError: the folder of records cannot be read.
    """
    # "same" is the MaxText configuration beside its schedule and files, the arguments, the
    # flags, the platform and the number of GPUs.
    wanted = _matters(bundle(job))
    alike = (
        record
        for record in (store or Store()).list().records
        if (record.gpus, record.hardware) == (job.gpus, job.hardware.name)
    )
    return _range(itertools.islice(alike, LOOKED_AT), wanted) or _estimated(job, store)


def _estimated(job: Job, store: Store | None) -> StepSeconds | None:
    """Return the estimate's range; None for a decoder or a platform that it does not know."""
    prepared = prepare(job.effective, job.container.image.maxtext)
    found = assess(prepared, job.effective, request_of(job, known(job, store))).time
    if found is None:
        return None
    return StepSeconds(found.seconds("fast"), found.seconds("slow"), "estimated")


def _range(records: Iterable[RunRecord], wanted: Mapping[str, object]) -> StepSeconds | None:
    found: list[tuple[float, str]] = []
    for record in records:
        seconds = _measured(record)
        if seconds is not None and _matters(_held(Path(record.bundle))) == wanted:
            found.append((seconds, record.id))
        if len(found) == COUNTED:
            break
    if not found:
        return None
    times = [seconds for seconds, _ in found]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return StepSeconds(min(times), max(times), f"measured in {found[0][1]}{more}")


def _measured(record: RunRecord) -> float | None:
    """Return the median step of the newest start of a run that has any, in seconds."""
    for folder in reversed(job_folders(Path(record.bundle), record.job_ids)):
        seconds = tail_state(rank_log(folder.path, 0)).seconds
        if seconds:
            return seconds
    return None


def _held(folder: Path) -> dict[str, str]:
    return {name: beginning(folder / name, _MOST) for name in (CONFIG, _RANK, LAUNCH)}


def _matters(files: Mapping[str, str]) -> dict[str, object]:
    """Return what of a bundle decides how long a step takes."""
    return {
        "keys": dict(_keys(files.get(CONFIG, ""))),
        "arguments": _ARGUMENTS.findall(files.get(_RANK, "")),
        "flags": _FLAGS.findall(files.get(LAUNCH, "")),
    }


def _keys(text: str) -> Iterator[tuple[str, str]]:
    beside = set(read("launch.yaml")["beside_a_step"])
    for key, value in _KEY.findall(text):
        if key not in beside:
            yield key, value
