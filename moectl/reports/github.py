"""Workflow commands, which GitHub Actions shows beside the lines of a change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from moectl.findings import Finding
from moectl.reports.escape import printable, printable_lines
from moectl.reports.lines import Texts
from moectl.reports.tally import Tally, summary
from moectl.reports.text import sentence

if TYPE_CHECKING:
    from moectl.checked import Report

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


class Writer:
    """Writes one workflow command a finding as they come, and the summary as a plain line."""

    def __init__(self, *, quiet: bool = False) -> None:
        """Begin; `quiet` leaves the summary out."""
        self.tally = Tally()
        self._quiet = quiet

    def add(self, report: Report) -> Iterator[str]:
        """Yield what the next piece of the report adds."""
        texts = Texts(report.checked)
        for finding in self.tally.take(report):
            yield f"{_command(finding, texts)}\n"

    def end(self) -> Iterator[str]:
        """Yield the summary."""
        if not self._quiet:
            yield f"{summary(self.tally)}\n"


def render(report: Report, *, quiet: bool = False) -> str:
    """Return the whole report as workflow commands; see `Writer`."""
    writer = Writer(quiet=quiet)
    return "".join([*writer.add(report), *writer.end()])


def _command(finding: Finding, texts: Texts) -> str:
    named = bool(finding.file) and not finding.file.startswith("-")
    has_place = named and (texts.knows(finding.file) or finding.line is not None)
    properties = ",".join(f"{name}={value}" for name, value in _properties(finding, has_place))
    message = sentence(finding) if has_place else f"{printable(finding.place)}: {sentence(finding)}"
    if finding.hint:
        message += f"\nhelp: {printable(finding.hint)}"
    return f"::{_COMMANDS[finding.severity]} {properties}::{_data(message)}"


def _properties(finding: Finding, has_place: bool) -> Iterator[tuple[str, str]]:
    if has_place:
        yield "file", _property(finding.file)
        if finding.line is not None:
            yield "line", str(finding.line)
            if finding.column is not None:
                yield "col", str(finding.column)
    yield "title", _property(finding.code)


def _data(text: str) -> str:
    text = printable_lines(text.replace("\r", "\n"))
    return text.replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    # Line breaks can be said exactly; the rest of what is not printable cannot.
    parts = [
        {"\r": "%0D", "\n": "%0A", "%": "%25", ":": "%3A", ",": "%2C"}.get(letter)
        or printable(letter)
        for letter in text
    ]
    return "".join(parts)
