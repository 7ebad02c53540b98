"""moectl refuses what real MaxText refuses, and nothing else."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest

from tests.conftest import SUMMARY
from tests.differential.case import Case
from tests.differential.directed import directed
from tests.differential.mutate import draw
from tests.differential.permanent import permanent
from tests.differential.verdicts import Comparison, compared, line, ours
from tests.judge.client import Judge

SEED = int(os.environ.get("MOECTL_DIFFERENTIAL_SEED", "20260909"))
DRAWN = 100
# Of the fixed cases MaxText judges this many anew in each run; all of them in `.ci/full`.
JUDGED_AGAIN = 40


def disagreements(rows: Sequence[Comparison]) -> str:
    return "\n".join(row.shown() for row in rows if not row.agrees)


def contradictions(cases: Sequence[Case]) -> list[str]:
    """Return the cases that moectl judges otherwise than is recorded of MaxText."""
    found = [(case, ours(case)) for case in cases]
    return [
        f"{case.shown()}recorded: MaxText {'accepts' if case.accepted else 'refuses'}; moectl:"
        f" {[f'{f.code} {f.message}' for f in findings] or 'accepts'}\n"
        for case, findings in found
        if case.accepted is bool(findings)
    ]


def some(cases: Sequence[Case]) -> list[Case]:
    return random.Random(SEED).sample(list(cases), min(JUDGED_AGAIN, len(cases)))  # noqa: S311


def told(pytestconfig: pytest.Config, name: str, rows: Sequence[Comparison]) -> None:
    pytestconfig.stash.setdefault(SUMMARY, []).append(line(name, rows))


def test_no_verdict_on_a_hundred_drawn_configurations_differs_from_maxtext(
    maxtext: Judge, pytestconfig: pytest.Config
) -> None:
    rows = compared([draw(SEED, index) for index in range(DRAWN)], maxtext)
    told(pytestconfig, f"differential, MOECTL_DIFFERENTIAL_SEED={SEED}", rows)
    assert disagreements(rows) == ""
    # A draw that MaxText only refuses, or only accepts, would compare little.
    accepted = sum(row.verdict.accepted for row in rows)
    assert DRAWN // 4 < accepted < DRAWN * 3 // 4


def test_every_check_of_maxtext_refuses_where_it_should_and_only_there() -> None:
    cases = directed()
    assert len(cases) > 600
    assert "\n".join(contradictions(cases)) == ""


def test_every_disagreement_of_the_past_stays_resolved() -> None:
    cases = permanent()
    assert cases
    assert len({case.id for case in cases}) == len(cases)
    assert "\n".join(contradictions(cases)) == ""


@pytest.mark.parametrize(("name", "cases"), [("directed", directed()), ("permanent", permanent())])
def test_maxtext_still_says_what_is_recorded_of_it(
    name: str, cases: Sequence[Case], maxtext: Judge, pytestconfig: pytest.Config
) -> None:
    rows = compared(some(cases), maxtext)
    told(pytestconfig, f"{name} cases judged again", rows)
    assert [row.case.id for row in rows if row.verdict.accepted is not row.case.accepted] == []
    assert disagreements(rows) == ""


def test_the_same_seed_draws_the_same_configurations() -> None:
    assert [draw(3, index) for index in range(20)] == [draw(3, index) for index in range(20)]
    assert draw(3, 0) != draw(4, 0)
