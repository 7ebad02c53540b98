"""A report that is written as it comes says the same as one that is written whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.checked import Checked, Report
from moectl.findings import SEVERITIES, Finding
from moectl.reports import Look, rendered, writer
from moectl.reports.tally import Tally, summary, tally_of

NAMES = ("a.yml", "b.yml", "base.yml")


@st.composite
def pieces(draw: st.DrawFn) -> list[Report]:
    """Reports of a file each; what is found may stand in a file that others build on too."""
    made = []
    for name in draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True)):
        findings = [
            Finding(
                draw(st.sampled_from(("KEY101", "MESH101"))),
                draw(st.sampled_from(SEVERITIES)),
                "steps",
                "wrong",
                file=draw(st.sampled_from((name, "base.yml"))),
                line=draw(st.integers(1, 2)),
                column=1,
            )
            for _ in range(draw(st.integers(0, 3)))
        ]
        told = tuple(draw(st.lists(st.sampled_from(("x", "y")), max_size=2)))
        base = (("base.yml", "steps: 0\nb: 1\n"),)
        checked = Checked(name, "config", "steps: 0\na: 1\n", told, base)
        made.append(Report(tuple(findings), (checked,), draw(st.integers(0, 1))))
    return made


@given(pieces(), st.sampled_from(("text", "json", "github")), st.booleans())
def test_pieces_and_the_whole_count_the_same(made: list[Report], form: str, quiet: bool) -> None:
    stream = writer(form, Look(quiet=quiet))
    assert stream is not None
    text = "".join([*(part for one in made for part in stream.add(one)), *stream.end()])
    whole = Report(
        tuple(finding for one in made for finding in one.findings),
        tuple(checked for one in made for checked in one.checked),
        sum(one.suppressed for one in made),
    )
    tally = tally_of(whole)
    assert stream.tally.checked == tally.checked == len(made)
    assert stream.tally.suppressed == tally.suppressed
    if form == "json":
        said = json.loads(text)
        assert said["checked"] == json.loads(rendered(whole, "json"))["checked"]
        assert len(said["findings"]) == sum(stream.tally.counts.values())
    elif not quiet:
        assert text.endswith(summary(stream.tally) + "\n")


def test_a_fault_of_a_file_that_two_build_on_is_told_once_with_its_line() -> None:
    fault = Finding("KEY101", "error", "steps", "wrong", file="base.yml", line=2, column=1)
    stream = writer("text", Look())
    assert stream is not None
    parts = [
        part
        for name in ("a.yml", "b.yml")
        for part in stream.add(
            Report(
                (fault,), (Checked(name, "config", "", (), (("base.yml", "x: 1\nsteps: 0\n"),)),), 0
            )
        )
    ]
    assert len(parts) == 1
    assert "2 | steps: 0\n" in parts[0]
    assert "".join(stream.end()) == "\n1 error in 2 files\n"


def test_the_json_of_pieces_is_the_json_of_a_list() -> None:
    fault = Finding("KEY101", "error", "steps", "wrong\n", file="a", line=1)
    checked = (Checked("a", "config"), Checked("b", "script", "", ("said",)))
    text = rendered(Report((fault, fault), checked, 3), "json")
    data = json.loads(text)
    assert text == json.dumps(data, indent=2) + "\n"
    assert len(data["findings"]) == 1
    assert [one["name"] for one in data["checked"]] == ["a", "b"]
    assert data["suppressed"] == 3


@pytest.mark.parametrize("form", ["sarif", "junit"])
def test_forms_that_need_the_whole_report_are_not_written_as_it_comes(form: str) -> None:
    assert writer(form, Look()) is None


def test_what_was_not_looked_at_counts_nothing() -> None:
    assert summary(Tally()) == "no faults in 0 files"
