"""Records of runs of several jobs, and how their jobs ended once the scheduler has forgotten it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.actions.chain_state import state_of_chain
from moectl.actions.runs import done, row, table
from moectl.launch.backend import JobState
from moectl.launch.chain import at, begun, group, links, missing, next_why, unused
from moectl.launch.ended import kept, recalled
from moectl.launch.record import RunRecord, from_dict
from moectl.launch.settle import KEPT_AT_ONCE, Survey, settle
from moectl.launch.store import Store
from tests.support import training_logs as made
from tests.support.run_records import Scheduler, record

PLAIN = RunRecord("moe-1", "moe", "2026-11-30T12:00:00Z", "slurm", "t", "/b", 8, 2, "h")


def submitted(meant: RunRecord, *jobs: str) -> RunRecord:
    for job in jobs:
        meant = meant.submitted(job, "now", next_why(meant))
    return meant


def test_a_run_of_one_job_is_no_chain() -> None:
    one = submitted(begun(PLAIN, 1), "1")
    assert one.options == {}
    assert (links(one), missing(one), next_why(one)) == (1, 0, "resume")
    assert at(one, [JobState("1", "running")]) is None
    again = submitted(begun(one, 1), "2")
    assert [entry.why for entry in again.jobs] == ["first", "resume"]
    assert missing(again) == 0


def test_the_links_of_a_group_are_counted_and_named() -> None:
    chain = begun(PLAIN, 3)
    assert (missing(chain), next_why(chain)) == (3, "first")
    part = submitted(chain, "1", "2")
    assert [entry.why for entry in part.jobs] == ["first", "chain"]
    assert (missing(part), next_why(part)) == (1, "chain")
    whole = submitted(part, "3")
    assert (missing(whole), next_why(whole)) == (0, "resume")
    second = begun(whole, 2)
    assert (missing(second), next_why(second), group(second)) == (2, "resume", ())
    second = submitted(second, "4", "5")
    assert [entry.why for entry in second.jobs][3:] == ["resume", "chain"]
    assert [entry.job for entry in group(second)] == ["4", "5"]
    assert missing(second) == 0


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_any_groups_are_whole_after_their_links_were_submitted(counts: list[int]) -> None:
    held = PLAIN
    for count in counts:
        held = begun(held, count)
        for number in range(count):
            assert missing(held) == (count - number if count > 1 else 0)
            held = submitted(held, str(len(held.jobs) + 1))
        assert missing(held) == 0
        assert from_dict(json.loads(json.dumps(held.as_dict()))) == held
    assert [entry.why for entry in held.jobs].count("resume") == len(counts) - 1


@pytest.mark.parametrize("said", [0, -1, "3", None, True, 2.0, [3]])
def test_odd_options_of_a_record_are_no_chain(said: Any) -> None:
    odd = replace(PLAIN, options={"chain": said, "chain_from": said})
    assert (links(odd), group(odd)) == (1, ())
    assert at(submitted(odd, "1"), []) is None


def test_the_link_that_counts_is_the_one_that_runs_or_waits_or_trained(tmp_path: Path) -> None:
    chain = submitted(replace(begun(PLAIN, 3), bundle=str(tmp_path)), "1", "2", "3")

    def where(*phases: Any) -> int | None:
        return at(chain, [JobState(str(n), phase) for n, phase in enumerate(phases, 1)])

    assert where("running", "pending", "pending") == 1
    assert where("completed", "pending", "pending") == 2
    assert where("completed", "failed", "running") == 3
    assert where("completed", "completed", "completed") == 3
    (tmp_path / "logs" / "2").mkdir(parents=True)
    (tmp_path / "logs" / "2" / "rank-0.log").write_text("")
    assert where("completed", "completed", "completed") == 2
    assert unused(chain) == 2


# ---- done, or incomplete ---------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def chained(store: Store, **changes: Any) -> RunRecord:
    options = {"chain": 3, "steps": 8}
    return record(store, 7, jobs=["71", "72", "73"], options=options, **changes)


def log(run: RunRecord, job: str, *steps: int, **end: Any) -> None:
    folder = Path(run.bundle) / "logs" / job
    folder.mkdir(parents=True)
    if steps:
        (folder / "rank-0.log").write_text("".join(made.step(step) for step in steps))
    if end:
        (folder / "end.json").write_text(json.dumps(end))


def states(*phases: Any) -> dict[str, JobState]:
    return {str(71 + n): JobState(str(71 + n), phase) for n, phase in enumerate(phases)}


def test_a_chain_is_done_when_its_last_step_was_reached(store: Store) -> None:
    run = chained(store)
    log(run, "71", 0, 1, 2)
    scheduler = Scheduler(states("timeout", "pending", "pending"))
    (seen,) = table(store, scheduler).rows
    assert (seen.said, seen.live) == ("pending, link 2 of 3", True)
    log(run, "72", 3, 7, done=True, code=0)
    scheduler.jobs = states("timeout", "completed", "pending")
    (seen,) = table(store, scheduler).rows
    assert (seen.state, seen.live, done(seen)) == ("done", True, "")
    log(run, "73", idle=True, done=True)
    scheduler.jobs = states("timeout", "completed", "completed")
    (seen,) = table(store, scheduler).rows
    assert (seen.said, seen.live) == ("done, link 2 of 3", False)


@pytest.mark.parametrize(
    ("last", "end", "state"),
    [
        ("timeout", {}, "incomplete"),
        ("completed", {"done": False, "code": 0}, "incomplete"),
        ("failed", {"done": False, "code": 1}, "failed"),
        ("cancelled", {}, "cancelled"),
    ],
)
def test_it_is_incomplete_or_worse_otherwise(
    store: Store, last: Any, end: dict[str, Any], state: str
) -> None:
    run = chained(store)
    log(run, "73", 0, 1, 2, **end)
    (seen,) = table(store, Scheduler(states("timeout", "timeout", last))).rows
    assert (seen.said, done(seen)) == (f"{state}, link 3 of 3", f"it is {state}")


def test_links_that_were_never_submitted_are_missed_unless_it_is_done(store: Store) -> None:
    run = record(store, 7, jobs=["71"], options={"chain": 3, "steps": 8})
    (seen,) = table(store, Scheduler(states("running"))).rows
    assert (seen.lacks, seen.said) == (2, "running, link 1 of 3")
    log(run, "71", 7)
    (seen,) = table(store, Scheduler(states("completed"))).rows
    assert (seen.lacks, seen.state) == (0, "done")
    cancelled = replace(run, state="cancelled")
    assert row(Survey((cancelled,)), cancelled).lacks == 0


def test_a_chain_without_logs_says_what_the_scheduler_says() -> None:
    assert state_of_chain(PLAIN, (JobState("1", "failed"),), "failed") == "failed"


# ---- how jobs ended --------------------------------------------------------------------------

ENDED = JobState("7", "failed", "FAILED", "NonZeroExitCode", "gpu[0-1]", "s", "e", 3, 9, 2, "x")


def test_how_a_job_ended_is_known_when_the_scheduler_has_forgotten_it(store: Store) -> None:
    run = record(store, 7)
    scheduler = Scheduler({"7": ENDED})
    assert [seen.state for seen in table(store, scheduler).rows] == ["failed"]
    written = store.read(run.id)
    assert written.ended["7"]["exit_code"] == 3
    scheduler.jobs = {}
    (seen,) = table(store, scheduler).rows
    assert seen.state == "failed"
    assert seen.jobs[0] == replace(ENDED, name=run.id)
    scheduler.silent = True
    assert [seen.state for seen in table(store, scheduler).rows] == ["failed"]


def test_the_last_word_counts_and_what_is_not_over_is_not_kept() -> None:
    run = replace(PLAIN, bundle="/b").submitted("7", "now")
    for phase in ("pending", "running", "unknown", "refused", "requeued"):
        assert kept(run, [JobState("7", phase)]) is run
    assert kept(run, [JobState("8", "failed")]) is run
    first = kept(run, [JobState("7", "node failure")])
    assert kept(first, [JobState("7", "running")]) is first
    assert recalled(first, JobState("7", "running")).phase == "running"
    assert recalled(kept(first, [ENDED]), JobState("7", "unknown")).phase == "failed"


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["phase", "raw", "exit_code", "nodes", "restarts", "signal", "end"]),
        st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["failed"]),
    )
)
def test_whatever_a_record_says_of_an_end_is_a_state(ended: dict[str, Any]) -> None:
    run = from_dict({**PLAIN.submitted("7", "now").as_dict(), "ended": {"7": ended}})
    found = recalled(run, JobState("7", "unknown"))
    assert isinstance(found, JobState)
    assert not found.live
    assert from_dict(json.loads(json.dumps(run.as_dict()))) == run


def test_a_record_without_ends_is_what_it_was_before_there_were_any() -> None:
    assert "ended" not in PLAIN.as_dict()
    assert from_dict({**PLAIN.as_dict(), "ended": [1]}).ended == {}
    assert from_dict({**PLAIN.as_dict(), "ended": {"7": 1}}).ended == {}


def test_few_records_are_written_anew_at_once(store: Store) -> None:
    records = [record(store, number) for number in range(1, KEPT_AT_ONCE + 11)]
    jobs = {each.jobs[0].job: replace(ENDED, job=each.jobs[0].job) for each in records}
    for left in (10, 0):
        settle(store, Scheduler(jobs), store.list().records)
        assert sum(not each.ended for each in store.list().records) == left
