"""What the steps of a rehearsal say: does it learn, does it go on, do two paths agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.shrink.rules import FACTS


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that was judged.

    Attributes:
        name: what, in a word or two.
        good: whether it holds.
        why: what was seen, one clause.
    """

    name: str
    good: bool
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"name": self.name, "good": self.good, "why": self.why}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far losses may lie apart: `first` at step 0, `growth` more a step, in nats."""

    first: float
    growth: float

    def at(self, step: int) -> float:
        """Return what is allowed at a step."""
        return self.first + self.growth * step


def tolerance(*, dropless: bool) -> Tolerance:
    """Return the tolerance of two paths.

    Args:
        dropless: whether both are the same function, summed in another order.
    """
    row = read(FACTS)["parity" if dropless else "capacity"]
    return Tolerance(row["first"], row["growth"])


def trained(losses: Mapping[int, float], steps: int) -> list[Verdict]:
    """Return whether all steps were read from the log, their losses are finite, and fall.

    Args:
        losses: step to loss, as read from the log of rank 0.
        steps: how many there should be.
    """
    missing = [step for step in range(steps) if step not in losses]
    odd = [step for step, loss in losses.items() if not isfinite(loss)]
    said = f"{len(losses)} of {steps} steps read from the log"
    found = [Verdict("log lines parse", not missing and len(losses) == steps, said)]
    if not losses:
        return found
    why = f"loss is {losses[odd[0]]} at step {odd[0]}" if odd else "every loss is a number"
    found.append(Verdict("loss finite", not odd, why))
    first, last = losses[min(losses)], losses[max(losses)]
    wanted = read(FACTS)["judged"]["falls"]
    why = f"from {first:.3f} to {last:.3f} in {len(losses)} steps (at least {wanted} is wanted)"
    found.append(Verdict("loss falls", first - last >= wanted, why))
    return found


def resumed(before: Mapping[int, float], after: Mapping[int, float], at: int) -> Verdict:
    """Return whether a run went on from a checkpoint to the same losses.

    Args:
        before: step to loss of the first job.
        after: of the job that went on.
        at: the step of the checkpoint.
    """
    if not after:
        return Verdict("resumed", good=False, why="the job that went on trained no step")
    if min(after) <= at:
        why = f"it began at step {min(after)}, not after the checkpoint of step {at}"
        return Verdict("resumed", good=False, why=why)
    both = sorted(before.keys() & after.keys())
    apart, step = max(((_apart(before[s], after[s]), s) for s in both), default=(inf, at))
    wanted = read(FACTS)["judged"]["resumed"]
    why = (
        f"steps {min(after)} to {max(after)} once more after the checkpoint of step {at}, losses "
        f"at most {apart:.3f} apart (step {step}; {wanted} is allowed)"
    )
    return Verdict("resumed", max(after) == max(before) and apart <= wanted, why)


def parity(
    one: Mapping[int, float], other: Mapping[int, float], steps: int, allowed: Tolerance
) -> Verdict:
    """Return whether two runs have the same losses, step by step.

    Args:
        one: step to loss of the first path.
        other: of the second.
        steps: how many each should have.
        allowed: how far they may lie apart.
    """
    both = [step for step in range(steps) if step in one and step in other]
    if len(both) < steps:
        why = f"only {len(both)} of {steps} steps can be compared"
        return Verdict("parity", good=False, why=why)
    over = [s for s in both if _apart(one[s], other[s]) > allowed.at(s)]
    worst = max(both, key=lambda s: _apart(one[s], other[s]))
    apart = f"{_apart(one[worst], other[worst]):.4f} apart at step {worst}"
    if over:
        first = over[0]
        why = (
            f"from step {first} on the losses are {one[first]:.3f} and {other[first]:.3f}, where "
            f"{allowed.at(first):.4f} is allowed; at worst {apart}"
        )
        return Verdict("parity", good=False, why=why)
    return Verdict("parity", good=True, why=f"at most {apart} ({allowed.at(worst):.4f} is allowed)")


def _apart(one: float, other: float) -> float:
    """Return how far two losses lie apart; without end when one is no number."""
    return abs(one - other) if isfinite(one) and isfinite(other) else inf


_BARS = "▁▂▃▄▅▆▇█"


def curve(losses: Sequence[float]) -> str:
    """Return losses as one line of bars, the highest for the largest; blanks for no number."""
    numbers = [loss for loss in losses if isfinite(loss)]
    if not numbers:
        return " " * len(losses)
    low, span = min(numbers), max(numbers) - min(numbers)
    top = len(_BARS) - 1
    return "".join(
        _BARS[round((loss - low) / span * top) if span else 0] if isfinite(loss) else " "
        for loss in losses
    )
