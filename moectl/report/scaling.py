"""How throughput grows with GPUs: efficiency against the smallest run, and a fitted power."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from moectl.errors import UsageError
from moectl.report.compare import IncomparableError, differences
from moectl.report.figure import plain, shown
from moectl.report.measure import Report
from moectl.report.plots import Curve, Plot, Point
from moectl.report.statistics import Line, line

_SAME_BATCH = 0.01


class UnscaledError(UsageError):
    """Runs of which no scaling can be told.

    Args:
        faults: a clause each.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("no scaling can be told: " + "; ".join(faults))


@dataclass(frozen=True, slots=True)
class Rung:
    """One run of a ladder.

    Attributes:
        name: the run.
        gpus: its GPUs.
        per_gpu: tokens/s a GPU, median of steady steps.
        total: tokens/s.
        tflops: TFLOP/s a GPU as logged, or None.
        efficiency: tokens/s a GPU over those of the smallest run.
        ideal: tokens/s if every GPU were as fast as in the smallest run.
        step_tokens: tokens a step over all GPUs, None where nothing tells.
    """

    name: str
    gpus: int
    per_gpu: float
    total: float
    tflops: float | None
    efficiency: float
    ideal: float
    step_tokens: float | None


@dataclass(frozen=True, slots=True)
class Scaling:
    """A ladder of runs, the smallest first.

    Attributes:
        rungs: the runs.
        power: p of throughput = c * GPUs^p; 1 is ideal. None with one number of GPUs.
        deviation: standard error of p; None with two numbers of GPUs.
        explained: share of the variance of log throughput that the power explains.
        factor: c, tokens/s of one GPU by the fit.
        kind: "weak" when the batch grows with the GPUs, "strong" when it stays, else "mixed".
        allowed: differences that were allowed.
    """

    rungs: tuple[Rung, ...]
    power: float | None
    deviation: float | None
    explained: float | None
    factor: float | None
    kind: str
    allowed: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "runs": [
                {
                    "name": rung.name,
                    "gpus": rung.gpus,
                    "tokens_per_s_per_gpu": rung.per_gpu,
                    "tokens_per_s": rung.total,
                    "tflops_per_gpu": plain(rung.tflops),
                    "efficiency": rung.efficiency,
                    "ideal_tokens_per_s": rung.ideal,
                }
                for rung in self.rungs
            ],
            "fit": {
                "formula": "tokens/s = factor * GPUs ** power, least squares in logarithms",
                "power": self.power,
                "deviation": self.deviation,
                "factor": self.factor,
                "explained": self.explained,
            },
            "kind": self.kind,
            "allowed": list(self.allowed),
        }

    @property
    def sentence(self) -> str:
        """Return the fit in words."""
        if self.power is None:
            return "one number of GPUs says nothing about scaling"
        error = f" ± {self.deviation:.4f}" if self.deviation is not None else ""
        last = self.rungs[-1]
        return (
            f"throughput grows with GPUs to the power of {self.power:.4f}{error} ({self.kind} "
            f"scaling; 1 is ideal); {last.gpus:,} GPUs reach {last.efficiency:.1%} of "
            f"{self.rungs[0].gpus:,}"
        )


def scaling(reports: Sequence[Report], allow: Collection[str] = ()) -> Scaling:
    """Return how runs scale.

    Args:
        reports: at least two runs.
        allow: kinds of difference that are no obstacle.

    Raises:
        UnscaledError: a run lacks GPUs or throughput, or all have the same number of GPUs.
        IncomparableError: their figures measure different things.
    """
    faults = [
        f"nothing says how many GPUs {report.name} had; write it as GPUS=PATH"
        for report in reports
        if not report.context.gpus
    ]
    faults += [
        f"{report.name} has no steady step that says its throughput"
        for report in reports
        if not (report.value("tokens_per_s_per_gpu") or 0) > 0
    ]
    if not faults and len({report.context.gpus for report in reports}) < 2:
        faults.append("all runs have the same number of GPUs")
    if faults:
        raise UnscaledError(faults)
    held = sorted(reports, key=lambda report: report.context.gpus or 0)
    apart = list(dict.fromkeys(each for other in held[1:] for each in differences(held[0], other)))
    refused = [(kind, sentence) for kind, sentence in apart if kind not in allow]
    if refused:
        raise IncomparableError(refused)
    base = held[0].value("tokens_per_s_per_gpu") or 1.0
    rungs = tuple(_rung(report, base) for report in held)
    fit = line([log(rung.gpus) for rung in rungs], [log(rung.total) for rung in rungs])
    return _fitted(rungs, fit, tuple(sentence for _, sentence in apart))


