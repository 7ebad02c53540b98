"""Compares runs: whether one is slower than another beyond chance, and whether that may be asked.

Two runs are compared by the time that a token takes on a GPU, so that another batch is no
difference; where no line says it, by the step time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from moectl.errors import UsageError
from moectl.facts.yaml_facts import read
from moectl.report.figure import plain, shown
from moectl.report.measure import Report
from moectl.report.statistics import Interval, finite, median, ratio

Verdict: TypeAlias = Literal["slower", "faster", "no difference"]
# Fewer steady steps say nothing with any confidence.
LEAST_STEPS = 8
# How far FLOPs a token may differ by the rounding of the lines.
_SAME_FLOPS = 0.005
_LEAST_TFLOPS = 1.0
KINDS = ("flops", "denominator", "sequence", "routing")
_BESIDE = (
    ("tokens_per_s_per_gpu", 1), ("tflops_per_gpu", 1), ("mfu", 4), ("loss.last", 4),
    ("moe.recv_share", 3), ("memory.used_gib", 2), ("goodput", 4), ("time_to_first_step_s", 1),
)  # fmt: skip


class IncomparableError(UsageError):
    """Runs whose figures measure different things.

    Args:
        reasons: kind and sentence of each.
    """

    def __init__(self, reasons: Sequence[tuple[str, str]]) -> None:
        self.reasons = tuple(reasons)
        kinds = " ".join(f"--allow {kind}" for kind in dict.fromkeys(kind for kind, _ in reasons))
        lines = [f"  {kind}: {sentence}" for kind, sentence in reasons]
        super().__init__(
            "\n".join(["these runs cannot be compared:", *lines, f"{kinds} compares them anyway"])
        )


class TooFewStepsError(UsageError):
    """A run with too few steady steps for a statement of any confidence.

    Args:
        name: the run.
        count: its steady steps.
    """

    def __init__(self, name: str, count: int) -> None:
        super().__init__(
            f"{name} has {count} steady steps; at least {LEAST_STEPS} say something about its speed"
        )


@dataclass(frozen=True, slots=True)
class Beside:
    """A figure of both runs, without a verdict."""

    name: str
    title: str
    before: float | None
    after: float | None
    digits: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One run beside the first one.

    Attributes:
        before: name of the first run.
        after: name of the other.
        measure: what is compared: "time a token" or "step time".
        change: relative change of its median with a 95 % interval; above 0 is slower.
        steps: steady steps of both.
        threshold: relative change that is still accepted.
        verdict: slower or faster when the whole interval says so.
        regression: whether it is slower by more than the threshold, with all of the interval.
        beside: further figures of both.
        allowed: differences that were allowed, a sentence each.
    """

    before: str
    after: str
    measure: str
    change: Interval
    steps: tuple[int, int]
    threshold: float
    verdict: Verdict
    regression: bool
    beside: tuple[Beside, ...]
    allowed: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return the result with its confidence."""
        change = self.change
        word = "more" if change.value >= 0 else "less"
        low, high = sorted((abs(change.low), abs(change.high)))
        span = f"{change.low:+.2%} to {change.high:+.2%}"
        if change.low > 0 or change.high < 0:
            span = f"{low:.2%} to {high:.2%} {word}"
        result = {
            "slower": "slower",
            "faster": "faster",
            "no difference": "no difference that 95 % confidence sees",
        }[self.verdict]
        if self.regression:
            result = f"a regression beyond {self.threshold:.1%}"
        elif self.verdict == "slower":
            result = f"slower, not surely by more than {self.threshold:.1%}"
        return (
            f"{self.after} takes {abs(change.value):.2%} {word} {self.measure} than {self.before} "
            f"(95 % interval {span}; {self.steps[1]} and {self.steps[0]} steady steps): {result}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "before": self.before,
            "after": self.after,
            "measure": self.measure,
            "change": self.change.value,
            "interval": [self.change.low, self.change.high],
            "confidence": 0.95,
            "steps": {"before": self.steps[0], "after": self.steps[1]},
            "threshold": self.threshold,
            "verdict": self.verdict,
            "regression": self.regression,
            "sentence": self.sentence,
            "figures": [
                {"name": b.name, "before": plain(b.before), "after": plain(b.after)}
                for b in self.beside
            ],
            "allowed": list(self.allowed),
        }


def compare(
    first: Report, other: Report, threshold: float, allow: Collection[str] = ()
) -> Comparison:
    """Compare a run with a first one.

    Args:
        first: the run that is the measure.
        other: the run that is judged.
        threshold: relative change of time that is accepted, e.g. 0.02.
        allow: kinds of difference that are no obstacle.

    Raises:
        IncomparableError: their figures measure different things.
        TooFewStepsError: one has too few steady steps.
    """
    apart = list(differences(first, other))
    refused = [(kind, sentence) for kind, sentence in apart if kind not in allow]
    if refused:
        raise IncomparableError(refused)
    per_token = bool(_token_times(first)) and bool(_token_times(other))
    samples = [_token_times(each) if per_token else _step_times(each) for each in (first, other)]
    for report, sample in zip((first, other), samples, strict=True):
        if len(sample) < LEAST_STEPS:
            raise TooFewStepsError(report.name, len(sample))
    found = ratio(*samples)
    change = Interval(found.value - 1, found.low - 1, found.high - 1)
    verdict: Verdict = "no difference"
    if change.low > 0 or change.high < 0:
        verdict = "slower" if change.value > 0 else "faster"
    return Comparison(
        first.name,
        other.name,
        "time a token" if per_token else "time a step",
        change,
        (len(samples[0]), len(samples[1])),
        threshold,
        verdict,
        change.low > threshold,
        tuple(_beside(first, other)),
        tuple(sentence for _, sentence in apart),
    )


def _token_times(report: Report) -> list[float]:
    """Return seconds a token and GPU of the steady steps that say their rate."""
    rates = finite([v for _, v in report.series.said("tokens_per_s", report.steady.rows)])
    return [1 / rate for rate in rates if rate > 0]


def _step_times(report: Report) -> list[float]:
    return finite([v for _, v in report.series.said("seconds", report.steady.rows)])


def _beside(first: Report, other: Report) -> Iterator[Beside]:
    for name, digits in _BESIDE:
        one, two = first.figures.get(name), other.figures.get(name)
        known = one or two
        if known is not None and not (first.value(name) is None and other.value(name) is None):
            yield Beside(name, known.title, first.value(name), other.value(name), digits)


def differences(first: Report, other: Report) -> Iterator[tuple[str, str]]:
    """Yield kind and sentence of what makes figures of two runs measure different things.

    What only one of them tells is no difference.
    """
    names = f"{first.name} and {other.name}"
    longer = False
    for kind, row in read("report.yaml")["compared"].items():
        for key in row["keys"]:
            values = [report.context.config.get(key) for report in (first, other)]
            if None not in values and values[0] != values[1]:
                longer |= kind == "sequence"
                yield (
                    kind,
                    f"{key} is {values[0]} in {first.name} and {values[1]} in {other.name}; "
                    f"{row['reason']}",
                )
    flops = [flops_a_token(first), flops_a_token(other)]
    if not longer and flops[0] and flops[1] and abs(flops[1] / flops[0] - 1) > _SAME_FLOPS:
        yield (
            "flops",
            f"a token counts {flops[0]:.4g} TFLOP in {first.name} and {flops[1]:.4g} in "
            f"{other.name}: another model, or another formula",
        )
    one, two = first.context, other.context
    if one.peak and two.peak and (one.peak, one.precision) != (two.peak, two.precision):
        yield (
            "denominator",
            f"MFU divides by {shown(one.peak, 0)} TFLOP/s ({one.precision}) and by "
            f"{shown(two.peak, 0)} ({two.precision}) in {names}",
        )


def flops_a_token(report: Report) -> float | None:
    """Return the model TFLOP a token that a run's figures count; None where they are too small."""
    series, rows = report.series, report.steady.rows
    whole = dict(series.said("step_tflop", rows))
    tokens = dict(series.said("step_tokens", rows))
    found = [whole[row] / tokens[row] for row in whole if tokens.get(row, 0) > 0]
    if not found:
        rates = dict(series.said("tokens_per_s", rows))
        said = series.said("tflops", rows)
        found = [v / rates[row] for row, v in said if v >= _LEAST_TFLOPS and rates.get(row, 0) > 0]
    held = finite(found)
    return median(held) if held else None
