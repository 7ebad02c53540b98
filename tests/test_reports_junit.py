"""JUnit XML, read back: a case for each file, failures with text, nothing XML forbids."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from moectl.actions.validate import Checked, Report
from moectl.findings import Finding
from moectl.reports import Look, rendered

ERROR = Finding("XLA101", "error", "XLA_FLAGS", "a < b & c", 'use "x"', "a.sh", 2, 3)
WARNING = Finding("ENV101", "warning", "NCCL_X", "odd", "", "b.sh", 1)
CHECKED = (Checked("a.sh", "script", "x"), Checked("b.sh", "script", "x", ("no image",)))


def suite(
    *findings: Finding, checked: tuple[Checked, ...] = CHECKED, strict: bool = False
) -> ET.Element:
    look = Look(strict=strict, when="2026-01-02T03:04:05")
    root = ET.fromstring(rendered(Report(findings, checked, 0), "junit", look))  # noqa: S314
    check(root)
    return root[0]


def check(root: ET.Element) -> None:
    """Assert the shape that CI systems share."""
    assert (root.tag, [child.tag for child in root]) == ("testsuites", ["testsuite"])
    [suite] = root
    tags = [child.tag for child in suite]
    cases = [child for child in suite if child.tag == "testcase"]
    middle = ["testcase"] * len(cases)
    assert tags == ["properties", *middle, "system-out", "system-err"]
    failures = [child for case in cases for child in case]
    assert all(len(case) <= 1 and case.get("name") and case.get("classname") for case in cases)
    assert all(failure.tag == "failure" and failure.text for failure in failures)
    for element in (root, suite):
        assert element.get("tests") == str(len(cases))
        assert element.get("failures") == str(len(failures))
        assert element.get("errors") == "0"
    assert {"name", "timestamp", "hostname", "time", "skipped"} <= set(suite.attrib)


def test_every_checked_file_is_a_case_and_an_error_fails_it() -> None:
    found = suite(ERROR, WARNING)
    cases = {case.get("name"): case for case in found.iter("testcase")}
    assert set(cases) == {"a.sh", "b.sh"}
    failure = cases["a.sh"].find("failure")
    assert failure is not None
    assert (failure.get("message"), failure.get("type")) == ("1 fault: XLA101", "XLA101")
    assert failure.text == ('a.sh:2:3: error[XLA101] XLA_FLAGS: a < b & c\n  help: use "x"')
    assert len(cases["b.sh"]) == 0
    assert found.findtext("system-out") == "b.sh:1: warning[ENV101] NCCL_X: odd"
    assert found.findtext("system-err") == "b.sh: no image"
    assert found.get("timestamp") == "2026-01-02T03:04:05"


def test_a_warning_fails_when_strict() -> None:
    assert suite(WARNING).get("failures") == "0"
    assert suite(WARNING, strict=True).get("failures") == "1"


def test_all_faults_of_a_file_stand_in_its_one_failure() -> None:
    other = Finding("XLA102", "error", "", "m", "", "a.sh", 9)
    failure = suite(ERROR, ERROR, other).find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "2 faults: XLA101, XLA102"
    assert (failure.text or "").count("error[") == 2


def test_a_file_that_a_checked_one_builds_on_gets_a_case_when_it_is_at_fault() -> None:
    found = suite(Finding("A1", "error", "", "m", file="base.yml", line=1))
    assert [case.get("name") for case in found.iter("testcase")] == ["a.sh", "b.sh", "base.yml"]


def test_nothing_checked_is_an_empty_suite() -> None:
    assert suite(checked=()).get("tests") == "0"


@given(st.text(st.characters(codec=None), max_size=30))
def test_any_text_makes_xml_that_can_be_read(text: str) -> None:
    finding = Finding("A1", "error", text, text, text, text or "f", 1)
    remark = Finding("A2", "note", text, text, text, text or "f", 1)
    checked = (Checked(text or "f", text, text, (text,)),)
    found = suite(finding, remark, checked=checked)
    rendered(Report((finding, remark), checked, 0), "junit").encode()
    assert found.get("tests") == "1"


def test_a_name_with_forbidden_characters_is_escaped() -> None:
    name = "a\x00\x1b\ufffe\udcff<\n.yml"
    [case] = suite(checked=(Checked(name, "script", ""),)).iter("testcase")
    assert case.get("name") == "a\\x00\\x1b\\ufffe\\xff<\\n.yml"
