"""How fast a run is: step time, rates, and the share of the peak."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.report.context import Context
from moectl.report.figure import Figure
from moectl.report.places import places
from moectl.report.series import Series
from moectl.report.statistics import finite, median, quantile
from moectl.report.steady import Steady

_NONE = "no step is steady"
_QUANTILES = (
    ("median", 0.5, "median"),
    ("p5", 0.05, "5th percentile"),
    ("p95", 0.95, "95th percentile"),
)


def speed(series: Series, held: Steady, known: Context) -> Iterator[Figure]:
    """Yield the figures of speed."""
    why = "" if held.rows else _NONE
    seconds = [value for _, value in series.said("seconds", held.rows)]
    where = places(series, held.rows, "seconds")
    for name, share, word in _QUANTILES:
        yield Figure(
            f"step_time_s.{name}",
            f"step time, {word}",
            quantile(seconds, share) if seconds else None,
            "s",
            f"{word} of the seconds of {len(seconds)} steady steps",
            where,
            why,
        )
    logged = _median(series, held, "tflops", why)
    yield Figure("tflops_per_gpu", "model FLOP rate as logged", *logged, digits=1)
    yield recomputed(series, held, known, why)
    tokens = _median(series, held, "tokens_per_s", why)
    rate = Figure("tokens_per_s_per_gpu", "throughput", *tokens, digits=1)
    yield rate
    yield Figure(
        "tokens_per_s",
        "throughput of all GPUs",
        rate.value * known.gpus if rate.value is not None and known.gpus else None,
        "tokens/s",
        f"tokens/s a GPU times {known.gpus} GPUs ({known.gpus_place})",
        rate.places,
        rate.why or "nothing says how many GPUs there were; --gpus does",
        digits=0,
    )
    yield mfu(Figure("", "", *logged), known)


def _median(
    series: Series, held: Steady, name: str, why: str
) -> tuple[float | None, str, str, tuple[str, ...], str]:
    """Return value, unit, formula, places and what is missing, of a median of a column."""
    from moectl.logs.columns import columns  # noqa: PLC0415 - a table

    values = finite([value for _, value in series.said(name, held.rows)])
    column = columns()[name]
    where = places(series, held.rows, name)
    formula = f"median of {column.line} over {len(values)} steady steps"
    missing = why or f"no steady step says {column.line}"
    return (median(values) if values else None), column.unit, formula, where, missing


def recomputed(series: Series, held: Steady, known: Context, why: str) -> Figure:
    """Return the FLOP rate by moectl's own count of the model's FLOPs."""
    seconds = [value for _, value in series.said("seconds", held.rows)]
    value = known.model_tflop / median(seconds) if known.model_tflop and seconds else None
    amount = f"{known.model_tflop:.6g} TFLOP" if known.model_tflop else ""
    return Figure(
        "tflops_per_gpu_recomputed",
        "model FLOP rate, recomputed",
        value,
        "TFLOP/s a GPU",
        f"{amount} a step and GPU ({known.model_why}) over the median step time",
        places(series, held.rows, "seconds"),
        why or known.model_why,
        digits=1,
    )


def mfu(logged: Figure, known: Context) -> Figure:
    """Return the model FLOP utilisation, with its denominator in words."""
    value = logged.value / known.peak if logged.value is not None and known.peak else None
    return Figure(
        "mfu",
        "MFU",
        value,
        "",
        f"{logged.text} TFLOP/s as logged over {known.peak or 0:,.0f} TFLOP/s, {known.peak_why}",
        logged.places,
        known.peak_why if known.peak is None else logged.why,
        digits=4,
    )
