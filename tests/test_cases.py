"""Kinds of fault from public reports: each is found where it stands, and its right form is clean.

The cases are data (`tests/cases/*.yaml`): a file as a person has it, what was given beside it,
and the findings that must be there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from moectl.actions.validate import Given, validate
from moectl.findings import Finding

FOLDER = Path(__file__).parent / "cases"
ROWS: list[tuple[str, dict[str, Any]]] = [
    (path.stem, case)
    for path in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.safe_load(path.read_text("utf-8"))
]
CASES = [pytest.param(case, id=f"{stem}: {case['id']}") for stem, case in ROWS]
TEXTS = {case["id"]: case.get("text") for _, case in ROWS}


def text_of(case: dict[str, Any]) -> str:
    """Return the text of a case: its own, or that of another with one thing changed."""
    if "like" not in case:
        return str(case["text"])
    old, new = case["change"]
    text = str(TEXTS[case["like"]])
    assert text.count(old) == 1, old
    return text.replace(old, new)


def meets(finding: Finding, wanted: dict[str, Any]) -> bool:
    """Whether a finding is the wanted one; what a case leaves open may be anything."""
    said = f"{finding.field} {finding.message} {finding.hint}"
    return (
        wanted.get("severity", finding.severity) == finding.severity
        and wanted.get("code", finding.code) == finding.code
        and wanted.get("line", finding.line) == finding.line
        and wanted.get("column", finding.column) == finding.column
        and wanted["about"] in said
    )


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_fault_is_found_where_it_stands(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / case["file"]
    path.write_text(text_of(case), "utf-8")
    found = validate([str(path)], Given(**case.get("given", {}))).findings
    wanted = case.get("expect", [])
    lines = "\n".join(f"{f.severity} {f.code} {f.place} {f.field}: {f.message}" for f in found)
    for one in wanted:
        assert any(meets(finding, one) for finding in found), f"{one} is not among\n{lines}"
    if not wanted or case.get("only"):
        others = [f for f in found if not any(meets(f, one) for one in wanted)]
        assert [f.code for f in others if f.severity != "note"] == [], lines


def test_there_are_as_many_cases_as_there_were() -> None:
    assert len(CASES) >= 100
