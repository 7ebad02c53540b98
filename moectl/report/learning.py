"""What a run learnt, and how evenly its experts are used."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.logs.columns import columns
from moectl.report.figure import Figure
from moectl.report.gather import Material
from moectl.report.places import places
from moectl.report.series import Series
from moectl.report.statistics import finite, median

_NO_SINK = "it stands only in metrics_file and TensorBoard, and none was given"
_NOT_SAID = "the run did not use Transformer Engine's MoE: its sinks do not say it"


def learning(series: Series) -> Iterator[Figure]:
    """Yield the figures of loss: of the first and the last step, whatever they are."""
    for name in ("loss", "perplexity", "grad_norm", "learning_rate"):
        said = series.said(name, series.final())
        title = columns()[name].title
        if not said and name != "loss":
            continue
        for at, word in ((0, "first"), (-1, "last")):
            row, value = said[at] if said else (0, None)
            yield Figure(
                f"{name}.{word}",
                f"{title}, {word} step",
                value,
                "",
                f"{title} of step {series.steps[row]}" if said else "",
                places(series, [row], name) if said else (),
                "no step says a loss",
                digits=4 if name in series.precise else 3,
            )
    losses = [value for _, value in series.said("loss", series.final())]
    numbers = finite(losses)
    yield Figure(
        "loss.not_finite",
        "steps whose loss is nan or inf",
        float(len(losses) - len(numbers)) if losses else None,
        "steps",
        "count of steps whose loss is no number",
        places(series, range(len(series.steps)), "loss"),
        "no step says a loss",
        digits=0,
    )


def balance(series: Series, material: Material) -> Iterator[Figure]:
    """Yield the figures of MoE balance, of what the run says about it."""
    rows = series.final()
    for name in ("moe_lb_loss", "max_load_ratio", "max_load_ratio_mean"):
        said = finite([value for _, value in series.said(name, rows)])
        if said:
            title = columns()[name].title
            where = places(series, rows, name)
            middle = f"median of {len(said)} steps"
            yield Figure(f"moe.{name}", title, median(said), "", middle, where, digits=6)
            if name != "moe_lb_loss":
                highest = f"highest of {len(said)} steps"
                yield Figure(f"moe.{name}.max", f"{title}, highest", max(said), "", highest, where)
    sinks = [*material.metrics, *material.events]
    experts = bool(series.said("moe_lb_loss", rows))
    demand = [(row, value) for row, value in series.said("recv_demand", rows) if value > 0]
    capacity = dict(series.said("recv_capacity", rows))
    shares = [(value / capacity[row], row) for row, value in demand if capacity.get(row, 0) > 0]
    if shares:
        share, row = max(shares)
        yield Figure(
            "moe.recv_share",
            "receive demand over capacity, highest",
            share,
            "",
            f"te_moe_max_total_recv_tokens over te_moe_recv_capacity_per_rank, at step "
            f"{series.steps[row]}; 1 is full",
            places(series, [row], "recv_demand"),
        )
        usual = median([each for each, _ in shares])
        where = places(series, rows, "recv_demand")
        formula = f"median of the same over {len(shares)} steps"
        yield Figure("moe.recv_share.median", "the same, median", usual, "", formula, where)
    elif experts:
        yield Figure(
            "moe.recv_share",
            "receive demand over capacity",
            None,
            why=_NOT_SAID if sinks else _NO_SINK,
        )
    overflowed = [row for row, value in series.said("recv_overflow", rows) if value > 0]
    lines = [
        f"{log.path}:{said.line}"
        for log in material.logs
        for said in log.said
        if said.kind in {"overflow", "fallback", "replay"}
    ]
    if experts or lines or overflowed:
        yield Figure(
            "moe.overflow",
            "steps and lines that tell of an overflow",
            float(len(overflowed) + len(lines)),
            "",
            "steps with te_moe_capacity_overflow above 0, and lines about an overflow",
            (*places(series, overflowed, "recv_overflow"), *lines[:4]),
            digits=0,
        )
