"""Records of runs: what is written is read again, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.launch import record as module
from moectl.launch.record import FORMAT, STATES, JobEntry, RecordError, RunRecord, from_dict

WHOLE: dict[str, Any] = {
    "format": 1,
    "id": "moe-20261130-120000-00ff",
    "name": "moe",
    "created": "2026-11-30T12:00:00Z",
    "launcher": "slurm",
    "target": "run.yaml",
    "bundle": "/runs/moe/bundle",
    "gpus": 8,
    "nodes": 2,
    "hardware": "gb200-nvl72",
    "state": "submitted",
    "jobs": [{"job": "12", "submitted": "2026-11-30T12:00:01Z", "why": "first"}],
    "options": {"steps": 3},
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def test_a_record_is_written_and_read_as_it_is() -> None:
    assert from_dict(WHOLE).as_dict() == WHOLE


@given(
    st.text(),
    st.integers(),
    st.sampled_from(STATES),
    st.lists(st.builds(JobEntry, st.text(), st.text(), st.sampled_from(["first", "resume"]))),
    st.dictionaries(st.text(), json_values),
)
def test_any_text_survives_the_disk(
    text: str, count: int, state: Any, jobs: list[JobEntry], options: dict[str, Any]
) -> None:
    record = RunRecord(
        text, text, text, text, text, text, count, count, text, state, tuple(jobs), options
    )
    assert from_dict(json.loads(json.dumps(record.as_dict()))) == record


def test_what_a_newer_moectl_adds_is_kept() -> None:
    newer = {**WHOLE, "priority": [1, {"x": None}]}
    assert from_dict(newer).submitted("13", "now", "resume").as_dict()["priority"] == [
        1,
        {"x": None},
    ]


def test_an_older_format_is_brought_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FORMAT", 2)
    monkeypatch.setattr(
        module, "_MIGRATIONS", {1: lambda old: {**old, "hardware": old["hardware"].upper()}}
    )
    assert from_dict(WHOLE).hardware == "GB200-NVL72"
    assert from_dict({**WHOLE, "format": 2}).hardware == "gb200-nvl72"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": FORMAT + 1}, "newer moectl"),
        ({"format": True}, "format number"),
        ({"format": 0}, "format number"),
        ({"format": "1"}, "format number"),
        ({"id": 5}, "lacks id"),
        ({"gpus": True}, "lacks gpus"),
        ({"gpus": 8.0, "name": None}, "lacks name, gpus"),
        ({"state": "running"}, "no state"),
        ({"state": ["intent"]}, "no state"),
        ({"jobs": {}}, "no list"),
        ({"jobs": ["12"]}, "job without"),
        ({"jobs": [{"job": 12, "submitted": "", "why": "first"}]}, "job without"),
        ({"jobs": [{"job": "12", "submitted": "", "why": "again"}]}, "job without"),
        ({"jobs": [{"job": "12", "submitted": "", "why": ["first"]}]}, "job without"),
        ({"options": []}, "no mapping"),
    ],
)
def test_what_is_no_record_is_told_by_what_is_wrong(change: dict[str, Any], says: str) -> None:
    with pytest.raises(RecordError, match=says):
        from_dict({**WHOLE, **change})


@given(json_values | st.dictionaries(st.sampled_from([*WHOLE]), json_values))
def test_any_json_is_a_record_or_told(data: Any) -> None:
    whole = {**WHOLE, **data} if isinstance(data, dict) else data
    try:
        record = from_dict(whole)
    except RecordError:
        return
    assert isinstance(record, RunRecord)
    assert set(record.job_ids) == {row["job"] for row in whole["jobs"]}


def test_a_job_is_added_once() -> None:
    record = from_dict({**WHOLE, "state": "lost"})
    again = record.submitted("12", "later")
    assert (again.job_ids, again.state) == (("12",), "submitted")
    assert record.submitted("13", "later", "chain").jobs[-1] == JobEntry("13", "later", "chain")
