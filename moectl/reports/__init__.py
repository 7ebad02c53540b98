"""What was found, in the forms that people, programs and CI systems read.

A report is text made of a `moectl.actions.validate.Report`; nothing here opens a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from moectl.checked import Report
    from moectl.reports.tally import Tally
    from moectl.rules.rule import Rule

FORMATS = ("text", "json", "github", "sarif", "junit")


@dataclass(frozen=True, slots=True)
class Look:
    """How a report is to look.

    Attributes:
        colour: ANSI colours, in text.
        quiet: findings only, in the forms for people.
        strict: whether a warning counts as a failure, in JUnit.
        root: folder that paths of SARIF are relative to; "" leaves them as they are.
        when: start of the check for JUnit, as YYYY-MM-DDTHH:MM:SS; "" is the epoch.
    """

    colour: bool = False
    quiet: bool = False
    strict: bool = False
    root: str = ""
    when: str = ""


def rendered(
    report: Report, form: str, look: Look | None = None, rules: Mapping[str, Rule] | None = None
) -> str:
    """Return a report as text.

    Args:
        report: what was found.
        form: one of `FORMATS`.
        look: how it is to look.
        rules: the rules by code; SARIF tells about those that were broken.
    """
    look = look or Look()
    # Each form is imported by itself: a plain check pays for none of the others.
    match form:
        case "json":
            from moectl.reports import json_report  # noqa: PLC0415

            return json_report.render(report)
        case "github":
            from moectl.reports import github  # noqa: PLC0415

            return github.render(report, quiet=look.quiet)
        case "sarif":
            from moectl.reports import sarif  # noqa: PLC0415

            return sarif.render(report, rules or {}, root=look.root)
        case "junit":
            from moectl.reports import junit  # noqa: PLC0415

            return junit.render(report, strict=look.strict, when=look.when)
        case _:
            from moectl.reports import text  # noqa: PLC0415

            return text.render(report, colour=look.colour, quiet=look.quiet)


class Writer(Protocol):
    """Writes a report as it comes, a file or more at a time, and counts what it holds."""

    tally: Tally

    def add(self, report: Report) -> Iterator[str]:
        """Yield what the next piece of the report adds."""

    def end(self) -> Iterator[str]:
        """Yield what ends the report."""


def writer(form: str, look: Look) -> Writer | None:
    """Return what writes a form as it comes; None for a form that needs the whole report.

    Args:
        form: one of `FORMATS`.
        look: how it is to look.
    """
    match form:
        case "text":
            from moectl.reports import text  # noqa: PLC0415

            return text.Writer(colour=look.colour, quiet=look.quiet)
        case "json":
            from moectl.reports import json_report  # noqa: PLC0415

            return json_report.Writer()
        case "github":
            from moectl.reports import github  # noqa: PLC0415

            return github.Writer(quiet=look.quiet)
        case _:
            return None
