"""`moectl runs`, `cancel` and `resume` at a real Slurm with accounts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moectl.actions.runs import Row, done
from moectl.launch.backend import JobState
from moectl.launch.record import RunRecord, from_dict
from moectl.launch.store import Store
from tests.support.launching import Site, eventually, person, run_command


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with person(tmp_path / "person") as found:
        yield found


def launched(site: Site, name: str = "moe", partition: str = "held") -> tuple[str, str]:
    """Launch a run and return its id and its job."""
    assert run_command(site.words(name, partition)) == 0
    (record,) = [record for record in site.records().values() if record["name"] == name]
    return record["id"], record["jobs"][-1]["job"]


def listed(capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, dict[str, Any]]:
    """Return what `moectl runs` says, by run."""
    capsys.readouterr()
    assert run_command(["runs", "--format", "json"]) == code
    return {row["id"]: row for row in json.loads(capsys.readouterr().out)["runs"]}


def rewritten(site: Site, run: str, **changes: Any) -> None:
    """Change a record on the disk."""
    path = site.runs / run / "record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_table_says_what_runs_do(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["runs"]) == 0
    assert "no runs in" in capsys.readouterr().out
    run, job = launched(site)
    other, _ = launched(site, "other")
    capsys.readouterr()
    assert run_command(["runs"]) == 0
    said = capsys.readouterr()
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0] == ["RUN", "STATE", "JOBS", "GPUS", "AGE"]
    assert {line[0] for line in lines[1:]} == {run, other}
    assert [run, "pending", job, "8"] in [line[:4] for line in lines]
    assert re.search(f"{run} waits: the partition starts no jobs at present", said.err)
    row = listed(capsys)[run]
    assert (row["state"], row["live"], row["gpus"]) == ("pending", True, 8)
    assert row["jobs"][0] | {"job": job, "why": "first", "exit_code": None} == row["jobs"][0]


def test_foreign_folders_and_hostile_jobs_are_no_end(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run, job = launched(site)
    for name in ("half", "-w eird\x1b[31m"):
        (site.runs / name).mkdir()
        (site.runs / name / "record.json").write_text("{")
    (site.runs / "bare").mkdir()
    script = site.folder / "j.sh"
    script.write_text("#!/bin/sh\nsleep 30\n")
    for name in ("a|b|c", "|", "tab\t", "$(touch CANARY)", run[:-1], "é\x1b[31m"):
        site.slurm.submit(script, options=["--partition=held", f"--job-name={name}"])
    capsys.readouterr()
    assert run_command(["runs"]) == 0
    said = capsys.readouterr()
    assert [line.split()[:3] for line in said.out.splitlines()[1:]] == [[run, "pending", job]]
    assert "half: its record is no JSON" in said.err
    assert "bare" in said.err
    assert "\x1b" not in said.err
    assert not list(site.folder.rglob("CANARY"))


def test_a_scheduler_that_cannot_be_asked_leaves_the_table(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = launched(site)
    site.program("squeue", 'echo "slurm_load_jobs error: Connection refused" >&2; exit 1')
    capsys.readouterr()
    assert run_command(["runs"]) == 3
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split()[:2] == [run, "unknown"]
    assert "moectl: Slurm's controller does not answer" in said.err
    assert "moectl:   slurm_load_jobs error: Connection refused" in said.err
    monkeypatch.setenv("PATH", "/nowhere")
    assert run_command(["runs"]) == 3
    assert "squeue is not on this machine" in capsys.readouterr().err
    for words in (["cancel", "moe"], ["resume", "moe"]):
        assert run_command(words) == 3


def test_states_that_nobody_knows_are_shown_as_unknown(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = launched(site)
    site.program("squeue", '$REAL "$@" | sed "s/PENDING/QUANTUM_HOLD/"; echo "odd line"; echo "|"')
    assert listed(capsys)[run]["state"] == "unknown"
    rewritten(site, run, jobs=[{"job": "²; rm -rf", "submitted": "?", "why": "first"}])
    assert listed(capsys)[run]["state"] == "unknown"
    rewritten(site, run, launcher="abacus", created="yesterday")
    assert listed(capsys)[run]["age"] == 0
    assert run_command(["cancel", "moe"]) == 2
    assert "unknown launcher 'abacus'" in capsys.readouterr().err


def test_cancel_ends_a_run_and_resume_goes_on_with_it(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run, first = launched(site)
    assert run_command(["resume", run]) == 2
    assert f"moe is live already: {run}, job {first}" in capsys.readouterr().err
    assert run_command(["cancel", "moe"]) == 0
    assert f"cancelled job {first}" in capsys.readouterr().out
    assert site.state(first) == "CANCELLED"
    assert listed(capsys)[run]["state"] == "cancelled"
    assert run_command(["cancel", run]) == 0
    assert "had ended already: cancelled" in capsys.readouterr().out

    assert run_command(["resume", "moe", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    second = said["jobs"][1]["job"]
    assert [job["why"] for job in said["jobs"]] == ["first", "resume"]
    assert site.queue()[run] == [second, first] or site.queue()[run] == [first, second]
    assert listed(capsys)[run]["state"] == "pending"
    assert run_command(["resume", run]) == 2
    assert run_command(site.words()) == 2
    assert run_command(["cancel", second]) == 0
    assert site.state(second) == "CANCELLED"
    for words in (["cancel", "nobody"], ["resume", ""]):
        assert run_command(words) == 2


def test_a_run_without_its_bundle_is_not_resumed(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = launched(site)
    run_command(["cancel", run])
    Path(site.records()[run]["bundle"], "launch.sbatch").unlink()
    assert run_command(["resume", run]) == 4
    assert "holds no launch.sbatch any more" in capsys.readouterr().err
    assert site.records()[run]["state"] == "cancelled"


def test_a_job_of_the_same_id_and_another_name_is_left_alone(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = launched(site)
    run_command(["cancel", run])
    other, stranger = launched(site, "other")
    rewritten(site, run, jobs=[{"job": stranger, "submitted": "?", "why": "first"}])
    assert listed(capsys)[run]["state"] in {"unknown", "cancelled"}
    assert run_command(["cancel", run]) == 0
    site.slurm.run("scancel", f"--name={run}", stranger)
    assert site.state(stranger) == "PENDING"
    assert listed(capsys)[other]["state"] == "pending"


def test_a_refused_resume_leaves_the_run_as_it_was(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run, job = launched(site)
    run_command(["cancel", run])
    script = Path(site.records()[run]["bundle"], "launch.sbatch")
    script.write_text(script.read_text().replace("--partition=held", "--partition=gone"))
    assert run_command(["resume", run]) == 3
    assert "there is no such partition" in capsys.readouterr().err
    record = site.records()[run]
    assert (record["state"], [each["job"] for each in record["jobs"]]) == ("submitted", [job])
    assert listed(capsys)[run]["state"] == "cancelled"


def test_an_intent_is_settled_by_the_next_look(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run, job = launched(site)
    other, _ = launched(site, "other")
    run_command(["cancel", other])
    rewritten(site, run, state="intent", jobs=[])
    with Store(site.runs).locked(run):
        assert listed(capsys)[run]["state"] == "being submitted"
        assert site.records()[run]["state"] == "intent"
        assert run_command(site.words()) == 2
        assert "is being submitted at this moment" in capsys.readouterr().err
    row = listed(capsys)[run]
    assert (row["state"], [each["job"] for each in row["jobs"]]) == ("pending", [job])
    assert site.records()[run]["state"] == "submitted"

    lost = site.runs / "gone-20261130-120000-0000"
    lost.mkdir()
    record = {**site.records()[run], "id": lost.name, "name": "gone", "state": "intent", "jobs": []}
    (lost / "record.json").write_text(json.dumps(record))
    assert listed(capsys)[lost.name]["state"] == "lost"
    assert site.records()[lost.name]["state"] == "lost"
    # its job comes late: it is found all the same
    script = Path(record["bundle"], "launch.sbatch")
    late = site.slurm.submit(script, options=[f"--job-name={lost.name}"], cwd=script.parent)
    row = listed(capsys)[lost.name]
    assert (row["state"], [each["job"] for each in row["jobs"]]) == ("pending", [str(late)])


def test_a_job_that_comes_after_its_run_was_cancelled_is_not_hidden(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run, job = launched(site)
    site.slurm.run("scancel", job)
    copy = site.runs / "late-20261130-120000-0000"
    copy.mkdir()
    now = site.records()[run]["created"]
    record = {**site.records()[run], "id": copy.name, "name": "late", "jobs": [], "created": now}
    (copy / "record.json").write_text(json.dumps({**record, "state": "intent"}))
    assert run_command(["cancel", "late"]) == 0
    assert site.records()[copy.name]["state"] == "cancelled"
    script = Path(record["bundle"], "launch.sbatch")
    late = site.slurm.submit(script, options=[f"--job-name={copy.name}"], cwd=script.parent)
    row = listed(capsys)[copy.name]
    assert (row["state"], [each["job"] for each in row["jobs"]]) == ("pending", [str(late)])
    assert run_command(["cancel", "late"]) == 0
    assert site.state(str(late)) == "CANCELLED"


def test_a_lost_run_can_be_started_by_resume(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = launched(site)
    run_command(["cancel", run])
    copy = site.runs / "again-20261130-120000-0000"
    copy.mkdir()
    record = {**site.records()[run], "id": copy.name, "name": "again", "state": "lost", "jobs": []}
    (copy / "record.json").write_text(json.dumps(record))
    assert run_command(["resume", "again"]) == 0
    assert [entry.why for entry in from_dict(site.records()[copy.name]).jobs] == ["first"]


def returned(site: Site, node: str) -> bool:
    """Bring a node back; whether it is."""
    site.slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    said = site.slurm.run("sinfo", "-h", f"--nodes={node}", "--partition=batch", "-o", "%T").stdout
    return said.strip() == "idle"


def test_a_run_whose_node_went_down_is_live_and_waits(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.behave("exec sleep 60")
    wanted = ("--set", "cluster.directives=[--requeue]")
    assert run_command(site.words("moe", "batch", *wanted)) == 0
    ((run, held),) = site.records().items()
    job = held["jobs"][-1]["job"]
    site.until(job, "RUNNING")
    row = listed(capsys)[run]
    assert (row["state"], row["jobs"][0]["restarts"]) == ("running", 0)
    node = re.sub(r"\[(\d+).*", r"\1", row["jobs"][0]["nodes"])
    site.slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    try:
        site.until(job, "PENDING", "REQUEUED")
        row = listed(capsys)[run]
        assert (row["state"], row["live"], len(row["jobs"])) == ("pending", True, 1)
        assert (row["jobs"][0]["restarts"], row["jobs"][0]["exit_code"]) == (1, None)
        assert run_command(site.words()) == 2
        assert run_command(["resume", run]) == 2
        assert run_command(["cancel", run]) == 0
    finally:
        eventually(lambda: returned(site, node), "the node is back")
    assert site.state(job) == "CANCELLED"


def test_a_run_with_nothing_to_go_on_from_ends_with_its_node_and_status_names_that(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.behave("exec sleep 60")
    run, job = launched(site, "moe", "batch")
    site.until(job, "RUNNING")
    node = re.sub(r"\[(\d+).*", r"\1", listed(capsys)[run]["jobs"][0]["nodes"])
    site.slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    try:
        site.until(job, "NODE_FAIL")
        row = listed(capsys)[run]
        assert (row["state"], row["live"], row["jobs"][0]["restarts"]) == ("node failure", False, 0)
        assert run_command(["status", run]) == 0
        assert "failed  a node of the job went down" in capsys.readouterr().out
    finally:
        eventually(lambda: returned(site, node), "the node is back")


def test_a_run_is_done_by_the_log_of_its_last_restart(tmp_path: Path) -> None:
    record = RunRecord("moe-1", "moe", "", "slurm", "", str(tmp_path), 8, 2, "x")
    record = replace(record, options={"steps": 2}).submitted("7", "now")
    job = JobState("7", "completed", exit_code=0)
    for folder, step in (("7", 0), ("7.2", 0), ("7.10", 1), ("77", 0)):
        (tmp_path / "logs" / folder).mkdir(parents=True)
        (tmp_path / "logs" / folder / "rank-0.log").write_text(
            f"completed step: {step}, seconds: 0.1, TFLOP/s/device: 1.0, Tokens/s/device: 1.0, "
            "total_weights: 1, loss: 1.0\n"
        )
    assert done(Row(record, (job,), "completed", live=False)) == ""
    (tmp_path / "logs" / "7.11").mkdir()
    assert "no step" in done(Row(record, (job,), "completed", live=False))
    ended = replace(job, phase="timeout")
    assert done(Row(record, (ended,), "timeout", live=False)) == "it is timeout"


def test_jobs_that_the_queue_forgot_come_from_the_accounts_in_one_call(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.behave("exit 7")
    run, job = launched(site, "moe", "batch")
    site.until(job, "FAILED")
    calls = site.folder / "calls"
    for name in ("squeue", "sacct"):
        answer = "" if name == "squeue" else '$REAL "$@"'
        site.program(name, f"echo {name} >>{calls}\n{answer}")
    eventually(lambda: listed(capsys)[run]["state"] == "failed", "the accounts have it")
    assert listed(capsys)[run]["jobs"][0]["exit_code"] == 7

    base = site.records()[run]
    for number in range(30):
        state = ("intent", "lost", "submitted", "cancelled")[number % 4]
        jobs = [{"job": str(900_000 + number), "submitted": "?", "why": "first"}]
        copy = site.runs / f"n{number}-20261130-120000-0000"
        copy.mkdir()
        changed: dict[str, Any] = {"id": copy.name, "name": f"n{number}", "state": state}
        changed |= {"jobs": jobs if number % 4 > 1 else []}
        (copy / "record.json").write_text(json.dumps({**base, **changed}))
    calls.unlink()
    rows = listed(capsys)
    assert calls.read_text().split() == ["squeue", "sacct"]
    assert len(rows) == 31
    assert rows[run]["state"] == "failed"
    assert {rows[f"n{number}-20261130-120000-0000"]["state"] for number in (0, 1)} == {"lost"}


def test_without_accounts_an_intent_is_not_taken_for_lost(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = launched(site)
    run_command(["cancel", run])
    rewritten(site, run, state="intent", jobs=[])
    site.program("squeue", "exit 0")
    site.program("sacct", 'echo "sacct: error: slurm_persist_conn_open: failed" >&2; exit 1')
    assert listed(capsys)[run]["state"] == "being submitted"
    assert site.records()[run]["state"] == "intent"
    site.program("sacct", 'echo "Slurm accounting storage is disabled" >&2; exit 1')
    assert listed(capsys)[run]["state"] == "lost"
