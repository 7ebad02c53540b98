"""moectl report, compare and scaling."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from moectl.cli.manner import remark
from moectl.cli.numbers import whole
from moectl.cli.text import json_text, say, say_text
from moectl.errors import UsageError, ValueUsageError
from moectl.reports.escape import printable_lines

if TYPE_CHECKING:
    from moectl.report.context import Wish
    from moectl.report.plots import Plot

_PNG = "PNG files need matplotlib (pip install 'moectl[plots]'); SVG files were written"


def run(
    inputs: list[str],
    hardware: str | None,
    precision: str | None,
    gpus: str | None,
    maxtext: str | None,
    format: str | None,  # noqa: A002 - the option's name
    output: str | None,
    plots: str | None,
    open: bool,  # noqa: A002 - the option's name
    explain: bool,
    follow: bool,
) -> int:
    """Report on a run; exit code 1 when nothing tells of a step."""
    if follow:
        if format or output or plots or open or explain:
            raise UsageError("--follow prints a line for every gain; leave other options out")
        return _follow(inputs, _wish(hardware, precision, gpus), maxtext or "")
    from moectl.actions.report import report as made  # noqa: PLC0415
    from moectl.report import forms  # noqa: PLC0415

    chosen = format or ("html" if open else "text")
    if open and chosen != "html":
        raise UsageError("--open shows the page; leave --format out, or say html")
    found = made(inputs, _wish(hardware, precision, gpus), maxtext or "")
    if chosen == "html":
        from moectl.report.page import page  # noqa: PLC0415 - with its template

        text = page(found)
    elif chosen == "json":
        text = json_text(forms.as_dict(found, explain=explain))
    elif chosen == "csv":
        text = forms.as_csv(found)
    elif chosen == "csv-figures":
        text = forms.figures_as_csv(found)
    else:
        text = printable_lines(forms.text(found, explain=explain)) + "\n"
    if open and output is None:
        output = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', found.name)[:80] or 'run'}-report.html"
    _put(text, output)
    if plots is not None:
        from moectl.report.plots import plots as drawn  # noqa: PLC0415

        _draw(drawn(found), plots)
    if open and output is not None:
        _show(Path(output))
    return 0 if found.series.steps else 1


def _follow(inputs: list[str], wish: Wish, release: str) -> int:
    from moectl.actions.report_follow import follow  # noqa: PLC0415
    from moectl.report.forms import brief  # noqa: PLC0415

    steps = 0
    for found in follow(inputs, wish, release):
        say(printable_lines(brief(found)))
        sys.stdout.flush()
        steps = len(found.series.steps)
    return 0 if steps else 1


def compare(
    inputs: list[str],
    threshold: str | None,
    allow: list[str],
    hardware: str | None,
    precision: str | None,
    maxtext: str | None,
    format: str,  # noqa: A002 - the option's name
    output: str | None,
) -> int:
    """Compare runs with the first one; exit code 1 when one of them is a regression."""
    from moectl.actions.report import compare as made  # noqa: PLC0415
    from moectl.report.figure import shown  # noqa: PLC0415

    limit = _percent(threshold)
    wish = _wish(hardware, precision, None)
    found = made(inputs, limit, _allowed(allow), wish, maxtext or "")
    if format == "json":
        from moectl.report.forms import seen  # noqa: PLC0415

        text = json_text(seen([each.as_dict() for each in found]))
    else:
        lines = []
        for each in found:
            lines.append(each.sentence)
            for row in each.beside:
                before, after = shown(row.before, row.digits), shown(row.after, row.digits)
                lines.append(f"  {row.title:<40}  {before:>14}  {after:>14}")
            lines += [f"  allowed: {sentence}" for sentence in each.allowed]
        text = printable_lines("\n".join(lines)) + "\n"
    _put(text, output)
    return 1 if any(each.regression for each in found) else 0


def scaling(
    inputs: list[str],
    allow: list[str],
    hardware: str | None,
    precision: str | None,
    maxtext: str | None,
    format: str,  # noqa: A002 - the option's name
    output: str | None,
    plots: str | None,
) -> int:
    """Say how throughput grows with GPUs."""
    from moectl.actions.report import scaling as made  # noqa: PLC0415
    from moectl.report.scaling_forms import page, text_of  # noqa: PLC0415

    found = made(inputs, _allowed(allow), _wish(hardware, precision, None), maxtext or "")
    if format == "json":
        from moectl.report.forms import seen  # noqa: PLC0415

        text = json_text(seen(found.as_dict()))
    elif format == "html":
        text = page(found)
    else:
        text = printable_lines(text_of(found)) + "\n"
    _put(text, output)
    if plots is not None:
        from moectl.report.scaling import efficiency_plot, plot  # noqa: PLC0415

        _draw((plot(found), efficiency_plot(found)), plots)
    return 0


def _put(text: str, output: str | None) -> None:
    if output is None:
        say_text(text)
        return
    from moectl.launch.whole_file import write  # noqa: PLC0415

    write(Path(output), text)
    remark(f"wrote {output}")


def _draw(drawn: Iterable[Plot], folder: str) -> None:
    """Write every plot as SVG, and as PNG where matplotlib is installed."""
    from moectl.files import write_folder  # noqa: PLC0415
    from moectl.report.draw import svg  # noqa: PLC0415
    from moectl.report.draw_png import available, png  # noqa: PLC0415

    files: dict[str, bytes] = {}
    with_png = available()
    for plot in drawn:
        files[f"{plot.name}.svg"] = svg(plot, alone=True).encode()
        if with_png:
            files[f"{plot.name}.png"] = png(plot)
    if not files:
        remark("there is nothing to draw")
        return
    write_folder(Path(folder), files, seal=next(iter(files)), force=True)
    if not with_png:
        remark(_PNG)
    remark(f"wrote {len(files)} plots into {folder}")


def _show(path: Path) -> None:
    import webbrowser  # noqa: PLC0415 - only --open needs it

    if not webbrowser.open(path.resolve().as_uri()):
        remark("no browser could be started; open the file yourself")


def _wish(hardware: str | None, precision: str | None, gpus: str | None) -> Wish:
    from moectl.report.context import Wish  # noqa: PLC0415

    count = None
    if gpus is not None:
        count = whole("--gpus", gpus, "a whole number, 1 or more", most=10**7 - 1)
    return Wish(hardware or "", precision or "", count)


def _percent(text: str | None) -> float:
    from moectl.logs.maxtext import number  # noqa: PLC0415

    if text is None:
        return 0.02
    value = number(text.removesuffix("%"))
    if value is None or not 0 <= value < 100:
        raise ValueUsageError("--threshold", text, "a percentage from 0 to 100, e.g. 2")
    return value / 100


def _allowed(kinds: list[str]) -> list[str]:
    from moectl.errors import UnknownNameError  # noqa: PLC0415
    from moectl.report.compare import KINDS  # noqa: PLC0415

    for kind in kinds:
        if kind not in KINDS:
            raise UnknownNameError("difference", kind, KINDS, where="--allow", why=", ".join(KINDS))
    return kinds
