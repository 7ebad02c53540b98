"""The part of the Python API that is about runs, their logs, and files of others."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moectl.actions.diff import Difference
    from moectl.actions.importing import Imported
    from moectl.actions.reproduction import Verified
    from moectl.actions.runs import Table
    from moectl.actions.status import Details
    from moectl.actions.trace import Traced
    from moectl.launch.record import RunRecord
    from moectl.report.compare import Comparison
    from moectl.report.measure import Report
    from moectl.report.scaling import Scaling

Path_ = str | os.PathLike[str]


def runs() -> Table:
    """Return all runs and what they do; what could not be asked is said in the table."""
    from moectl.actions.status import statuses  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    return statuses(Store()).table


def status(run: str) -> Details:
    """Return how a run is: state, step, rates, loss, and why it failed.

    Args:
        run: its id, the beginning of one, its name (the newest), or a job's id.

    Raises:
        UsageError: there is no such run.
        BackendError: the scheduler cannot be asked.
    """
    from moectl.actions import status as action  # noqa: PLC0415
    from moectl.errors import BackendError  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    found, unreachable = action.status(Store(), run)
    if unreachable:
        raise BackendError(unreachable)
    return action.details(found)


def cancel(run: str) -> list[str]:
    """End a run's jobs and return their ids; none when it had ended already.

    Raises:
        UsageError: there is no such run.
        BackendError: the scheduler refuses or cannot be asked.
    """
    from moectl.actions.runs import cancel as ended  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    return ended(Store(), run)[1]


def resume(run: str, jobs: int | None = None) -> RunRecord:
    """Submit further jobs of a run's bundle, and return its record.

    Args:
        run: as for `status`.
        jobs: how many; None for as many as have not trained yet.

    Raises:
        MoectlError: there is no such run, it is live, or the scheduler refuses.
    """
    from moectl.actions.runs import resume as gone_on  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    return gone_on(Store(), run, jobs)


def report(
    *inputs: Path_,
    hardware: str = "",
    precision: str = "",
    gpus: int | None = None,
    maxtext: str = "",
) -> Report:
    """Return the figures of a run, each with the lines it is from.

    Args:
        inputs: a run; or files of one run, or folders of them.
        hardware: GPU platform, where no file says it; `gpus` likewise.
        precision: precision whose dense peak MFU divides by.
        gpus: GPUs in all.
        maxtext: MaxText release that wrote the logs.

    Raises:
        MoectlError: nothing can be read, or a value cannot be meant.
    """
    from moectl.actions.report import report as made  # noqa: PLC0415
    from moectl.report.context import Wish  # noqa: PLC0415

    return made(_words(inputs), Wish(hardware, precision, gpus), maxtext)


def compare(
    *inputs: Path_,
    threshold: float = 0.02,
    allow: Collection[str] = (),
    hardware: str = "",
    precision: str = "",
    maxtext: str = "",
) -> list[Comparison]:
    """Return every run compared with the first one.

    Args:
        inputs: runs, logs, metrics files, event files, or folders of them.
        threshold: share of time that may be lost, e.g. 0.02.
        allow: differences in spite of which to compare.
        hardware: GPU platform, where no file says it.
        precision: precision whose dense peak MFU divides by.
        maxtext: MaxText release that wrote the logs.

    Raises:
        MoectlError: they measure different things, or cannot be read.
    """
    from moectl.actions.report import compare as made  # noqa: PLC0415
    from moectl.report.context import Wish  # noqa: PLC0415

    return made(_words(inputs), threshold, allow, Wish(hardware, precision), maxtext)


def scaling(
    *inputs: Path_,
    allow: Collection[str] = (),
    hardware: str = "",
    precision: str = "",
    maxtext: str = "",
) -> Scaling:
    """Return how throughput grows with GPUs: efficiency, and a fit.

    Args:
        inputs: as for `compare`; "GPUS=PATH" says how many GPUs a log had.
        allow: as for `compare`, as are the others.
        hardware: GPU platform, where no file says it.
        precision: precision whose dense peak MFU divides by.
        maxtext: MaxText release that wrote the logs.

    Raises:
        MoectlError: they measure different things, or cannot be read.
    """
    from moectl.actions.report import scaling as made  # noqa: PLC0415
    from moectl.report.context import Wish  # noqa: PLC0415

    return made(_words(inputs), allow, Wish(hardware, precision), maxtext)


def trace(*paths: Path_) -> list[Traced]:
    """Return where the time of profiles went: by class of kernel, hidden or exposed.

    Raises:
        MoectlError: there is no profile, or it cannot be read.
    """
    from moectl.actions.trace import trace as traced  # noqa: PLC0415

    return traced(_words(paths))


def diff(left: Path_, right: Path_) -> Difference:
    """Return what differs between two jobs by what they mean.

    Args:
        left: a preset, run file, bundle, or a run by its id or name; so is `right`.
        right: what it is compared with.

    Raises:
        MoectlError: one of them cannot be read.
    """
    from moectl.actions.diff import diff as differing  # noqa: PLC0415

    return differing(os.fspath(left), os.fspath(right))


def verify(target: Path_) -> Verified:
    """Return whether a bundle or run can be reproduced today, and what drifted.

    Raises:
        MoectlError: it is no bundle and no run.
    """
    from moectl.actions.reproduction import verify as verified  # noqa: PLC0415

    return verified(os.fspath(target))


def import_(
    *paths: Path_,
    gpus: int | None = None,
    hardware: str | None = None,
    image: str | None = None,
) -> Imported:
    """Return the run file that says what old files of one run say, and its proof.

    Args:
        paths: script, config, manifest, flags.
        gpus: GPUs in all, where no file says it; `hardware` and `image` likewise.
        hardware: GPU platform.
        image: container image.

    Raises:
        MoectlError: a file cannot be read, or says nothing about training.
    """
    from moectl.actions.importing import import_files  # noqa: PLC0415
    from moectl.given import Given  # noqa: PLC0415

    return import_files(_words(paths), Given(gpus=gpus, hardware=hardware, image=image))


def _words(paths: Sequence[Path_]) -> list[str]:
    return [os.fspath(path) for path in paths]
