"""Draws plots as PNG, with matplotlib, which brings the fonts that an SVG leaves to its reader."""

from __future__ import annotations

import io
from math import isfinite
from typing import Any

from moectl.report.draw import colour
from moectl.report.plots import Curve, Plot
from moectl.reports.escape import printable

_COLOURS = ("#1f6feb", "#b35900", "#1a7f5a", "#8250df")
_WIDTH, _HEIGHT, _DPI = 7.6, 3.2, 160
_NAN = float("nan")


def available() -> bool:
    """Whether matplotlib is installed."""
    import importlib.util  # noqa: PLC0415

    return importlib.util.find_spec("matplotlib") is not None


def png(plot: Plot) -> bytes:
    """Return a plot as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(_WIDTH, _HEIGHT), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for number, curve in enumerate(plot.curves):
        _curve(axes, curve, _COLOURS[colour(curve, number)])
    if plot.bars:
        _bars(axes, plot)
    axes.set_title(_text(plot.title), loc="left", fontsize=11)
    axes.set_xlabel(_text(plot.x))
    axes.set_ylabel(_text(plot.y))
    axes.grid(axis="x" if plot.bars else "y", color="#dfe3e8", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if plot.doubling:
        held = sorted({point.x for curve in plot.curves for point in curve.points})
        axes.set_xscale("log", base=2)
        axes.set_xticks(held, [f"{value:,.0f}" for value in held])
    if plot.names:
        every = -(-len(plot.names) // 10)
        places = range(0, len(plot.names), every)
        axes.set_xticks(list(places), [_text(plot.names[at][:12]) for at in places])
    if plot.zero:
        axes.set_ylim(bottom=0)
    if plot.span is not None and plot.span[0] < plot.span[1]:
        axes.set_ylim(*plot.span)
    if plot.bars or sum(bool(curve.label) for curve in plot.curves) > 1:
        axes.legend(frameon=False, fontsize=9)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _bars(axes: Any, plot: Plot) -> None:
    figure = axes.get_figure()
    figure.set_size_inches(_WIDTH, max(_HEIGHT, 1.2 + 0.27 * len(plot.bars)))
    begins = [0.0] * len(plot.bars)
    for number, name in enumerate(plot.parts):
        held = [bar.parts[number] for bar in plot.bars]
        axes.barh(
            range(len(held)), held, left=begins, color=_COLOURS[number], label=_text(name),
            height=0.6,
        )  # fmt: skip
        begins = [begin + part for begin, part in zip(begins, held, strict=True)]
    axes.set_yticks(range(len(plot.bars)), [_text(bar.label) for bar in plot.bars])
    axes.invert_yaxis()


def _curve(axes: Any, curve: Curve, ink: str) -> None:
    xs = [point.x for point in curve.points]
    ys = [point.y if isfinite(point.y) else _NAN for point in curve.points]
    forms: dict[str, dict[str, Any]] = {
        "line": {"linewidth": 1.5},
        "dashed": {"linewidth": 1.3, "linestyle": "--"},
        "dots": {"linestyle": "", "marker": "o", "markersize": 4},
        "hollow": {"linestyle": "", "marker": "o", "markersize": 4, "markerfacecolor": "white"},
    }
    label = _text(curve.label) if curve.label else None
    axes.plot(xs, ys, color=ink, label=label, **forms[curve.mark])


def _text(text: str) -> str:
    """Return text that matplotlib takes literally: a dollar begins a formula there."""
    return printable(text).replace("$", r"\$")
