"""A report as text, JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict
from math import isnan
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.logs.columns import ABSENT
from moectl.report.figure import Figure, plain, shown
from moectl.report.measure import Report
from moectl.reports.escape import printable

# Groups of figures in the order they are shown, by the beginning of their names.
GROUPS = (
    ("Steps", ("steps", "first_step", "last_step", "dropped_steps")),
    (
        "Speed",
        (
            "step_time_s",
            "tokens_per_s_per_gpu",
            "tokens_per_s",
            "tflops_per_gpu",
            "tflops_per_gpu_recomputed",
            "mfu",
        ),
    ),
    ("Learning", ("loss", "perplexity", "grad_norm", "learning_rate")),
    ("Experts", ("moe",)),
    ("Processes", ("ranks",)),
    ("Memory", ("memory",)),
    ("Time", ("time_to_first_step_s", "goodput", "longest_pause_s", "restarts", "steps_redone")),
    ("Profile", ("profile",)),
)
_MOST_NAMED = 200


def grouped(report: Report) -> Iterator[tuple[str, list[Figure]]]:
    """Yield the figures by group; a group without figures is left out."""
    left = dict(report.figures)
    for title, heads in GROUPS:
        names = [name for name in left if name.partition(".")[0] in heads]
        held = [left.pop(name) for name in names]
        if held:
            yield title, held


def heading(report: Report) -> str:
    """Return what the run is, in a line."""
    known = report.context
    words = []
    if known.gpus:
        words.append(f"{known.gpus:,} GPUs")
    if known.hardware:
        words.append(f"of {known.hardware}" if known.gpus else known.hardware)
    model = known.config.get("model_name", "")
    if model and model != "default":
        words.insert(0, f"{model},")
    return " ".join(words)


def text(report: Report, *, explain: bool = False) -> str:
    """Return a report for people, not yet safe for a terminal.

    Args:
        report: the report.
        explain: whether every figure is followed by its formula and lines.
    """
    head = heading(report)
    lines = [f"{report.name or 'run'}{f': {head}' if head else ''}"]
    if report.failure is not None:
        lines += ["", "Failed", *(f"  {line}" for line in report.failure.lines())]
    figures = [figure for _, held in grouped(report) for figure in held]
    width = max((len(figure.title) for figure in figures), default=0)
    for title, held in grouped(report):
        lines += ["", title]
        for figure in held:
            unit = f" {figure.unit}" if figure.unit and figure.value is not None else ""
            why = f"  {figure.why}" if figure.value is None and not explain else ""
            lines.append(f"  {figure.title:<{width}}  {figure.text:>12}{unit}{why}")
            if explain:
                lines.append(f"      {figure.trace}")
    if len(report.starts) > 1:
        lines += ["", "Starts"]
        lines += [
            f"  {row.number}: steps {row.first} to {row.last}, {row.redone} of them done again "
            f"later, first after {shown(row.until_first, 1)} s, {row.place}"
            for row in report.starts
        ]
    if report.notes:
        lines += ["", "Notes", *(f"  {note}" for note in report.notes)]
    if explain:
        lines += ["", "Files", *(f"  {path}: {what}" for path, what in report.sources)]
        lines += [f"  {report.steady.rule}"]
    return "\n".join(lines)


def brief(report: Report) -> str:
    """Return where a run is, in a line."""
    names = ("step_time_s.median", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu", "loss.last")
    figures = [report.figures[name] for name in names]
    said = [f"{each.title} {each.text} {each.unit}".strip() for each in figures if each.value]
    last = report.figures["last_step"]
    return ", ".join([f"step {last.text}" if last.value is not None else "no step yet", *said])


def as_dict(report: Report, *, explain: bool = False) -> dict[str, Any]:
    """Return the JSON form; numbers that JSON has not (nan, inf) are told as text.

    Args:
        report: the report.
        explain: whether the formula and lines of every figure are added.
    """
    known, held = report.context, report.steady
    found: dict[str, Any] = {"name": report.name}
    for figure in report.figures.values():
        at = found
        *heads, last = figure.name.split(".")
        for head in heads:
            at = at.setdefault(head, {})
            if not isinstance(at, dict):
                break
        else:
            at[last] = _number(figure)
    found["moe"] = {
        name.partition(".")[2]: _number(figure)
        for name, figure in report.figures.items()
        if name.startswith("moe.")
    }
    mfu = report.figures["mfu"]
    found["mfu"] = {
        "value": plain(mfu.value),
        "peak": known.peak,
        "dtype": known.precision or None,
        "peak_source": known.peak_why,
    }
    found["dropped"] = {
        "rule": held.rule,
        "by_reason": dict(held.count),
        "steps": [report.series.steps[row] for row in held.dropped][:_MOST_NAMED],
    }
    shown_keys = read("report.yaml")["shown"]
    found |= {
        "gpus": known.gpus,
        "hardware": known.hardware or None,
        "config": {key: known.config[key] for key in shown_keys if key in known.config},
        "starts": [asdict(row) for row in report.starts],
        "processes": [asdict(each) for each in report.processes],
        "missing": {
            figure.name: figure.why for figure in report.figures.values() if figure.value is None
        },
        "sources": [{"file": path, "read_as": what} for path, what in report.sources],
        "notes": report.notes,
        "failure": report.failure.as_dict() if report.failure else None,
        "traces": [each.as_dict() for each in report.traces],
    }
    if explain:
        found["figures"] = [figure.as_dict() for figure in report.figures.values()]
    clean = seen(found)
    assert isinstance(clean, dict)  # noqa: S101 - it is what went in
    return clean


def seen(value: Any) -> Any:
    """Return plain data with every text printable, and numbers that JSON has not as text."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {seen(key): seen(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [seen(held) for held in value]
    return plain(value) if isinstance(value, float) else value


def _number(figure: Figure) -> float | int | str | None:
    """Return a figure's number; one without digits behind the point is whole."""
    value = figure.value
    whole = value is not None and figure.digits == 0 and value == int(value)
    return int(value) if whole and value is not None else plain(value)


def as_csv(report: Report) -> str:
    """Return one row a step that was read, with where it stands; what is absent is empty."""
    series, dropped = report.series, report.steady.dropped
    names = list(series.columns)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["step", "start", "steady", "not_steady_because", *names, "file", "line"])
    for row, step in enumerate(series.steps):
        values = [series.columns[name][row] for name in names]
        writer.writerow(
            [
                step,
                series.starts[row] + 1,
                "no" if row in dropped else "yes",
                dropped.get(row, ""),
                *("" if value == ABSENT else "nan" if isnan(value) else value for value in values),
                printable(series.paths[series.files[row]]),
                series.lines[row],
            ]
        )
    return out.getvalue()


def figures_as_csv(report: Report) -> str:
    """Return one row a figure: its value, formula and places; without a value, why."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["figure", "title", "value", "unit", "formula", "places", "why"])
    for figure in report.figures.values():
        value = "" if figure.value is None else _number(figure)
        places = " ".join(figure.places)
        words = (figure.unit, figure.formula, places, figure.why)
        writer.writerow([figure.name, figure.title, value, *map(printable, words)])
    return out.getvalue()
