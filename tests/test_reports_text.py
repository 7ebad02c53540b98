"""The report for people: what is pointed at, and that nothing hostile reaches the terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.actions.validate import Checked, Report
from moectl.findings import Finding
from moectl.reports import FORMATS, Look, rendered
from moectl.reports.escape import printable
from moectl.reports.lines import WIDTH, caret
from moectl.reports.tally import tally_of

HOSTILE = "a\x1b[31m\nb\udcff \"c'\u202e.yml"


def report(
    *findings: Finding, text: str = "", name: str = "run.yml", suppressed: int = 0
) -> Report:
    return Report(findings, (Checked(name, "run file", text),), suppressed)


def fault(**changes: object) -> Finding:
    said: dict[str, object] = {
        "code": "MESH101",
        "severity": "error",
        "field": "ici_fsdp_parallelism",
        "message": "covers 32 of 64 GPUs",
        "hint": "set it to 64",
        "file": "run.yml",
        "line": 2,
        "column": 23,
    }
    return Finding(**{**said, **changes})  # type: ignore[arg-type]


def test_a_finding_shows_place_code_line_caret_and_remedy() -> None:
    text = "steps: 5\nici_fsdp_parallelism: 32\n"
    assert rendered(report(fault(), text=text), "text") == (
        "run.yml:2:23: error[MESH101] ici_fsdp_parallelism: covers 32 of 64 GPUs\n"
        "2 | ici_fsdp_parallelism: 32\n"
        "  |                       ^\n"
        "   help: set it to 64\n"
        "\n"
        "1 error in 1 file\n"
    )


def test_a_message_that_begins_with_its_field_does_not_say_it_twice() -> None:
    said = rendered(report(fault(field="steps", message="steps is 0")), "text")
    assert "error[MESH101] steps is 0\n" in said


def test_a_finding_without_a_line_shows_where_the_value_came_from() -> None:
    finding = fault(file="preset deepseek3-671b", line=None, column=None)
    said = rendered(report(finding, text="a: 1\n"), "text")
    assert said.startswith("preset deepseek3-671b: error[MESH101]")
    assert "|" not in said


def test_a_bundle_shows_the_lines_of_its_lock_file() -> None:
    finding = fault(file="b/moectl.lock.yaml", line=1, column=1)
    said = rendered(report(finding, text="gpus: 4\n", name="b/"), "text")
    assert "\n1 | gpus: 4\n" in said


def test_the_same_finding_is_shown_once_and_one_place_shows_its_line_once() -> None:
    text = "a: 1\nkey: v\n"
    other = fault(code="MESH102")
    said = rendered(report(fault(column=1), fault(column=1), other, text=text), "text")
    assert said.count("MESH101") == 1
    same_place = report(fault(column=1), fault(column=1, code="MESH102"), text=text)
    assert rendered(same_place, "text").count("2 | key: v") == 1


@pytest.mark.parametrize(
    ("findings", "suppressed", "said"),
    [
        ((), 0, "no faults in 1 file\n"),
        ((), 2, "no faults in 1 file; 2 suppressed\n"),
        (
            (fault(), fault(line=3), fault(severity="note"), fault(severity="warning")),
            0,
            "2 errors, 1 warning, 1 note in 1 file\n",
        ),
        ((fault(fix=("a", "b")),), 0, "1 error in 1 file; 1 can be fixed by --fix\n"),
    ],
)
def test_the_summary_counts(findings: tuple[Finding, ...], suppressed: int, said: str) -> None:
    assert rendered(report(*findings, suppressed=suppressed), "text").endswith(said)


def test_what_could_not_be_read_is_told_once_for_all_files() -> None:
    checked = tuple(Checked(f"{n}.sh", "script", "", ("the image is not said",)) for n in range(5))
    said = rendered(Report((), checked, 0), "text")
    assert said == ("0.sh, 1.sh, 2.sh and 2 more: the image is not said\n\nno faults in 5 files\n")
    assert rendered(Report((), checked, 0), "text", Look(quiet=True)) == ""


def test_colours_are_written_only_when_wanted() -> None:
    one = report(fault(), text="a: 1\nici_fsdp_parallelism: 32\n")
    plain = rendered(one, "text")
    assert "\x1b" not in plain
    coloured = rendered(one, "text", Look(colour=True))
    assert "\x1b[1;31merror[MESH101]\x1b[0m" in coloured
    assert "\x1b[1;31m^\x1b[0m\n" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize(
    ("line", "column", "shown", "under"),
    [
        ("a: b", 4, "a: b", "   ^"),
        ("\ta: b", 2, "    a: b", "    ^"),
        ("a\tb", 3, "a    b", "     ^"),
        ("日本: x", 5, "日本: x", "      ^"),
        ("e\u0301: x", 5, "e\u0301: x", "   ^"),
        ("a\x1b[0m: x", 8, "a\\x1b[0m: x", "          ^"),
        ("a\u00a0b", 3, "a\\xa0b", "     ^"),
        ("", 1, "", "^"),
        ("ab", 3, "ab", "  ^"),
        ("ab", 4, "ab", ""),
        ("ab", 0, "ab", ""),
        ("ab", None, "ab", ""),
    ],
)
def test_the_caret_stands_under_the_column(
    line: str, column: int | None, shown: str, under: str
) -> None:
    assert caret(line, column) == (shown, under)


def test_a_caret_spans_the_text_that_can_be_fixed() -> None:
    assert caret("a: 3e-4 # x", 4, 4) == ("a: 3e-4 # x", "   ^^^^")


def test_a_long_line_is_cut_around_the_caret() -> None:
    line = "x" * 500 + "HERE" + "y" * 500
    shown, under = caret(line, 501)
    assert shown[under.index("^") :].startswith("HERE")
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= WIDTH + 1
    shown, under = caret("start" + "y" * 500, 1)
    assert (shown[:5], under) == ("start", "^")


@given(st.text(max_size=300), st.integers(-1, 310), st.integers(0, 400))
def test_every_line_is_shown_printable_and_no_wider_than_the_limit(
    line: str, column: int, length: int
) -> None:
    shown, under = caret(line, column, length)
    assert shown.isprintable()
    assert set(under) <= {" ", "^"}
    assert len(shown) <= WIDTH + 12
    assert len(under) <= 2 * WIDTH + 12


def test_hostile_names_and_messages_are_one_printable_line_each() -> None:
    finding = fault(file=HOSTILE, message=HOSTILE, hint=HOSTILE, field=HOSTILE)
    said = rendered(report(finding, name=HOSTILE, text="\x1b]0;x\x07\n\x1b[2J\n"), "text")
    assert all(line.isprintable() for line in said.split("\n"))
    assert said.splitlines()[0].startswith(
        "a\\x1b[31m\\nb\\xff \"c'\\u202e.yml:2:23: error[MESH101]"
    )
    said.encode()


@given(st.text())
def test_what_is_printable_is_left_alone_and_the_rest_is_escaped(text: str) -> None:
    said = printable(text)
    assert said.isprintable()
    said.encode()
    assert said == text or not text.isprintable()


def test_errors_fail_and_warnings_only_when_strict() -> None:
    assert tally_of(report(fault())).failed(strict=False)
    assert not tally_of(report(fault(severity="warning"))).failed(strict=False)
    assert tally_of(report(fault(severity="warning"))).failed(strict=True)
    assert not tally_of(report(fault(severity="note"))).failed(strict=True)


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_of_an_empty_report_can_be_written(form: str) -> None:
    assert rendered(Report((), (), 0), form).encode()


ANY = st.text(st.characters(codec=None), max_size=12)


@given(ANY, ANY, ANY, st.integers(1, 4), st.integers(1, 20), ANY.filter(bool))
def test_no_text_of_a_stranger_reaches_a_stream_as_it_is(
    said: str, hint: str, text: str, line: int, column: int, name: str
) -> None:
    finding = fault(
        message=said, hint=hint, field=said, file=name, line=line, column=column, fix=(said, hint)
    )
    checked = Checked(name, said or "file", text, (hint,))
    for form in FORMATS:
        written = rendered(Report((finding,), (checked,), 0), form)
        written.encode()
        assert all(row.isprintable() for row in written.split("\n"))
