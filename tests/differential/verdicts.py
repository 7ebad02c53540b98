"""Compares what MaxText says to a case with what moectl says, and counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from moectl.findings import Finding
from moectl.rules.maxtext_verdict import refused
from tests.differential.case import Case
from tests.judge.client import Verdict

# Where MaxText's own code ends in the frames of a verdict: below it is only the machinery.
_OWN = "maxtext/"
_BATCH = 40


class Outcome(StrEnum):
    """How the two verdicts compare."""

    ACCEPTED = "both accept"
    REFUSED = "both refuse"
    FALSE_ACCEPT = "false accept"
    FALSE_REFUSAL = "false refusal"
    # The judge died or would not judge: never an acceptance, and no agreement either.
    UNJUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A case with both verdicts.

    Attributes:
        case: what was asked.
        verdict: what MaxText says.
        findings: why moectl refuses it; empty if it accepts.
    """

    case: Case
    verdict: Verdict
    findings: Sequence[Finding]

    @property
    def outcome(self) -> Outcome:
        """Return how the verdicts compare."""
        if self.verdict.verdict not in {"accepted", "refused"}:
            return Outcome.UNJUDGED
        if self.verdict.accepted:
            return Outcome.FALSE_REFUSAL if self.findings else Outcome.ACCEPTED
        return Outcome.REFUSED if self.findings else Outcome.FALSE_ACCEPT

    @property
    def agrees(self) -> bool:
        """Whether both accept or both refuse."""
        return self.outcome in {Outcome.ACCEPTED, Outcome.REFUSED}

    def shown(self) -> str:
        """Return the disagreement for a person, with the command that repeats it."""
        said = self.verdict
        ours = "\n".join(f"  {f.code} {f.field}: {f.message}" for f in self.findings)
        return (
            f"---- {self.outcome}: {self.case.shown()}"
            f"MaxText: {said.verdict} at {said.stage}: {said.error_type} {said.error[:600]}"
            f" {said.where[-1:]}\n"
            f"moectl: {'refused' if self.findings else 'accepted'}\n{ours}\n"
            f"again: python -m tests.differential --case {self.case.id}\n"
        )


def ours(case: Case) -> list[Finding]:
    """Return why moectl refuses a case; empty if it accepts it."""
    return refused(case.text, case.arguments, case.devices, case.slices)


def compared(
    cases: Sequence[Case], judge: Callable[[Sequence[Mapping[str, Any]]], list[Verdict]]
) -> list[Comparison]:
    """Have cases judged by both."""
    found = []
    for first in range(0, len(cases), _BATCH):
        batch = cases[first : first + _BATCH]
        verdicts = judge([case.job() for case in batch])
        found += [Comparison(c, v, ours(c)) for c, v in zip(batch, verdicts, strict=True)]
    return found


def check_of(verdict: Verdict) -> str:
    """Return which check of MaxText refused: file and line, or the kind of a type error."""
    if verdict.accepted:
        return ""
    kind = re.search(r"\[type=(\w+),", verdict.error)
    if kind and kind[1] not in {"value_error", "assertion_error"}:
        return f"pydantic {kind[1]}"
    own = [frame for frame in verdict.where if _OWN in frame]
    return own[-1].partition(_OWN)[2] if own else (verdict.where or [verdict.error_type])[-1]


def tally(comparisons: Iterable[Comparison]) -> list[str]:
    """Return the count of outcomes, then of MaxText's refusals by stage, then by check."""
    rows = list(comparisons)
    outcomes = Counter(row.outcome for row in rows)
    stages = Counter(row.verdict.stage for row in rows if not row.verdict.accepted)
    checks = Counter(check_of(row.verdict) for row in rows if not row.verdict.accepted)
    counted = ", ".join(f"{outcomes[kind]} {kind}" for kind in Outcome)
    return [
        f"{len(rows)} cases: {counted}",
        "refused at " + ", ".join(f"{stage}: {n}" for stage, n in sorted(stages.items())),
        f"{len(checks)} checks of MaxText met",
        *(f"{n:5} {check}" for check, n in checks.most_common()),
    ]


def line(name: str, comparisons: Sequence[Comparison]) -> str:
    """Return the tally in one line."""
    first, _, checks = tally(comparisons)[:3]
    return f"{name}: {first}; {checks}"
