"""What validate says of files: what was looked at, and what was found."""

from __future__ import annotations

from dataclasses import dataclass

from moectl.findings import Finding


@dataclass(frozen=True, slots=True)
class Checked:
    """One thing that was checked.

    Attributes:
        name: as it was named: a path, "-" or "--xla-flags".
        kind: what it was taken for.
        text: its content, for showing lines; empty where nothing was found.
        told: what could not be read, or was taken for granted, one sentence each.
        others: further files in which something of it was found: (name, content).
    """

    name: str
    kind: str
    text: str = ""
    told: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What was found.

    Attributes:
        findings: by file in the order given, line, column and code; suppressed ones left out.
        checked: what was looked at.
        suppressed: how many findings a comment in a file took away.
    """

    findings: tuple[Finding, ...]
    checked: tuple[Checked, ...]
    suppressed: int = 0
