"""moectl refuses what real MaxText refuses, and nothing else."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import pytest

from moectl.facts import maxtext as catalogue
from moectl.findings import Finding
from tests.conftest import SUMMARY
from tests.differential.__main__ import page
from tests.differential.case import Case
from tests.differential.directed import directed
from tests.differential.draft import RELEASE
from tests.differential.mutate import draw, topics
from tests.differential.permanent import permanent
from tests.differential.verdicts import (
    Comparison,
    Outcome,
    check_of,
    compared,
    line,
    ours,
    tally,
)
from tests.judge.client import Judge, Verdict

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


def test_a_topic_names_only_keys_that_maxtext_has() -> None:
    keys = {*catalogue.load(RELEASE).keys(), "base_config"}
    said = {
        key
        for topic in topics().values()
        for part in ("set", "vary")
        for key in topic.get(part, ())
    }
    assert said - keys == set()


def test_a_draw_of_a_few_hundred_meets_every_topic() -> None:
    titles = "; ".join(draw(1, index).title for index in range(800))
    assert [name for name in topics() if f"; {name};" not in titles] == []


REFUSED = Verdict(
    id="x",
    verdict="refused",
    stage="config",
    error_type="ValidationError",
    error="1 validation error\n  Value error, no [type=value_error, input_value={}]",
    where=["pydantic/main.py:280", "maxtext/configs/types.py:4159"],
)
ACCEPTED = Verdict(id="x", verdict="accepted", stage="done")
FAULT = Finding("MOE101", "error", "use_ragged_sort", "EP has rank 1")


@pytest.mark.parametrize(
    ("verdict", "findings", "outcome"),
    [
        (ACCEPTED, [], Outcome.ACCEPTED),
        (ACCEPTED, [FAULT], Outcome.FALSE_REFUSAL),
        (REFUSED, [FAULT], Outcome.REFUSED),
        (REFUSED, [], Outcome.FALSE_ACCEPT),
        (Verdict(id="x", verdict="crashed", stage="crash"), [], Outcome.UNJUDGED),
        (Verdict(id="x", verdict="too-large", stage="job"), [FAULT], Outcome.UNJUDGED),
    ],
)
def test_only_equal_verdicts_agree_and_a_crash_of_the_judge_never_does(
    verdict: Verdict, findings: list[Finding], outcome: Outcome
) -> None:
    row = Comparison(Case("7:3", "steps: 1\n"), verdict, findings)
    assert row.outcome is outcome
    assert row.agrees is (outcome in {Outcome.ACCEPTED, Outcome.REFUSED})


def test_a_disagreement_is_shown_with_both_reasons_and_the_command_to_repeat_it() -> None:
    case = Case("7:3", "steps: 1\n", ["run_name=a b"], 16, 2, "steps=1")
    said = Comparison(case, REFUSED, []).shown()
    assert "false accept: case 7:3: steps=1" in said
    assert "16 devices, 2 slices, arguments: 'run_name=a b'" in said
    assert "maxtext/configs/types.py:4159" in said
    assert "python -m tests.differential --case 7:3" in said
    assert "MOE101 use_ragged_sort: EP has rank 1" in Comparison(case, ACCEPTED, [FAULT]).shown()


def test_a_refusal_is_counted_by_the_check_that_made_it() -> None:
    typed = Verdict(
        id="x", verdict="refused", stage="config", error="a [type=enum, input_value=1]", where=[]
    )
    outside = Verdict(
        id="x", verdict="refused", stage="config", error_type="E", where=["yaml/constructor.py:141"]
    )
    assert check_of(REFUSED) == "configs/types.py:4159"
    assert check_of(typed) == "pydantic enum"
    assert check_of(outside) == "yaml/constructor.py:141"
    assert check_of(ACCEPTED) == ""
    case = Case("7:3", "")
    rows = [Comparison(case, REFUSED, [FAULT]), Comparison(case, ACCEPTED, [])]
    assert tally(rows)[0].startswith("2 cases: 1 both accept, 1 both refuse, 0 false accept")
    assert tally(rows)[1:] == [
        "refused at config: 1",
        "1 checks of MaxText met",
        "    1 configs/types.py:4159",
    ]
    assert "| configs/types.py:4159 | 1 |" in page([("drawn cases", rows)], 1.0)
