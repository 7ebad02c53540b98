"""A report as one HTML page: no scripts, no requests, light and dark, on paper and on a phone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from moectl.facts.yaml_facts import read
from moectl.report.draw import NARROW, WIDE, svg, value_rows
from moectl.report.figure import Figure, shown
from moectl.report.forms import grouped, heading
from moectl.report.measure import Report
from moectl.report.nearer import nearer
from moectl.report.plots import Plot, plots
from moectl.reports.escape import printable
from moectl.version import __version__

if TYPE_CHECKING:
    import jinja2

_TEMPLATE = "report.html.j2"
# The figures that stand on top, and what is said below each.
_TILES = (
    ("step_time_s.median", "Step time", "median of {steady} steady steps"),
    ("tokens_per_s_per_gpu", "Throughput", ""),
    ("tflops_per_gpu", "Model FLOP rate", "as logged"),
    ("mfu", "MFU", "{peak}"),
    ("loss.last", "Loss", "step {last}; {first} at first"),
    ("goodput", "Goodput", "{starts}"),
)
_MOST_PROCESSES = 256
_SHARES = frozenset({"mfu", "goodput", "ranks.slowest_excess"})


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of a page.

    Attributes:
        title: above it.
        head: names of its columns.
        rows: cells.
        numbers: columns that are numbers.
        caption: a sentence above its head.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()
    caption: str = ""


def page(report: Report) -> str:
    """Return the page of a report; whatever stands in names and lines is text in it."""
    base, report = nearer(report)
    known = report.context
    runs = "no restart" if len(report.starts) < 2 else f"{len(report.starts)} starts"
    words = {
        "steady": len(report.steady.rows),
        "peak": f"of {known.peak:,.0f} TFLOP/s, {known.precision}"
        if known.peak
        else known.peak_why,
        "last": report.figures["last_step"].text,
        "first": report.figures["loss.first"].text,
        "starts": runs,
    }
    tiles = [
        {
            **_figure(report.figures[name]),
            "title": title,
            "small": _small(report, name, small, words),
        }
        for name, title, small in _TILES
    ]
    steps = report.figures["steps"].text
    sub = ", ".join(
        filter(None, (heading(report), f"{steps} steps" if report.series.steps else "no steps"))
    )
    return fill(
        report.name or "Run",
        sub,
        tiles,
        [*_failed(report), *report.notes],
        plots(report),
        grouped(report),
        _tables(report, base),
    )


def _failed(report: Report) -> list[str]:
    """Return why the run failed, for the top of the page."""
    said = report.failure.lines() if report.failure is not None else []
    return [f"Failed: {said[0]}", *said[1:]] if said else []


def fill(
    title: str,
    sub: str,
    tiles: Sequence[dict[str, str]],
    notes: Sequence[str],
    drawn: Iterable[Plot],
    groups: Iterable[tuple[str, Sequence[Figure]]],
    tables: Sequence[Grid],
) -> str:
    """Return a page of these parts."""
    values: dict[str, Any] = {
        "title": title,
        "sub": sub,
        "tiles": tiles,
        "notes": notes,
        "plots": [
            {
                "name": plot.name,
                "title": plot.title,
                "note": plot.note,
                "wide": svg(plot, WIDE),
                "narrow": svg(plot, NARROW),
                "rows": value_rows(plot),
            }
            for plot in drawn
        ],
        "groups": [
            {"title": name, "figures": [_figure(figure) for figure in held]}
            for name, held in groups
        ],
        "tables": tables,
        "footer": f"moectl {__version__}. Every figure names its formula and lines: point at it, "
        "or read its row.",
    }
    return _environment().get_template(_TEMPLATE).render(values)


def _figure(figure: Figure) -> dict[str, str]:
    text = f"{figure.value:.1%}" if figure.name in _SHARES and figure.value else figure.text
    return {
        "id": f"figure-{figure.name.replace('.', '-')}",
        "title": figure.title,
        "text": text,
        "unit": figure.unit if figure.value is not None else "",
        "trace": figure.trace,
    }


def _small(report: Report, name: str, small: str, words: dict[str, object]) -> str:
    figure = report.figures[name]
    return figure.why if figure.value is None else small.format(**words)


def _tables(report: Report, base: str) -> list[Grid]:
    found = []
    if len(report.processes) > 1:
        rows = [
            (
                each.name,
                shown(each.median),
                shown(each.p95),
                str(each.steps),
                "straggler" if each.straggler else "",
                f"{each.file}:{each.first_line}-{each.last_line}",
            )
            for each in report.processes[:_MOST_PROCESSES]
        ]
        more = len(report.processes) - len(rows)
        found.append(
            Grid(
                "Processes of the last start",
                ("Process", "Median, s", "95th percentile, s", "Steps", "", "Lines"),
                rows,
                frozenset({1, 2, 3}),
                f"The slowest first{f'; {more} more are not shown' if more else ''}.",
            )
        )
    if len(report.starts) > 1:
        found.append(
            Grid(
                "Starts",
                ("Start", "First step", "Last step", "Done again later", "Until first, s", "Lines"),
                [
                    (
                        str(row.number),
                        str(row.first),
                        str(row.last),
                        str(row.redone),
                        shown(row.until_first, 1),
                        row.place,
                    )
                    for row in report.starts
                ],
                frozenset({0, 1, 2, 3, 4}),
            )
        )
    known = report.context
    keys = [key for key in read("report.yaml")["shown"] if key in known.config]
    if keys:
        found.append(
            Grid(
                "Configuration",
                ("MaxText key", "Value", "Line"),
                [(key, known.config[key], known.config_places.get(key, "")) for key in keys],
            )
        )
    caption = f"In {base}." if base else ""
    found.append(Grid("Files", ("File", "Read as"), report.sources, caption=caption))
    return found


@cache
def _environment() -> jinja2.Environment:
    """Return the template environment of pages: everything is escaped."""
    import jinja2  # noqa: PLC0415 - only a page needs it

    from moectl.render.templates import source  # noqa: PLC0415

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(source),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_seen,
    )


def _seen(value: object) -> object:
    """Return a value as it may be shown: control characters of a stranger are escapes."""
    return printable(value) if type(value) is str else value
