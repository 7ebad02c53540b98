"""Faults of reading as findings."""

from __future__ import annotations

import pytest

from moectl.errors import LocalFilesError, SeveralUsageErrors, SourceError, UsageError
from moectl.findings import Finding
from moectl.rules.reading import RULES, refusals

NAME = "run $(touch never).yml"


def _only(error: SourceError | LocalFilesError) -> Finding:
    (found,) = refusals(error, NAME)
    return found


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("it is larger than 4 MiB", "smaller"),
        ("it is not UTF-8 text", "UTF-8"),
        ("it is nested too deeply", "levels"),
        ("the key 'steps' stands twice", "mend the line"),
    ],
)
def test_the_remedy_fits_the_fault(sentence: str, word: str) -> None:
    found = _only(SourceError(NAME, 3, sentence))
    assert (found.code, found.line, found.message) == ("FILE102", 3, sentence)
    assert word in found.hint


def test_what_cannot_be_opened_is_a_code_of_its_own() -> None:
    found = _only(LocalFilesError(f"{NAME} cannot be read"))
    assert (found.code, found.severity, found.file) == ("FILE101", "error", NAME)


def test_several_refusals_are_several_findings() -> None:
    errors: list[UsageError] = [SourceError(NAME, n, "it is not UTF-8 text") for n in (1, 2)]
    assert [f.line for f in refusals(SeveralUsageErrors(errors), NAME)] == [1, 2]


def test_every_code_is_declared_once() -> None:
    codes = [rule.code for rule in RULES.all]
    assert len(set(codes)) == len(codes)
    assert all(rule.remedy and rule.reason for rule in RULES.all)
