"""Plans a run of several jobs: how many, what they save, and whether they get to the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, floor
from pathlib import Path
from typing import Any

from moectl.actions.checkpoint_space import Space, require_space, space
from moectl.actions.launch import Planned, bundles, plan_launch
from moectl.actions.plan import Wishes
from moectl.actions.step_seconds import StepSeconds, predicted_step_seconds
from moectl.errors import UsageError, ValueUsageError
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.launch.store import BUNDLE, Store
from moectl.render import limits
from moectl.settings.flatten import place

_LEAST_LINKS = 2


@dataclass(frozen=True, slots=True)
class ChainWish:
    """What was asked for.

    Attributes:
        links: how many jobs; None when the steps say it.
        until: the step at which the run ends; None for its own number of steps.
    """

    links: int | None = None
    until: int | None = None

    @property
    def flag(self) -> str:
        """Return the option that asked for it."""
        return "--chain" if self.links is not None else "--until-step"


def wish_of(chain: str | None, until_step: str | None) -> ChainWish | None:
    """Return what two options ask for, None when they are left out.

    Raises:
        ValueUsageError: one of them is no number that can be meant.
    """
    if chain is None and until_step is None:
        return None
    most = read("launch.yaml")["chain"]["most_jobs"]
    return ChainWish(
        links_of("--chain", chain, _LEAST_LINKS, most),
        links_of("--until-step", until_step, 1, 10**9),
    )


def links_of(flag: str, text: str | None, least: int, most: int) -> int | None:
    """Return a number that an option says.

    Raises:
        ValueUsageError: it is none in the range.
    """
    if text is None:
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else -1
    if not least <= number <= most:
        raise ValueUsageError(flag, text, f"a whole number from {least} to {most}")
    return number


def plan_chain(target: str, wishes: Wishes, wish: ChainWish, store: Store) -> Planned:
    """Return the launch of a run of several jobs; nothing is written.

    What nobody but a preset or a default says is set for it: that MaxText saves on a signal,
    how many checkpoints are kept, and, where the time of a step is known, how often one is saved.

    Raises:
        FindingsError: error findings remain that nobody allowed.
        UsageError: the job cannot go on from where another one ended, its checkpoints have no
            room, or nothing tells how many jobs it takes.
        MoectlError: what was typed cannot be meant.
    """
    planned = plan_launch(target, wishes)
    if wish.until is not None:
        planned, wishes = _until(planned, target, wishes, wish.until)
    _require_fit(planned, wish.flag)
    seconds = predicted_step_seconds(planned.job, store)
    if planned.bundle is None:
        derived = _derived(planned.job, seconds, wish.flag)
        wishes = replace(wishes, fallbacks={**wishes.fallbacks, **derived})
        planned = plan_launch(target, wishes)
        _require_fit(planned, wish.flag)
    _require_saving(planned, wish.flag)
    links = wish.links or _links(planned.job, seconds)
    room = space(planned.job, planned.bundle or _place(planned.job, store))
    require_space(room)
    notes = tuple(_notes(planned.job, seconds, room, links))
    return replace(planned, links=links, notes=(*planned.notes, *notes))


def _place(job: Job, store: Store) -> Path:
    """Return where a bundle will lie, as far as its disk goes."""
    return (bundles(job) or store.root) / BUNDLE


def _until(planned: Planned, target: str, wishes: Wishes, until: int) -> tuple[Planned, Wishes]:
    """Return the launch with another number of steps, on the schedule of the old one.

    Raises:
        UsageError: a bundle has another number.
    """
    steps = limits.steps(planned.job)
    if until == steps:
        return planned, wishes
    if planned.bundle is not None:
        raise UsageError(
            f"{target} is a bundle of {steps} steps and is launched as it stands, so --until-step "
            f"{until} cannot change it; render it anew with --set training.steps={until}"
        )
    said: dict[str, tuple[Any, str]] = {"training.steps": (until, "--until-step")}
    if until < steps and planned.job.effective.get("learning_rate_schedule_steps") == -1:
        said["optimizer.schedule_steps"] = (steps, "--until-step")
    wishes = replace(wishes, options={**wishes.options, **said})
    planned = plan_launch(target, wishes)
    if (held := limits.steps(planned.job)) != until:
        job = planned.job
        value = job.arguments.get("steps") or job.config.get("steps")
        by = place(value.origin) if value is not None else "another setting"
        raise UsageError(
            f"--until-step {until} ends the run at another step than {by}, which says {held}: "
            "leave one of the two out"
        )
    return planned, wishes


def _require_fit(planned: Planned, flag: str) -> None:
    """Refuse a job that cannot go on where another one of its run ended.

    Raises:
        UsageError: with everything that is to be set.
    """
    job = planned.job
    set_it = [
        text
        for wrong, text in (
            (job.launcher != "slurm", "launcher: slurm"),
            (job.form != "pretrain", "form: pretrain (--form pretrain)"),
            (not limits.long_run(job), "checkpoints.enabled: true"),
        )
        if wrong
    ]
    if set_it:
        raise UsageError(
            f"{flag} makes a run of several jobs, each of which goes on from the checkpoint of "
            f"the one before; this one cannot: set {' and '.join(set_it)}"
        )


def _require_saving(planned: Planned, flag: str) -> None:
    """Refuse a job that would not save when its time limit comes.

    Raises:
        UsageError: with what is to be set.
    """
    if planned.job.effective.get("enable_autocheckpoint") is not True:
        raise UsageError(
            f"{flag} needs a job that saves before its time limit comes, which MaxText does with "
            "checkpoints.on_preemption: true only; set it"
            + (", and render the bundle anew" if planned.bundle else "")
        )


def _derived(job: Job, seconds: StepSeconds | None, flag: str) -> dict[str, tuple[Any, str]]:
    """Return the settings of a chain that a person may have said otherwise."""
    facts = read("launch.yaml")["chain"]
    found: dict[str, tuple[Any, str]] = {"checkpoints.on_preemption": (True, flag)}
    if job.effective.get("max_num_checkpoints_to_keep") is None:
        found["checkpoints.keep"] = (facts["keep"], flag)
    limit = limits.seconds(job.cluster.time)
    if seconds is not None and limit:
        between = min(max(limit * facts["share"], facts["least"]), facts["most"])
        period = min(max(1, floor(between / seconds.high)), limits.steps(job))
        found["checkpoints.period"] = (period, f"{flag} and the time limit")
    return found


def training_seconds(job: Job) -> int | None:
    """Return the seconds of a job in which it trains; None without a time limit."""
    limit = limits.seconds(job.cluster.time)
    if not limit:
        return None
    early = limits.signal(job).rpartition("@")[2]
    start = int(read("launch.yaml")["chain"]["start"])
    return max(0, limit - start - int(early or 0))


def _links(job: Job, seconds: StepSeconds | None) -> int:
    """Return how many jobs it takes to the last step.

    Raises:
        UsageError: nothing tells.
    """
    most = read("launch.yaml")["chain"]["most_jobs"]
    trains = training_seconds(job)
    if seconds is None:
        raise UsageError(
            "how long a step takes is not known, so neither is how many jobs it takes to step "
            f"{limits.steps(job)}: say it with --chain N beside --until-step; those that are not "
            "needed end at once"
        )
    if trains is None:
        raise UsageError("the jobs have no time limit, so one is enough; leave --until-step out")
    if not trains:
        raise UsageError(
            f"a time limit of {job.cluster.time} leaves no time to train beside the start and the "
            "last checkpoint: raise cluster.time"
        )
    links = max(_LEAST_LINKS, ceil(limits.steps(job) * seconds.high / trains))
    if links > most:
        raise UsageError(
            f"it takes {links} jobs of {job.cluster.time}, and a run has at most {most}: raise "
            "cluster.time"
        )
    return links


def _notes(job: Job, seconds: StepSeconds | None, room: Space, links: int) -> Iterator[str]:
    yield (
        f"{links} jobs of up to {job.cluster.time}, each after the one before; those behind step "
        f"{limits.steps(job)} end at once"
    )
    period = job.effective.get("checkpoint_period")
    every = f", about {period * seconds.high / 60:.3g} min" if seconds and period else ""
    yield f"a checkpoint every {period} steps{every}; {room}"
    if not limits.signal(job):
        yield (
            f"nothing tells the processes that the limit of {job.cluster.time} comes, so what "
            "was trained since the last checkpoint is trained again: a longer cluster.time, or "
            "cluster.signal_seconds"
        )
