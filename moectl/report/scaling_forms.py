"""Scaling as text and as a page."""

from __future__ import annotations

from moectl.report.figure import shown
from moectl.report.page import Grid, fill
from moectl.report.scaling import Scaling, efficiency_plot, plot
from moectl.reports.columns import columns

_HEAD = (
    "GPUs",
    "tokens/s",
    "tokens/s a GPU",
    "TFLOP/s a GPU",
    "Efficiency",
    "Ideal tokens/s",
    "Run",
)


def _rows(found: Scaling) -> list[tuple[str, ...]]:
    return [
        (
            f"{rung.gpus:,}",
            shown(rung.total, 0),
            shown(rung.per_gpu, 1),
            shown(rung.tflops, 1),
            f"{rung.efficiency:.1%}",
            shown(rung.ideal, 0),
            rung.name,
        )
        for rung in found.rungs
    ]


def text_of(found: Scaling) -> str:
    """Return the table and the fit, not yet safe for a terminal."""
    lines = columns(_HEAD, _rows(found), range(len(_HEAD) - 1))
    return "\n".join([*lines, "", found.sentence, *(f"allowed: {each}" for each in found.allowed)])


def page(found: Scaling) -> str:
    """Return the page: the plots, the table and the fit."""
    first, last = found.rungs[0], found.rungs[-1]
    tiles = [
        {
            "id": "scaling",
            "title": f"Efficiency at {last.gpus:,} GPUs",
            "text": f"{last.efficiency:.1%}",
            "unit": "",
            "small": f"of the throughput a GPU at {first.gpus:,}",
            "trace": f"{shown(last.per_gpu, 1)} over {shown(first.per_gpu, 1)} tokens/s a GPU",
        },
        {
            "id": "scaling",
            "title": "Scaling power",
            "text": shown(found.power, 4),
            "unit": "",
            "small": f"{found.kind} scaling; 1 is ideal",
            "trace": "tokens/s = factor * GPUs ** power, least squares in logarithms",
        },
        {
            "id": "scaling",
            "title": f"Throughput at {last.gpus:,}",
            "text": shown(last.total, 0),
            "unit": "tokens/s",
            "small": f"{shown(last.ideal, 0)} would be ideal",
            "trace": "median tokens/s a GPU of steady steps times GPUs",
        },
    ]
    table = Grid("Runs", _HEAD, _rows(found), frozenset(range(len(_HEAD) - 1)))
    span = f"{first.gpus:,} to {last.gpus:,} GPUs"
    drawn = (plot(found), efficiency_plot(found))
    return fill("Scaling", span, tiles, list(found.allowed), drawn, [], [table])
