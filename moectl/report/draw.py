"""Draws plots as SVG: shapes with classes, so that a page's own colours, light or dark, apply.

Plotting libraries write colours and sizes into every shape, and none has titles on points, a
table of what is drawn and two widths of one plot; the few shapes of a report are drawn here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape as escaped
from math import ceil, floor, isfinite, log2, log10

from moectl.report.bars import bars, height
from moectl.report.figure import shown
from moectl.report.plots import Curve, Plot
from moectl.reports.escape import printable

# Colours of a plot that stands alone; those of the page are in its template.
_ALONE = """
text{font:12px system-ui,sans-serif;fill:#3b4450}
.grid{stroke:#dfe3e8;stroke-width:1}.axis{stroke:#8a94a0;stroke-width:1}
.line{fill:none;stroke-width:1.75;stroke-linejoin:round}
.dashed{fill:none;stroke-width:1.5;stroke-dasharray:5 4}
.hollow{fill:#fff;stroke-width:1.5}.hit{fill:transparent}
.c0.line,.c0.dashed,.c0.hollow{stroke:#1f6feb}.c1.line,.c1.dashed,.c1.hollow{stroke:#b35900}
.c2.line,.c2.dashed,.c2.hollow{stroke:#1a7f5a}.c3.line,.c3.dashed,.c3.hollow{stroke:#8250df}
.c0.dots{fill:#1f6feb}.c1.dots{fill:#b35900}.c2.dots{fill:#1a7f5a}.c3.dots{fill:#8250df}
"""
_COLOURS = 4


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a drawing in CSS pixels, and how many ticks fit."""

    width: int = 560
    height: int = 270
    x_ticks: int = 6
    y_ticks: int = 5


WIDE, NARROW = Size(), Size(348, 250, 4, 4)
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 22, 40, 44


def svg(plot: Plot, size: Size = WIDE, *, alone: bool = False) -> str:
    """Return a plot as an SVG element.

    Args:
        plot: what it shows.
        size: how large it is.
        alone: whether it is a file of its own, with colours and a background.
    """
    if plot.bars:
        size = replace(size, height=height(plot))
    frame = _Frame(plot, size)
    label = escape(f"{plot.title}: {plot.y} over {plot.x}" if plot.y else plot.title)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size.width} {size.height}" '
        f'width="{size.width}" height="{size.height}" role="img" aria-label="{label}">'
    )
    parts = [head]
    if alone:
        parts.append(f"<title>{escape(plot.title)}</title><style>{_ALONE}</style>")
        parts.append('<rect width="100%" height="100%" fill="#fff"/>')
    if plot.bars:
        return "".join([*parts, *_bars(plot, size), "</svg>"])
    parts += [*_axes(plot, frame), *_legend(plot, frame)]
    for number, curve in enumerate(plot.curves):
        parts += _curve(curve, colour(curve, number), frame)
    return "".join([*parts, "</svg>"])


def colour(curve: Curve, number: int) -> int:
    """Return the number of a curve's colour."""
    return (number if curve.colour is None else curve.colour) % _COLOURS


def escape(text: str) -> str:
    """Return text as it may stand in SVG: no markup, no character that XML has not."""
    return escaped(printable(text))


def _bars(plot: Plot, size: Size) -> Iterator[str]:
    marks = ticks(0.0, max(sum(bar.parts) for bar in plot.bars), size.x_ticks)
    step = marks[1] - marks[0]
    safe = replace(
        plot,
        x=escape(plot.x),
        parts=tuple(map(escape, plot.parts)),
        bars=tuple(
            replace(bar, label=escape(bar.label), said=escape(bar.said)) for bar in plot.bars
        ),
    )
    return bars(safe, size.width, marks, [tick_text(mark, step) for mark in marks])


class _Frame:
    """Where a value lies in the drawing."""

    def __init__(self, plot: Plot, size: Size) -> None:
        points = [point for curve in plot.curves for point in curve.points]
        xs = [point.x for point in points if isfinite(point.x)] or [0.0]
        ys = [point.y for point in points if isfinite(point.y)] or [0.0]
        self.size, self.doubling = size, plot.doubling
        low, high = min(ys), max(ys)
        if plot.span is not None:
            low, high = max(low, plot.span[0]), min(high, plot.span[1])
        if plot.zero:
            low = min(0.0, low)
        self.y_ticks = ticks(low, high, size.y_ticks)
        self.low, self.high = self.y_ticks[0], self.y_ticks[-1]
        self.first, self.last = min(xs), max(xs)
        if self.first == self.last:
            self.first, self.last = self.first - 0.5, self.last + 0.5
        if plot.names:
            self.first, self.last = self.first - 0.5, self.last + 0.5

    def x(self, value: float) -> float:
        first, last = self.first, self.last
        if self.doubling and first > 0:
            value, first, last = log2(value), log2(first), log2(last)
        share = (value - first) / (last - first)
        return _LEFT + share * (self.size.width - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        held = max(self.low, min(value, self.high))
        share = (held - self.low) / (self.high - self.low)
        return self.size.height - _BOTTOM - share * (self.size.height - _TOP - _BOTTOM)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from at most `low` to at least `high`, about `most` of them."""
    if not high > low:
        high = low + (abs(low) * 0.1 or 1.0)
    rough = (high - low) / most
    if not isfinite(rough) or rough <= 0:
        return [low, high] if isfinite(high - low) and high > low else [0.0, 1.0]
    power = 10.0 ** floor(log10(rough))
    step = next((each * power for each in (1, 2, 2.5, 5) if each * power >= rough), 10 * power)
    if not step or low / step != low / step or abs(low / step) > 1e15:
        return [low, high]
    begin, end = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [number * step for number in range(begin, end + 1)]


def tick_text(value: float, step: float) -> str:
    """Return the label of a tick, with the digits that tell it from the next one."""
    size = abs(value)
    if 1e6 <= size < 1e12:
        return f"{value / 1e6:,.6g}M"
    if size >= 1e12 or (value and size < 1e-4):
        return f"{value:.3g}"
    digits = max(0, -floor(log10(step) + 1e-9)) if 0 < step < 1 else 0
    if step * 10.0**digits % 1 > 1e-6:  # 2.5
        digits += 1
    return f"{value:,.{min(digits, 6)}f}"


def _axes(plot: Plot, frame: _Frame) -> Iterator[str]:
    size = frame.size
    right, bottom = size.width - _RIGHT, size.height - _BOTTOM
    step = frame.y_ticks[1] - frame.y_ticks[0] if len(frame.y_ticks) > 1 else 1.0
    for value in frame.y_ticks:
        y = frame.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        text = escape(tick_text(value, step))
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    for value, text in _x_ticks(plot, frame):
        x = frame.x(value)
        yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
        yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(text)}</text>'
    yield f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>'
    yield (
        f'<text x="{(_LEFT + right) / 2:.0f}" y="{size.height - 8}" text-anchor="middle">'
        f"{escape(plot.x)}</text>"
    )


def _x_ticks(plot: Plot, frame: _Frame) -> Iterator[tuple[float, str]]:
    if plot.names:
        every = -(-len(plot.names) // (frame.size.x_ticks + 2))
        for at in range(0, len(plot.names), every):
            yield float(at), plot.names[at][:12]
        return
    if frame.doubling:
        held = sorted({point.x for curve in plot.curves for point in curve.points})
        for value in held:
            yield value, f"{value:,.0f}"
        return
    marks = ticks(frame.first, frame.last, frame.size.x_ticks)
    step = max(1.0, marks[1] - marks[0]) if len(marks) > 1 else 1.0
    for value in marks:
        if frame.first <= value <= frame.last and value == floor(value):
            yield value, tick_text(value, step)


def _legend(plot: Plot, frame: _Frame) -> Iterator[str]:
    """Yield the label of the vertical axis, and the names of curves where there are several."""
    yield f'<text x="8" y="16">{escape(plot.y)}</text>'
    named = [(at, curve) for at, curve in enumerate(plot.curves) if curve.label]
    if len(named) < 2:
        return
    widths = [22 + 7.2 * len(curve.label) for _, curve in named]
    x = frame.size.width - _RIGHT - sum(widths) - 14 * (len(named) - 1)
    y = 16 if x > _LEFT + 7.2 * len(plot.y) else 30
    for (number, curve), width in zip(named, widths, strict=True):
        kind = f"c{colour(curve, number)} {curve.mark}"
        if curve.mark in {"line", "dashed"}:
            yield f'<path class="{kind}" d="M{x:.0f} {y - 4}h16"/>'
        else:
            yield f'<circle class="{kind}" cx="{x + 8:.0f}" cy="{y - 4}" r="3.5"/>'
        yield f'<text x="{x + 22:.0f}" y="{y}">{escape(curve.label)}</text>'
        x += width + 14


def _curve(curve: Curve, number: int, frame: _Frame) -> Iterator[str]:
    kind = f"c{number} {curve.mark}"
    if curve.mark in {"line", "dashed"}:
        path = "".join(_path(curve, frame))
        if path:
            yield f'<path class="{kind}" d="{path}"/>'
    for point in curve.points:
        if not isfinite(point.y) or (not point.said and curve.mark in {"line", "dashed"}):
            continue
        x, y = frame.x(point.x), frame.y(point.y)
        title = f"<title>{escape(point.said)}</title>" if point.said else ""
        if curve.mark in {"line", "dashed"}:
            yield f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="6">{title}</circle>'
        elif point.y > frame.high:  # above what is drawn
            yield f'<path class="{kind}" d="M{x:.1f} {y - 4:.1f}l4 7h-8z">{title}</path>'
        elif point.y < frame.low:
            yield f'<path class="{kind}" d="M{x:.1f} {y + 4:.1f}l4 -7h-8z">{title}</path>'
        else:
            yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{title}</circle>'


def _path(curve: Curve, frame: _Frame) -> Iterator[str]:
    pen = "M"
    single: Sequence[str] = ()
    for point in curve.points:
        if not isfinite(point.y):
            yield from single
            pen, single = "M", ()
            continue
        yield f"{pen}{frame.x(point.x):.1f} {frame.y(point.y):.1f}"
        single = ("h.1",) if pen == "M" else ()
        pen = "L"
    yield from single


def value_rows(plot: Plot, most: int = 24) -> list[tuple[str, ...]]:
    """Return a table of what a plot shows: x, and a column a curve; at most so many rows."""
    if plot.bars:
        head = (plot.title, *(f"{part}, %" for part in plot.parts))
        return [head, *((bar.label, *(shown(part, 2) for part in bar.parts)) for bar in plot.bars)]
    drawn = [each for each in plot.curves if each.label and any(p.said for p in each.points)]
    held = [{point.x: point.y for point in curve.points} for curve in drawn]
    xs = sorted({x for values in held for x in values})
    picked = xs if len(xs) <= most else [xs[at * (len(xs) - 1) // (most - 1)] for at in range(most)]
    rows = [(plot.x, *(curve.label for curve in drawn))]
    for x in dict.fromkeys(picked):
        name = plot.names[int(x)] if plot.names else f"{x:,.0f}"
        rows.append((name, *(shown(values.get(x), 4) for values in held)))
    return rows
