"""Reports of runs and of files, comparisons, and scaling."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from moectl.errors import BackendError, SourceError, UsageError
from moectl.launch.backend import Backend
from moectl.launch.record import RunRecord
from moectl.launch.store import Store
from moectl.logs.accounting import Allocation, moment
from moectl.logs.folders import batch_log, beginning, job_folders, rank_log, rank_logs
from moectl.logs.tail import tail_state
from moectl.logs.triage import Triage, of_files, of_folder
from moectl.report.compare import Comparison
from moectl.report.compare import compare as compare_reports
from moectl.report.context import Wish
from moectl.report.gather import Material, add, add_profiles, gather
from moectl.report.measure import Report
from moectl.report.measure import report as measure
from moectl.report.scaling import Scaling
from moectl.report.scaling import scaling as scale
from moectl.settings.bundle_names import CONFIG, LOCK
from moectl.settings.yaml_source import read_mapping

_CONFIG_BYTES = 1 << 18
_METRICS_KEY = "metrics_file"
_EVENTS = "output/**/events.out.tfevents.*"
_GPUS = re.compile(r"([1-9]\d{0,6})=(.+)", re.S | re.ASCII)
_MOST_EVENTS = 1000


def report(
    words: Sequence[str],
    wish: Wish | None = None,
    release: str = "",
    store: Store | None = None,
    backend: Backend | None = None,
) -> Report:
    """Return the report of one run.

    Args:
        words: a run (id, name or job), or files and folders of one run: logs of its ranks, its
            metrics file, TensorBoard events, Slurm's accounts, or its bundle.
        wish: what the files do not say.
        release: the MaxText release that wrote the logs; "" is the newest known.
        store: where records of runs lie.
        backend: whom to ask about a run's jobs; the run's own by default.

    Raises:
        UsageError: a word is neither, or runs and files are mixed.
        LocalFilesError: a file cannot be read.
    """
    held = material(words, release, store, backend)
    found = measure(held, wish)
    return replace(found, failure=_failure(held, found.context.config))


def _failure(held: Material, config: Mapping[str, str]) -> Triage | None:
    """Return why a run failed, None where nothing tells."""
    if held.folder is None:
        return of_files([log.path for log in held.logs], config)
    if tail_state(rank_log(held.folder, 0)).done(None):
        return None
    return of_folder(held.folder, held.batch, config)


def compare(
    words: Sequence[str],
    threshold: float,
    allow: Collection[str] = (),
    wish: Wish | None = None,
    release: str = "",
    store: Store | None = None,
) -> list[Comparison]:
    """Compare runs with the first one.

    Args:
        words: at least two, each a run, a file or a folder.
        threshold: relative change of time that is accepted, e.g. 0.02.
        allow: kinds of difference that are no obstacle.
        wish: what the files do not say.
        release: as of `report`.
        store: as of `report`.

    Raises:
        UsageError: a word is neither; or the runs cannot be compared.
        LocalFilesError: a file cannot be read.
    """
    if len(words) < 2:
        raise UsageError("compare takes at least two runs, files or folders")
    first, *others = _named([report([word], wish, release, store) for word in words])
    return [compare_reports(first, other, threshold, allow) for other in others]


def scaling(
    words: Sequence[str],
    allow: Collection[str] = (),
    wish: Wish | None = None,
    release: str = "",
    store: Store | None = None,
) -> Scaling:
    """Return how runs scale.

    Args:
        words: at least two, each a run, a file or a folder, GPUS=PATH where it does not say
            how many GPUs it had.
        allow: as of `compare`.
        wish: as of `compare`.
        release: as of `report`.
        store: as of `report`.

    Raises:
        UsageError: a word is neither; or no scaling can be told.
        LocalFilesError: a file cannot be read.
    """
    if len(words) < 2:
        raise UsageError("scaling takes at least two runs, files or folders")
    base = wish or Wish()
    reports = []
    for word in words:
        match = None if Path(word).exists() else _GPUS.fullmatch(word)
        said = Wish(base.hardware, base.precision, int(match[1])) if match else base
        reports.append(report([match[2] if match else word], said, release, store))
    return scale(_named(reports), allow)


def _named(reports: Iterable[Report]) -> list[Report]:
    """Return reports of which each has a name of its own."""
    seen: dict[str, int] = {}
    found = []
    for each in reports:
        count = seen[each.name] = seen.get(each.name, 0) + 1
        found.append(each if count == 1 else replace(each, name=f"{each.name} ({count})"))
    return found


def material(
    words: Sequence[str],
    release: str = "",
    store: Store | None = None,
    backend: Backend | None = None,
) -> Material:
    """Read all that there is of one run; arguments and errors are those of `report`."""
    paths = [Path(word) for word in words]
    if all(path.exists() for path in paths):
        if len(paths) == 1 and (paths[0] / LOCK).is_file():
            return _of_bundle(paths[0], None, release)
        return gather(_name(paths), paths, release)
    if len(words) > 1 or "/" in words[0]:
        lacking = next(word for word, path in zip(words, paths, strict=True) if not path.exists())
        if len(words) > 1 and any(path.exists() for path in paths):
            raise UsageError(f"{lacking} is no file; give one run, or files of one run")
        if "/" in lacking:
            raise UsageError(f"{lacking} is not there")
        raise UsageError("report takes one run, or files of one run")
    held = store or Store()
    record = held.find(words[0])
    found = _of_bundle(Path(record.bundle), record.job_ids, release)
    found.name, found.hardware, found.gpus = record.id, record.hardware, record.gpus
    _accounts(found, held, record, backend)
    return found


def _name(paths: Sequence[Path]) -> str:
    """Return what files are called: by the only one, else by the folder they share."""
    if len(paths) == 1:
        return paths[0].resolve().name
    parents = {path.resolve().parent for path in paths}
    return parents.pop().name if len(parents) == 1 else f"{len(paths)} files"


def _of_bundle(bundle: Path, jobs: Collection[str] | None, release: str) -> Material:
    """Read what a bundle's runs left in it."""
    found = Material(bundle.name, release=release)
    found.config = {key: str(value) for key, value in _mapping(bundle / CONFIG, found).items()}
    found.config_place = str(bundle / CONFIG)
    locked = _mapping(bundle / LOCK, found)
    hardware, gpus = locked.get("hardware"), locked.get("gpus")
    found.hardware = hardware if isinstance(hardware, str) else ""
    found.gpus = gpus if type(gpus) is int and gpus > 0 else None
    for folder in job_folders(bundle, jobs):
        for path in rank_logs(folder.path).values():
            add(found, path)
        found.folder, found.batch = folder.path, batch_log(bundle, folder.job)
    metrics = found.config.get(_METRICS_KEY, "")
    if metrics and (bundle / metrics).is_file():
        add(found, bundle / metrics)
    for event in sorted(bundle.glob(_EVENTS))[:_MOST_EVENTS]:
        add(found, event)
    add_profiles(found, bundle)
    return found


def _mapping(path: Path, found: Material) -> Mapping[str, Any]:
    """Return what a file of a bundle says; one that cannot be read is a note."""
    try:
        return read_mapping(beginning(path, _CONFIG_BYTES), str(path)).data
    except SourceError as error:
        found.notes.append(f"{error}; it tells nothing here")
        return {}


def _accounts(found: Material, store: Store, record: RunRecord, backend: Backend | None) -> None:
    """Add what the scheduler says of a run's jobs; when it gives no answer, a note."""
    from moectl.actions.runs import backend_for, row  # noqa: PLC0415
    from moectl.launch.settle import settle  # noqa: PLC0415

    try:
        asked = backend or backend_for(record)
        survey = settle(store, asked, [record])
        jobs = row(survey, survey.records[0], asked).jobs
    except BackendError as error:
        found.notes.append(f"the scheduler gives no answer: {str(error).splitlines()[0]}")
        return
    if survey.unreachable:
        found.notes.append(f"the scheduler gives no answer: {survey.unreachable.splitlines()[0]}")
    for job in jobs:
        found.accounts.append(
            Allocation(job.job, job.raw, moment(job.start), moment(job.end), f"job {job.job}")
        )
