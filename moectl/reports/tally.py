"""What a report has come to so far, whose size does not grow with the number of files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from moectl.findings import SEVERITIES, Finding, Severity
from moectl.settings.bundle_names import LOCK

if TYPE_CHECKING:
    from moectl.checked import Report


class Tally:
    """Counts of a report that is taken in piece by piece, a file or more at a time.

    Attributes:
        counts: findings of each severity, each finding once.
        fixable: how many of them can be fixed.
        suppressed: how many findings a comment took away.
        checked: how many things were looked at.
        inputs: whether some of them are no files.
        kinds: what they were taken for.
    """

    def __init__(self) -> None:
        self.counts: dict[Severity, int] = dict.fromkeys(SEVERITIES, 0)
        self.fixable = 0
        self.suppressed = 0
        self.checked = 0
        self.inputs = False
        self.kinds: set[str] = set()
        # Two files may build on a third one, whose fault is told once.
        self._elsewhere: set[Finding] = set()

    def take(self, report: Report) -> Iterator[Finding]:
        """Count a piece and yield those of its findings that no piece had before."""
        self.suppressed += report.suppressed
        self.checked += len(report.checked)
        own = set()
        for one in report.checked:
            self.inputs = self.inputs or one.name.startswith("-")
            self.kinds.add(one.kind)
            own |= {one.name, f"{one.name.rstrip('/')}/{LOCK}"}
        for finding in dict.fromkeys(report.findings):
            if finding.file not in own:
                if finding in self._elsewhere:
                    continue
                self._elsewhere.add(finding)
            self.counts[finding.severity] += 1
            self.fixable += finding.fix is not None
            yield finding

    def failed(self, *, strict: bool) -> bool:
        """Whether there is what fails a check: errors, or with `strict` warnings too."""
        return bool(self.counts["error"] or (strict and self.counts["warning"]))


def tally_of(report: Report) -> Tally:
    """Return what a whole report comes to."""
    tally = Tally()
    for _ in tally.take(report):
        pass
    return tally


def counted(number: int, noun: str) -> str:
    """Return "1 error", "2 errors"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def summary(tally: Tally) -> str:
    """Return the last line: how many of what in how many files."""
    where = counted(tally.checked, "input" if tally.inputs else "file")
    said = ", ".join(counted(n, name) for name, n in tally.counts.items() if n)
    parts = [f"{said} in {where}" if said else f"no faults in {where}"]
    if tally.suppressed:
        parts.append(f"{tally.suppressed} suppressed")
    if tally.fixable:
        parts.append(f"{tally.fixable} can be fixed by --fix")
    return "; ".join(parts)
