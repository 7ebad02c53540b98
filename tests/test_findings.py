"""Findings: what stops a render, what is accepted, and in which order they are told."""

from __future__ import annotations

from dataclasses import fields
from itertools import permutations

from moectl.findings import Finding, ordered

ERROR = Finding("B2", "error", "x", "m", file="run.yaml", line=3, column=5)
WARNING = Finding("A1", "warning", "x", "m")
NOTE = Finding("A0", "note", "x", "m")


def test_only_an_error_that_nobody_accepted_stops_a_render() -> None:
    assert [f.stops for f in (ERROR, WARNING, NOTE)] == [True, False, False]
    assert not ERROR.accept("known").stops


def test_an_accepted_finding_stays_visible_with_its_reason() -> None:
    accepted = ERROR.accept("the published recipe does so")
    assert accepted.as_dict() == {
        **ERROR.as_dict(),
        "accepted": "the published recipe does so",
    }
    assert not ERROR.accepted


def test_the_json_form_has_every_attribute_but_those_for_reports() -> None:
    names = [field.name for field in fields(Finding)]
    assert names[-2:] == ["fix", "hides"]
    assert list(ERROR.as_dict()) == names[:-2]


def test_the_place_is_said_as_far_as_it_is_known() -> None:
    assert ERROR.place == "run.yaml:3:5"
    assert WARNING.place == "-"


def test_the_worst_comes_first_whatever_the_order_and_nothing_twice() -> None:
    for some in permutations([NOTE, ERROR, WARNING]):
        assert ordered([*some, ERROR]) == [ERROR, WARNING, NOTE]
