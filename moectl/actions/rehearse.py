"""Rehearses a run on this machine: the same run made small, trained, resumed and judged."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moectl import environments
from moectl.actions import launch as launching
from moectl.actions.plan import Wishes, plan
from moectl.actions.render import Rendered, render
from moectl.actions.status import details, status
from moectl.errors import LocalFilesError
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.launch import submit
from moectl.launch.local import Local, gpus
from moectl.launch.record import RunRecord
from moectl.launch.store import Store
from moectl.logs.folders import rank_log
from moectl.logs.maxtext import StepLine, read_log
from moectl.settings.setting import Setting
from moectl.shrink import fit
from moectl.shrink.cpu import stand_ins
from moectl.shrink.judge import Verdict, resumed, trained
from moectl.shrink.rules import FACTS, Small

LOOK = 0.5
LEAST_STEPS = 4
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Staged:
    """A rehearsal that nothing speaks against.

    Attributes:
        original: the job as it was asked for.
        small: what becomes of its sizes and its mesh.
        rendered: the job that trains, and its bundle.
        stands_in: what this machine cannot run and what does in its place, a clause each.
        steps: steps to train.
        period: steps between checkpoints.
    """

    original: Job
    small: Small
    rendered: Rendered
    stands_in: tuple[str, ...]
    steps: int
    period: int

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        job = self.rendered.job
        return {
            "name": job.name,
            "of": {"name": self.original.name, "gpus": self.original.gpus},
            "devices": "cpu" if job.on_cpu else "gpu",
            "count": job.gpus,
            "processes": job.processes,
            "sizes": dict(self.small.sizes),
            "mesh": {axis: size for axis, size in self.small.degrees.items() if size > 1},
            "kept": list(self.small.kept),
            "stands_in": list(self.stands_in),
            "steps": self.steps,
        }


@dataclass(frozen=True, slots=True)
class Trained:
    """A job that ended.

    Attributes:
        record: its run.
        state: how it ended.
        losses: step to loss, by the log of rank 0.
        log: that log.
        fault: why it failed; empty when it did not.
    """

    record: RunRecord
    state: str
    losses: dict[int, float]
    log: Path
    fault: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form; a loss that is no number is told as text."""
        told = {
            str(s): loss if abs(loss) < float("inf") else str(loss)
            for s, loss in self.losses.items()
        }
        return {
            "run": self.record.id,
            "job": self.record.job_ids[-1],
            "state": self.state,
            "losses": told,
            "log": str(self.log),
            "fault": self.fault,
        }


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a rehearsal found: what was judged, in order, and the jobs, oldest first."""

    staged: Staged
    verdicts: tuple[Verdict, ...]
    jobs: tuple[Trained, ...]
    seconds: float

    @property
    def good(self) -> bool:
        """Whether everything holds."""
        return all(each.good for each in self.verdicts)


def stage(
    target: str, wishes: Wishes, steps: int | None = None, more: Sequence[Setting] = ()
) -> Staged:
    """Return the rehearsal of a preset, run file or bundle; nothing is written.

    Args:
        target: what is rehearsed.
        wishes: what was asked for beside it.
        steps: steps to train; the table's without.
        more: settings of this rehearsal only, stronger than all others.

    Raises:
        FindingsError: error findings remain that nobody allowed.
        CannotShrinkError: the rules do not make it small.
        MoectlError: what was typed cannot be meant.
    """
    count = max(LEAST_STEPS, steps or read(FACTS)["steps"])
    period = count // 2
    options = {path: said for path, said in wishes.options.items() if path != "launcher"}
    asked = replace(wishes, options=options)
    original = plan(target, replace(asked, options={**options, **_ELSEWHERE}))
    small = fit.small_of(original)
    cache = str(environments.home().parent / "compiled")
    said = [*fit.settings(original, small, count, period, cache), *more]
    devices = "gpu" if gpus() >= small.devices else "cpu"
    if "cluster.devices" not in original.settings:
        said += fit.as_settings({"cluster.devices": devices})
    # The launcher is said as an option too, since it decides how the rest is read.
    local = {**options, "launcher": ("local", "moectl rehearse")}
    rendered = render(target, replace(asked, options=local, fitted=tuple(said)))
    fit.require_small(rendered.job)
    lost = stand_ins(original) if rendered.job.on_cpu else []
    return Staged(original, small, rendered, tuple(map(str, lost)), count, period)


# The original is read as its cluster would run it, whatever the run says of this machine.
_ELSEWHERE: dict[str, tuple[Any, str]] = {"launcher": ("slurm", "moectl rehearse")}


def rehearse(staged: Staged, store: Store, tell: Tell) -> Rehearsal:
    """Train, take the last checkpoint away, go on from the one before, and judge.

    Args:
        staged: the rehearsal.
        store: where its run is written down.
        tell: called with a sentence whenever there is something new.

    Raises:
        MoectlError: it cannot be started.
    """
    begun = time.monotonic()
    first = train(staged, store, tell)
    verdicts = [started(first)]
    jobs = [first]
    if first.losses or not first.fault:
        verdicts += trained(first.losses, staged.steps)
    if not first.fault:
        written = checkpoints(first, staged)
        good = staged.period in written
        why = f"of step{'s' if len(written) != 1 else ''} {', '.join(map(str, written)) or 'none'}"
        verdicts.append(Verdict("checkpoint written", good, why))
        if good:
            second = go_on(first, staged, store, tell)
            jobs.append(second)
            verdicts.append(
                Verdict("resumed", good=False, why=second.fault)
                if second.fault
                else resumed(first.losses, second.losses, staged.period)
            )
    return Rehearsal(staged, tuple(verdicts), tuple(jobs), time.monotonic() - begun)


def started(job: Trained) -> Verdict:
    """Return whether a job started and ended by itself."""
    why = job.fault or f"job {job.record.job_ids[-1]} ended with exit code 0"
    return Verdict("starts", not job.fault, why)


def train(staged: Staged, store: Store, tell: Tell) -> Trained:
    """Launch a rehearsal on this machine and follow it to its end.

    Raises:
        MoectlError: it cannot be started.
    """
    target = staged.original.preset or staged.original.name
    planned = launching.Planned(target, staged.rendered, None, staged.rendered.files["launch.json"])
    launching.prepare(planned, tell)
    backend = Local(store.root)
    record = submit.launch(
        store, backend, launching.intent(planned), launching.writer(planned), again=True
    )
    tell(f"{record.id} trains {staged.steps} steps on {staged.rendered.job.gpus} devices")
    return _followed(record, store, backend, tell)


def go_on(first: Trained, staged: Staged, store: Store, tell: Tell) -> Trained:
    """Take away the checkpoints after the middle one, and go on from there.

    Raises:
        MoectlError: it cannot be started, or the file system refuses.
    """
    folder = _folder(first, staged)
    try:
        for step in checkpoints(first, staged):
            if step > staged.period:
                shutil.rmtree(folder / str(step))
    except OSError as error:
        raise LocalFilesError(f"{error.filename}: {error.strerror or error}") from None
    backend = Local(store.root)
    record = submit.resume(store, backend, first.record.id)
    tell(f"{record.id} goes on from the checkpoint of step {staged.period}")
    return _followed(record, store, backend, tell)


def checkpoints(job: Trained, staged: Staged) -> list[int]:
    """Return the steps of the checkpoints that a run wrote."""
    try:
        names = [entry.name for entry in _folder(job, staged).iterdir() if entry.is_dir()]
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def _folder(job: Trained, staged: Staged) -> Path:
    """Return where MaxText puts checkpoints: OUTPUT/RUN/checkpoints."""
    name = staged.rendered.job.name
    return Path(job.record.bundle) / "output" / name / "checkpoints"


def _followed(record: RunRecord, store: Store, backend: Local, tell: Tell) -> Trained:
    """Wait for the end of a run's last job; a person who interrupts ends it."""
    job = record.job_ids[-1]
    log = rank_log(Path(record.bundle) / "logs" / job, 0)
    seen = -1
    try:
        while (now := backend.states([job])[job]).live:
            time.sleep(LOOK)
            losses = _losses(log)
            for step in sorted(losses):
                if step > seen:
                    tell(f"step {step}: loss {losses[step]:.3f}")
                    seen = step
    except BaseException:
        backend.cancel([job], record.id)
        raise
    fault = ""
    if now.phase != "completed":
        found = details(status(store, record.id, backend)[0]).verdict
        cause = found.cause if found else now.reason or f"job {job} is {now.phase}"
        said = f": {found.text}" if found and found.text else ""
        fault = f"{cause}{said[:300]} (see {log})"
    return Trained(record, now.phase, _losses(log), log, fault)


def _losses(log: Path) -> dict[int, float]:
    try:
        lines = [line for line in read_log(log) if isinstance(line, StepLine)]
    except OSError:
        return {}
    return {line.step: line.loss for line in lines if line.loss is not None}
