"""What a rule is: a pure function over a workload or a job, and the words about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from moectl.findings import Finding, Severity
from moectl.values import Origin
from moectl.workload import Workload

Stage: TypeAlias = Literal["reads", "config", "later", "silent", "advice"]
STAGES: dict[Stage, str] = {
    "reads": "the file cannot be read as what it is meant to be",
    "config": "MaxText's config check refuses it",
    "later": "it passes MaxText's config check and fails after start-up",
    "silent": "it runs, and does something else than it says",
    "advice": "it runs",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One place where a rule is broken.

    Attributes:
        field: the key, flag, variable or option it is about.
        message: what is wrong, with the value and the arithmetic.
        origin: where it was said.
        hint: what to type instead; the rule's remedy when empty.
        severity: when it differs from the rule's.
        fix: replacement of the text at `origin` that is safe to make: (old, new).
        hides: whether the line holds a secret, so that no report may show it.
    """

    field: str
    message: str
    origin: Origin
    hint: str = ""
    severity: Severity | None = None
    fix: tuple[str, str] | None = None
    hides: bool = False


Check: TypeAlias = Callable[[Workload], Iterator[Fault]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Attributes:
        code: stable code; its letters are the family.
        title: what it is about, in a few words.
        reason: why it matters, in a sentence or two.
        remedy: what to do about it.
        source: where that is known from, with the release.
        severity: error (fails on the cluster), warning, or note.
        stage: when it would have been noticed; see STAGES.
        check: finds the faults in a workload; None for a rule of another place.
    """

    code: str
    title: str
    reason: str
    remedy: str
    source: str
    severity: Severity
    stage: Stage
    check: Check | None = None

    def findings(self, workload: Workload) -> Iterator[Finding]:
        """Yield a finding for every fault in a workload."""
        if self.check is not None:
            for fault in self.check(workload):
                yield self.finding(fault)

    def finding(self, fault: Fault) -> Finding:
        """Return the finding of a fault."""
        return Finding(
            code=self.code,
            severity=fault.severity or self.severity,
            field=fault.field,
            message=fault.message,
            hint=fault.hint or self.remedy,
            file=fault.origin.file or fault.origin.layer,
            line=fault.origin.line,
            column=fault.origin.column,
            fix=fault.fix,
            hides=fault.hides,
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one module: `RULES = Rules()`, then `@RULES.rule("XLA101", ...)`."""

    all: list[Rule]

    def rule(
        self,
        code: str,
        title: str,
        *,
        reason: str,
        remedy: str,
        source: str,
        severity: Severity = "error",
        stage: Stage = "later",
    ) -> Callable[[Check], Check]:
        """Return a decorator that makes a rule of a check."""

        def declare(check: Check) -> Check:
            self.all.append(Rule(code, title, reason, remedy, source, severity, stage, check))
            return check

        return declare


def rules() -> Rules:
    """Return an empty list of rules for a module to declare its own in."""
    return Rules([])
