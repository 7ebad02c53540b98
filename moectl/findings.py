"""What moectl says about a job: one fault, where it is, what is legal, what to type."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning", "note"]
_FOR_REPORTS = frozenset({"fix", "hides"})
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault or remark.

    Attributes:
        code: stable code of the rule, e.g. "TE104".
        severity: error (stops a render), warning, or note.
        field: the run-file path or MaxText key it is about.
        message: what is wrong, with the arithmetic, and where that is decided.
        hint: what to type.
        file: the file that said it, or where it came from ("--set", "preset deepseek3-671b").
        line: line in that file, from 1.
        column: column in that line, from 1.
        accepted: the reason for which a preset or `--allow` accepts it; empty if nobody did.
        fix: text at that place and what may safely stand there instead, or None.
        hides: whether the line holds a secret, so that no report may show it.
    """

    code: str
    severity: Severity
    field: str
    message: str
    hint: str = ""
    file: str = ""
    line: int | None = None
    column: int | None = None
    accepted: str = ""
    fix: tuple[str, str] | None = None
    hides: bool = False

    @property
    def stops(self) -> bool:
        """Whether a render stops for it."""
        return self.severity == "error" and not self.accepted

    def accept(self, reason: str) -> Finding:
        """Return the same finding, marked as accepted for `reason`; it stays visible."""
        return replace(self, accepted=reason)

    def as_dict(self) -> dict[str, object]:
        """Return the JSON form: every attribute under its own name, but those for reports only."""
        return {name: value for name, value in asdict(self).items() if name not in _FOR_REPORTS}

    @property
    def place(self) -> str:
        """Return file:line:column as far as known."""
        parts = [self.file or "-", self.line, self.column]
        return ":".join(str(part) for part in parts if part is not None)


def ordered(findings: list[Finding]) -> list[Finding]:
    """Sort findings by severity, then code, then field, without repeats."""
    unique = dict.fromkeys(findings)
    return sorted(unique, key=lambda f: (SEVERITIES.index(f.severity), f.code, f.field))
