"""The report for people: place, fault, the line with a caret, what to type, and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from moectl.findings import Finding
from moectl.reports.escape import printable
from moectl.reports.lines import Texts, caret
from moectl.reports.tally import Tally, summary

if TYPE_CHECKING:
    from moectl.checked import Report

# Written by hand: rich takes longer to import than a whole check takes.
_COLOURS: dict[str, str] = {"error": "1;31", "warning": "1;33", "note": "1;36"}
_BOLD, _DIM = "1", "2"
_NAMED = 3


class Writer:
    """Writes the report for people as it comes, a file or more at a time."""

    def __init__(self, *, colour: bool = False, quiet: bool = False) -> None:
        """Begin.

        Args:
            colour: whether to write ANSI colours.
            quiet: whether to leave out what could not be read and the summary.
        """
        self.tally = Tally()
        self._colour = colour
        self._quiet = quiet
        self._empty = True
        # A remark to the first files that have it, and how many there are.
        self._told: dict[str, tuple[list[str], int]] = {}

    def add(self, report: Report) -> Iterator[str]:
        """Yield what the next piece of the report adds."""
        texts = Texts(report.checked)
        for part in _findings(self.tally.take(report), texts, self._colour):
            yield from self._part(part)
        for one in report.checked:
            for told in dict.fromkeys(one.told):
                names, number = self._told.get(told, ([], 0))
                if len(names) < _NAMED:
                    names.append(one.name)
                self._told[told] = (names, number + 1)

    def end(self) -> Iterator[str]:
        """Yield the remarks and the summary."""
        if self._quiet:
            return
        if self._told:
            yield from self._part("\n".join(self._remarks()) + "\n")
        yield from self._part(summary(self.tally) + "\n")

    def _part(self, text: str) -> Iterator[str]:
        yield text if self._empty else f"\n{text}"
        self._empty = False

    def _remarks(self) -> Iterator[str]:
        for told, (names, number) in self._told.items():
            more = f" and {number - len(names)} more" if number > len(names) else ""
            yield f"{', '.join(map(printable, names))}{more}: {printable(told)}"


def render(report: Report, *, colour: bool = False, quiet: bool = False) -> str:
    """Return the whole report for people; see `Writer`."""
    writer = Writer(colour=colour, quiet=quiet)
    return "".join([*writer.add(report), *writer.end()])


def block(finding: Finding) -> str:
    """Return one finding without its line of the file, for formats that carry text."""
    head = f"{printable(finding.place)}: {finding.severity}[{finding.code}] {sentence(finding)}"
    return f"{head}\n  help: {printable(finding.hint)}" if finding.hint else head


def sentence(finding: Finding) -> str:
    """Return the field and the message, printable; the field once."""
    field, message = printable(finding.field), printable(finding.message)
    return message if not field or message.startswith(field) else f"{field}: {message}"


def _findings(findings: Iterable[Finding], texts: Texts, colour: bool) -> Iterator[str]:
    before: tuple[object, ...] = ()
    for finding in findings:
        place = (finding.file, finding.line, finding.column)
        # Two faults of one place show its line once.
        line = None if place == before else texts.line(finding.file, finding.line)
        before = place
        yield "\n".join(_lines(finding, line, colour)) + "\n"


def _lines(finding: Finding, line: str | None, colour: bool) -> Iterator[str]:
    def paint(code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour and text else text

    label = paint(_COLOURS[finding.severity], f"{finding.severity}[{finding.code}]")
    yield f"{paint(_BOLD, printable(finding.place))}: {label} {sentence(finding)}"
    margin = ""
    if line is not None:
        number = str(finding.line)
        margin = " " * len(number)
        shown, pointer = caret(line, finding.column, len(finding.fix[0]) if finding.fix else 1)
        yield paint(_DIM, f"{number} |") + (f" {shown}" if shown else "")
        if pointer:
            pad = pointer[: len(pointer) - len(pointer.lstrip())]
            mark = paint(_COLOURS[finding.severity], pointer.lstrip())
            yield f"{paint(_DIM, f'{margin} |')} {pad}{mark}"
    if finding.accepted:
        yield f"{margin}  accepted: {printable(finding.accepted)}"
    if finding.hint:
        yield f"{margin}  {paint(_BOLD, 'help')}: {printable(finding.hint)}"
