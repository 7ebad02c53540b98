"""The report for programs."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from moectl.actions.validate import Checked, Report
from moectl.findings import Finding
from moectl.reports import rendered
from moectl.reports.escape import printable
from moectl.reports.json_report import dumped

FINDING = Finding("XLA101", "warning", "XLA_FLAGS", "a word", "remove it", "run.sh", 3, 7)


def test_findings_and_what_was_checked_have_exactly_the_promised_names() -> None:
    one = Report((FINDING, FINDING), (Checked("run.sh", "script", "x", ("no image",)),), 2)
    assert json.loads(rendered(one, "json")) == {
        "findings": [
            {
                "code": "XLA101",
                "severity": "warning",
                "field": "XLA_FLAGS",
                "message": "a word",
                "hint": "remove it",
                "file": "run.sh",
                "line": 3,
                "column": 7,
            }
        ],
        "checked": [{"name": "run.sh", "kind": "script", "told": ["no image"]}],
        "suppressed": 2,
    }


def test_an_unknown_place_is_null() -> None:
    [row] = json.loads(rendered(Report((Finding("A1", "note", "", "m"),), (), 0), "json"))[
        "findings"
    ]
    assert (row["line"], row["column"]) == (None, None)


def is_half(letter: str) -> bool:
    """Whether a character is half of a surrogate pair, which no strict reader takes."""
    return 0xD800 <= ord(letter) <= 0xDFFF


@given(st.text(st.characters(codec=None), max_size=40))
def test_any_text_comes_back_as_it_was_and_no_terminal_acts_on_it(text: str) -> None:
    said = dumped({"findings": [text], text: 1})
    whole = "".join(printable(letter) if is_half(letter) else letter for letter in text)
    assert json.loads(said) == {"findings": [whole], whole: 1}
    json.dumps(json.loads(said), ensure_ascii=False).encode("utf-8", "strict")
    said.encode("ascii")
    assert all(line.isprintable() for line in said.split("\n"))


def test_a_name_with_escapes_bytes_and_astral_controls_survives() -> None:
    name = "a\x7f\x1b\udcff\U000e0001\u2028.yml"
    said = dumped([name])
    assert json.loads(said) == [name.replace("\udcff", "\\xff")]
    assert said.isascii()
