"""Draws lying bars as SVG: names have room beside them, on a phone, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moectl.report.plots import Plot

_ROW, _THICK, _TOP, _BOTTOM, _RIGHT = 24, 14, 34, 44, 52
# Pixels a character takes of a label, and the most of the width that labels take.
_CHARACTER, _MOST = 7.7, 0.5


def height(plot: Plot) -> int:
    """Return how high the drawing is, in pixels."""
    return _TOP + _ROW * len(plot.bars) + _BOTTOM


def bars(plot: Plot, width: int, marks: Sequence[float], labels: Sequence[str]) -> Iterator[str]:
    """Yield the shapes of a plot of bars.

    Args:
        plot: what it shows; its texts are escaped by who calls.
        width: of the drawing, in pixels.
        marks: values at the vertical lines; the first is 0, the last is where the drawing ends.
        labels: what stands below them.
    """
    longest = max((len(bar.label) for bar in plot.bars), default=0)
    left = min(20 + _CHARACTER * longest, width * _MOST)
    room, bottom = width - left - _RIGHT, height(plot) - _BOTTOM

    def x(value: float) -> float:
        return left + room * value / marks[-1]

    for mark, label in zip(marks, labels, strict=True):
        at = x(mark)
        yield f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{bottom}"/>'
        yield f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>'
    yield (
        f'<text x="{left + room / 2:.0f}" y="{bottom + 36}" text-anchor="middle">{plot.x}</text>'
    )
    at = 8.0
    for number, name in enumerate(plot.parts):
        yield f'<rect class="c{number} dots" x="{at:.0f}" y="7" width="12" height="12" rx="2"/>'
        yield f'<text x="{at + 18:.0f}" y="17">{name}</text>'
        at += 34 + _CHARACTER * len(name)
    for row, bar in enumerate(plot.bars):
        y = _TOP + row * _ROW + (_ROW - _THICK) / 2
        yield (
            f'<text x="{left - 8:.0f}" y="{y + 11:.1f}" text-anchor="end">'
            f"{_short(bar.label, left)}</text>"
        )
        begin = 0.0
        yield f"<g><title>{bar.said}</title>"
        for number, part in enumerate(bar.parts):
            if part > 0:
                yield (
                    f'<rect class="c{number} dots" x="{x(begin):.1f}" y="{y:.1f}" '
                    f'width="{max(x(begin + part) - x(begin), 1.0):.1f}" height="{_THICK}"/>'
                )
            begin += part
        yield f'<text x="{x(begin) + 6:.1f}" y="{y + 11:.1f}">{begin:.1f}</text></g>'
    yield f'<line class="axis" x1="{left:.1f}" x2="{left:.1f}" y1="{_TOP}" y2="{bottom}"/>'


def _short(label: str, left: float) -> str:
    most = int((left - 8) / _CHARACTER)
    return label if len(label) <= most else f"{label[: most - 1]}…"