def _rung(report: Report, base: float) -> Rung:
    gpus = report.context.gpus or 1
    rate = report.value("tokens_per_s_per_gpu") or 0.0
    seconds = report.value("step_time_s.median")
    return Rung(
        report.name,
        gpus,
        rate,
        rate * gpus,
        report.value("tflops_per_gpu"),
        rate / base,
        base * gpus,
        rate * gpus * seconds if seconds else None,
    )


def _fitted(rungs: tuple[Rung, ...], fit: Line, allowed: tuple[str, ...]) -> Scaling:
    two = fit.deviation != fit.deviation
    return Scaling(
        rungs,
        fit.slope,
        None if two else fit.deviation,
        fit.explained,
        exp(fit.intercept),
        _kind(rungs),
        allowed,
    )


def _kind(rungs: Sequence[Rung]) -> str:
    batches = [rung.step_tokens for rung in rungs]
    if any(batch is None for batch in batches):
        return "mixed"
    known = [batch for batch in batches if batch is not None]
    if max(known) / min(known) - 1 < _SAME_BATCH:
        return "strong"
    each = [batch / rung.gpus for batch, rung in zip(known, rungs, strict=True)]
    return "weak" if max(each) / min(each) - 1 < _SAME_BATCH else "mixed"


def plot(found: Scaling) -> Plot:
    """Return the plot of throughput over GPUs, both doubling, beside the ideal line."""
    measured = tuple(
        Point(
            float(rung.gpus),
            rung.total,
            f"{rung.gpus:,} GPUs: {shown(rung.total, 0)} tokens/s, {rung.efficiency:.1%} of ideal, "
            f"{rung.name}",
        )
        for rung in found.rungs
    )
    ideal = tuple(
        Point(float(rung.gpus), rung.ideal, f"ideal at {rung.gpus:,}: {shown(rung.ideal, 0)}")
        for rung in found.rungs
    )
    return Plot(
        "scaling",
        "Throughput by number of GPUs",
        "GPUs",
        "tokens/s",
        (
            Curve("ideal", ideal, "dashed", 1),
            Curve("measured", measured, "line", 0),
            Curve("", measured, "dots", 0),
        ),
        f"{found.sentence[:1].upper()}{found.sentence[1:]}.",
        doubling=True,
        zero=True,
    )


def efficiency_plot(found: Scaling) -> Plot:
    """Return the plot of throughput a GPU over GPUs."""
    rates = tuple(
        Point(
            float(rung.gpus),
            rung.per_gpu,
            f"{rung.gpus:,} GPUs: {shown(rung.per_gpu, 1)} tokens/s a GPU, "
            f"{rung.efficiency:.1%} of the smallest, {rung.name}",
        )
        for rung in found.rungs
    )
    level = found.rungs[0].per_gpu
    ends = (float(found.rungs[0].gpus), float(found.rungs[-1].gpus))
    return Plot(
        "scaling-per-gpu",
        "Throughput a GPU by number of GPUs",
        "GPUs",
        "tokens/s a GPU",
        (
            Curve("ideal", tuple(Point(x, level) for x in ends), "dashed", 1),
            Curve("measured", rates, "line", 0),
            Curve("", rates, "dots", 0),
        ),
        doubling=True,
        zero=True,
    )
