"""Fits the step model to a measured run, and keeps that for runs of the same kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl.actions.calibrations import FORMAT, file_of
from moectl.actions.estimate import request_of
from moectl.actions.plan import Wishes, plan
from moectl.actions.report import report
from moectl.actions.trace import trace
from moectl.errors import UnknownNameError, UsageError
from moectl.estimate.assessment import assess, prepare
from moectl.estimate.calibration import fitted
from moectl.facts import maxtext
from moectl.launch.store import Store
from moectl.launch.whole_file import write

_STEP_TIME = "step_time_s.median"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What a fit came to.

    Attributes:
        hardware: platform it holds for.
        image: image it holds for.
        measured: s of a step.
        predicted: s of a step before.
        efficiencies: by the names of step_model.yaml.
        traced: whether a profile told some of them by themselves.
        file: where it is kept.
    """

    hardware: str
    image: str
    measured: float
    predicted: float
    efficiencies: Mapping[str, float]
    traced: bool
    file: str

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "hardware": self.hardware,
            "image": self.image,
            "measured_step_time_s": self.measured,
            "predicted_step_time_s": self.predicted,
            "efficiencies": dict(self.efficiencies),
            "traced": self.traced,
            "file": self.file,
        }


def calibrate(run: str, profiles: Sequence[str] = (), store: Store | None = None) -> Calibrated:
    """Fit the step model to a run that was measured.

    Args:
        run: a run by its id or name, or the folder of a bundle with its logs.
        profiles: profiles of the run, of which one device tells the parts of a step.
        store: where records lie.

    Raises:
        UsageError: it has no steady steps, or no efficiency would explain them.
        MoectlError: run or profile cannot be read.
    """
    store = store or Store()
    bundle = _bundle(run, store)
    job = plan(str(bundle), Wishes())
    measured = report([run], store=store).value(_STEP_TIME)
    if measured is None:
        raise UsageError(f"{run} has no steady steps to be measured by; `moectl report {run}`")
    classes = _classes(profiles)
    prepared = prepare(job.effective, maxtext.load(job.container.image.maxtext).release)
    request = request_of(job)
    before = assess(prepared, job.effective, request).time
    found = fitted(prepared, job.effective, request, measured, classes)
    if found is None or before is None:
        raise UsageError(
            f"no efficiency explains {measured:.3f} s a step of {job.name} on "
            f"{job.hardware.name}: predicted are "
            + (f"{before.seconds():.3f} s" if before else "none, as its peaks are not known")
        )
    path = file_of(store, job)
    done = Calibrated(
        job.hardware.name,
        job.container.image.reference,
        measured,
        before.seconds(),
        found,
        bool(classes),
        str(path),
    )
    write(path, json.dumps({"format": FORMAT, **done.as_dict()}, indent=1) + "\n")
    return done


def _bundle(run: str, store: Store) -> Path:
    if Path(run).is_dir():
        return Path(run)
    try:
        return Path(store.find(run).bundle)
    except UnknownNameError as error:
        raise UsageError(f"{error}; calibrate wants a run, or a bundle with its logs") from None


def _classes(profiles: Sequence[str]) -> dict[str, float]:
    """Return the seconds of a step by class, of the first device whose steps are known."""
    for one in trace(profiles) if profiles else ():
        for device in one.devices:
            if device.steps:
                return {held.id: held.busy / device.steps for held in device.classes}
    if profiles:
        raise UsageError("no profile tells the steps of a device, so nothing can be told a step")
    return {}
