"""The report for people: place, fault, the line with a caret, what to type, and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from moectl.findings import SEVERITIES, Finding, Severity
from moectl.reports.escape import printable
from moectl.reports.lines import Texts, caret

if TYPE_CHECKING:
    from moectl.checked import Checked, Report

# Written by hand: rich takes longer to import than a whole check takes.
_COLOURS: dict[str, str] = {"error": "1;31", "warning": "1;33", "note": "1;36"}
_BOLD, _DIM = "1", "2"
_NAMED = 3


def render(report: Report, *, colour: bool = False, quiet: bool = False) -> str:
    """Return the report for people.

    Args:
        report: what was found.
        colour: whether to write ANSI colours.
        quiet: whether to leave out what could not be read and the summary.
    """
    texts = Texts(report.checked)
    parts = list(_findings(report.findings, texts, colour))
    if not quiet:
        if said := list(_told(report.checked)):
            parts.append("\n".join(said) + "\n")
        parts.append(summary(report) + "\n")
    return "\n".join(parts)


def block(finding: Finding) -> str:
    """Return one finding without its line of the file, for formats that carry text."""
    head = f"{printable(finding.place)}: {finding.severity}[{finding.code}] {sentence(finding)}"
    return f"{head}\n  help: {printable(finding.hint)}" if finding.hint else head


def sentence(finding: Finding) -> str:
    """Return the field and the message, printable; the field once."""
    field, message = printable(finding.field), printable(finding.message)
    return message if not field or message.startswith(field) else f"{field}: {message}"


def counted(number: int, noun: str) -> str:
    """Return "1 error", "2 errors"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def counts(findings: Iterable[Finding]) -> dict[Severity, int]:
    """Return how many findings of each severity there are."""
    found: dict[Severity, int] = dict.fromkeys(SEVERITIES, 0)
    for finding in findings:
        found[finding.severity] += 1
    return found


def summary(report: Report) -> str:
    """Return the last line: how many of what in how many files."""
    unique = dict.fromkeys(report.findings)
    noun = "input" if any(one.name.startswith("-") for one in report.checked) else "file"
    where = counted(len(report.checked), noun)
    said = ", ".join(counted(n, name) for name, n in counts(unique).items() if n)
    parts = [f"{said} in {where}" if said else f"no faults in {where}"]
    if report.suppressed:
        parts.append(f"{report.suppressed} suppressed")
    if fixable := sum(finding.fix is not None for finding in unique):
        parts.append(f"{fixable} can be fixed by --fix")
    return "; ".join(parts)


def _findings(findings: Iterable[Finding], texts: Texts, colour: bool) -> Iterator[str]:
    before: tuple[object, ...] = ()
    for finding in dict.fromkeys(findings):
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


def _told(checked: Iterable[Checked]) -> Iterator[str]:
    """Yield what could not be read or was taken for granted, each sentence once."""
    said: dict[str, list[str]] = {}
    for one in checked:
        for told in one.told:
            names = said.setdefault(told, [])
            if one.name not in names[-1:]:
                names.append(one.name)
    for told, names in said.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{', '.join(map(printable, names[:_NAMED]))}{more}: {printable(told)}"
