"""Whether the time limit is enough for the steps of a run."""

from __future__ import annotations

from moectl.actions.chain import training_seconds
from moectl.actions.launch import Planned
from moectl.actions.step_seconds import StepSeconds
from moectl.render import limits


def fits(planned: Planned, seconds: StepSeconds | None) -> str:
    """Return in a sentence whether steps times step time fit the time limit.

    Args:
        planned: the launch.
        seconds: how long a step takes, None where nobody knows.
    """
    job = planned.job
    steps = limits.steps(job)
    trains = training_seconds(job)
    jobs = f"{planned.links} jobs of {job.cluster.time}" if planned.links > 1 else job.cluster.time
    if trains is None:
        return "there is no time limit"
    if not steps:
        return f"how many steps the run takes is not known, so neither is whether {jobs} is enough"
    if seconds is None:
        return (
            f"how long a step takes is not known, so neither is whether {jobs} "
            f"{'are' if planned.links > 1 else 'is'} enough for {steps} steps: no earlier run "
            "has the same settings, and there is no estimate"
        )
    given = trains * planned.links
    told = f"{steps} steps x {seconds} = {_length(steps * seconds.low, steps * seconds.high)}"
    told += f" ({seconds.source}); {jobs} leave{'' if planned.links > 1 else 's'} "
    told += f"{_length(given, given)} to train"
    if steps * seconds.high <= given:
        return f"{told}: enough"
    at = int(given / seconds.high)
    if steps * seconds.low <= given:
        return f"{told}: enough unless steps take the longest; it may end at about step {at}"
    more = "" if planned.links > 1 else ", or --chain"
    return f"{told}: not enough, it ends at about step {at}; raise cluster.time{more}"


def _length(low: float, high: float) -> str:
    """Return a range of seconds in hours, or in minutes where it is short."""
    unit, letter = (3600, "h") if high >= 3 * 3600 else (60, "min")
    first, last = f"{low / unit:.3g}", f"{high / unit:.3g}"
    return f"{first} {letter}" if first == last else f"{first} to {last} {letter}"
