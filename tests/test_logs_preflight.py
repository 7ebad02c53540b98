"""What a preflight said is read from its file, whatever stands in there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.logs.preflight import Fault, preflight
from moectl.logs.verdict import verdict

FAULT: dict[str, Any] = {
    "kind": "slow",
    "ranks": [6, 7],
    "nodes": ["gpu003"],
    "what": "matrix product of 8192 takes 9 ms",
}


def written(folder: Path, record: Any) -> Path:
    (folder / "preflight.json").write_text(json.dumps(record))
    return folder


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"passed": True}, "passed"),
        ({"passed": True, "excluded": ["gpu001"]}, "passed (without gpu001)"),
        ({"passed": False}, "refused the job"),
        (
            {"passed": False, "faults": [FAULT]},
            "refused node gpu003: matrix product of 8192 takes 9 ms",
        ),
        (
            {"passed": False, "faults": [FAULT], "excluded": ["gpu003"], "again": True},
            "is done once more (without gpu003)",
        ),
        (
            {"passed": False, "faults": [FAULT | {"nodes": []}, FAULT]},
            "refused ranks 6, 7: matrix product of 8192 takes 9 ms, and 1 more",
        ),
        (
            {"passed": False, "faults": [FAULT | {"nodes": [], "ranks": list(range(9))}]},
            "refused ranks 0, 1, 2, 3, 4, 5, ...: matrix product of 8192 takes 9 ms",
        ),
    ],
)
def test_the_verdict_is_one_clause(record: Any, said: str, tmp_path: Path) -> None:
    found = preflight(written(tmp_path, record))
    assert found is not None
    assert found.said == said


def test_the_verdict_of_a_job_names_node_and_remedy(tmp_path: Path) -> None:
    written(tmp_path, {"passed": False, "faults": [FAULT]})
    (tmp_path / "first-failure").write_text("79 6 gpu003\n")
    found = verdict(tmp_path)
    assert found is not None
    assert (found.rank, found.node, found.exit_code, found.retry) == (6, "gpu003", 79, True)
    assert found.cause == "the preflight refused node gpu003: matrix product of 8192 takes 9 ms"
    assert "--exclude" in found.remedy


def test_what_all_have_in_common_is_not_tried_again(tmp_path: Path) -> None:
    written(tmp_path, {"passed": False, "faults": [FAULT | {"nodes": []}]})
    found = verdict(tmp_path)
    assert found is not None
    assert (found.rank, found.node, found.retry) == (None, "", False)


def test_a_preflight_that_passed_says_nothing_of_a_failure(tmp_path: Path) -> None:
    written(tmp_path, {"passed": True})
    assert verdict(tmp_path) is None


def test_without_a_file_there_was_none(tmp_path: Path) -> None:
    assert preflight(tmp_path) is None
    assert preflight(tmp_path / "nowhere") is None


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", '{"passed": 1}', "\x00"])
def test_what_is_no_verdict_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "preflight.json").write_text(text)
    assert preflight(tmp_path) is None


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(st.booleans(), VALUES, VALUES, VALUES, VALUES)
def test_a_hostile_verdict_gives_printable_text(
    tmp_path_factory: pytest.TempPathFactory,
    passed: bool,
    ranks: Any,
    nodes: Any,
    what: Any,
    excluded: Any,
) -> None:
    row = {"kind": what, "ranks": ranks, "nodes": nodes, "what": what}
    record = {"passed": passed, "faults": [row, nodes], "excluded": excluded}
    found = preflight(written(tmp_path_factory.mktemp("logs"), record))
    assert found is not None
    assert found.passed is passed
    assert found.said.isprintable()
    assert all(isinstance(fault, Fault) for fault in found.faults)
