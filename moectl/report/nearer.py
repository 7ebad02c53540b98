"""A report whose files are named from the folder that they share, where space is dear."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from moectl.report.measure import Report


def nearer(report: Report) -> tuple[str, Report]:
    """Return the folder that all files share, and the report with their names from there.

    The folder is "" where they share none, and the report is as it was.
    """
    folders = {os.path.dirname(path) for path, _ in report.sources}  # noqa: PTH120 - text
    try:
        base = os.path.commonpath(folders) if folders else ""
    except ValueError:  # some are absolute and some are not
        base = ""
    if base in {"", "/"}:
        return "", report
    head = f"{base}/"

    def cut(text: str) -> str:
        return text.replace(head, "")

    def all_cut(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(cut, texts))

    context = report.context
    places = {key: cut(place) for key, place in context.config_places.items()}
    return base, replace(
        report,
        figures={
            name: replace(
                figure,
                formula=cut(figure.formula),
                places=all_cut(figure.places),
                why=cut(figure.why),
            )
            for name, figure in report.figures.items()
        },
        series=replace(report.series, paths=list(all_cut(report.series.paths))),
        context=replace(context, config_places=places),
        processes=[replace(each, file=cut(each.file)) for each in report.processes],
        starts=[replace(row, place=cut(row.place)) for row in report.starts],
        sources=[(cut(path), what) for path, what in report.sources],
        notes=list(all_cut(report.notes)),
        traces=[replace(each, path=cut(each.path)) for each in report.traces],
    )
