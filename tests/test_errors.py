"""What errors say: one sentence a fault, the place, what is legal, and the exit code."""

from __future__ import annotations

import difflib
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import (
    BackendError,
    FindingsError,
    LocalFilesError,
    MoectlError,
    SeveralUsageErrors,
    SourceError,
    UnknownNameError,
    UsageError,
    ValueUsageError,
    nearest,
    shown,
)
from moectl.facts import maxtext
from moectl.findings import Finding


def test_every_kind_of_error_has_the_exit_code_of_the_design() -> None:
    codes: dict[type[MoectlError], int] = {
        MoectlError: 1,
        FindingsError: 1,
        UsageError: 2,
        SourceError: 2,
        BackendError: 3,
        LocalFilesError: 4,
    }
    assert {kind: kind.exit_code for kind in codes} == codes


def test_an_unknown_name_says_place_kind_reason_and_the_nearest() -> None:
    error = UnknownNameError("preset", "mixtrl", ["mixtral", "kimi"], where="run.yaml:3", why="no")
    assert str(error) == "run.yaml:3: unknown preset 'mixtrl' (no); did you mean 'mixtral'?"
    assert error.suggestions == ["mixtral"]


def test_a_name_near_nothing_gets_no_suggestion() -> None:
    assert str(UnknownNameError("key", "zzzz", ["steps"])) == "unknown key 'zzzz'"


def test_a_name_is_found_in_any_case_and_as_a_part() -> None:
    assert nearest("DEEPSEEK3-671B", ["deepseek3-671b"]) == ["deepseek3-671b"]
    assert nearest("kimi", ["kimi-k2-1t-long-name", "other"]) == ["kimi-k2-1t-long-name"]


@given(st.text(), st.lists(st.text()))
def test_suggestions_are_legal_names_and_at_most_three(name: str, legal: list[str]) -> None:
    found = nearest(name, legal)
    assert set(found) <= set(legal)
    assert len(found) <= 3


def test_a_value_says_what_is_legal() -> None:
    error = ValueUsageError("--gpus", "many", "a whole number", where="run.yaml:1")
    assert str(error) == "run.yaml:1: --gpus cannot be 'many': a whole number"


@pytest.mark.parametrize(("line", "said"), [(7, "a.yaml:7: broken"), (None, "a.yaml: broken")])
def test_a_file_fault_says_file_line_and_sentence(line: int | None, said: str) -> None:
    assert str(SourceError("a.yaml", line, "broken")) == said


def test_several_faults_are_said_one_a_line_and_nested_groups_are_flat() -> None:
    one, two, three = UsageError("one"), UsageError("two"), UsageError("three")
    group = SeveralUsageErrors([one, SeveralUsageErrors([two, three])])
    assert group.errors == [one, two, three]
    assert str(group) == "one\ntwo\nthree"


@pytest.mark.parametrize(("count", "said"), [(1, "1 error found"), (2, "2 errors found")])
def test_findings_are_counted(count: int, said: str) -> None:
    found = [Finding(f"X{i}", "error", "f", "m") for i in range(count)]
    warning = Finding("W", "warning", "f", "m")
    assert str(FindingsError([*found, warning])).startswith(said)


@given(st.text(min_size=0, max_size=300))
def test_a_shown_value_is_one_short_line(text: str) -> None:
    said = shown(text)
    assert len(said) <= 80
    assert len(said.splitlines()) == 1


def test_the_nearest_names_are_those_of_a_whole_comparison() -> None:
    legal = [*maxtext.load("0.2.5").keys()]
    chosen = random.Random(7)  # noqa: S311 - drawn typing slips
    letters = "abcdefghijklmnopqrstuvwxyz_"
    for _ in range(60):
        name = list(chosen.choice(legal))
        for _ in range(chosen.choice([1, 1, 2])):
            name[chosen.randrange(len(name))] = chosen.choice(letters)
            name.insert(chosen.randrange(len(name)), chosen.choice(letters))
        slip = "".join(name)
        folded = sorted({key.casefold() for key in legal})
        wanted = difflib.get_close_matches(slip.casefold(), folded, n=1, cutoff=0.6)
        assert nearest(slip, legal, 1) == wanted, slip


@pytest.mark.parametrize("name", ["", "x", "ab", "\0\n", "é" * 300, "-" * 5000, "STEPS"])
def test_odd_names_are_compared_too(name: str) -> None:
    assert nearest(name, ["steps", "run_name"]) == (["steps"] if name == "STEPS" else [])


def test_suggestions_are_cheap() -> None:
    legal = [*maxtext.load("0.2.5").keys()]
    nearest("warm", legal)
    start = time.process_time()
    for index in range(50):
        nearest(f"some_key_that_nobody_knows_{index}", legal)
    assert time.process_time() - start < 1
