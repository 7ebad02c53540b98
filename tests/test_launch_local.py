"""Runs on this machine: started once, followed, ended, gone on with. MaxText is a stand-in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from moectl import environments
from moectl.actions.runs import Table, table
from moectl.errors import BackendError, LocalFilesError
from moectl.launch import local
from moectl.launch.backend import Wanted
from moectl.launch.local import Local, require_room
from moectl.launch.local_jobs import boot, of_run, started
from moectl.launch.store import Store
from tests.support.launch_faults import children
from tests.support.launching import ROOT, SECRET, run_command
from tests.support.local_site import Machine, machine

POINTS = int(os.environ.get("MOECTL_FAULTS", "40")) // 4
SEED = 20261130
WAITS = 'echo ready; trap "" HUP; while :; do sleep 0.1; done'


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path / "person") as found:
        yield found


def state(here: Machine) -> str:
    """Return what the newest run does."""
    return table(Store(here.runs)).rows[0].state


def only_job(here: Machine) -> dict[str, object]:
    (job,) = here.jobs()
    return job


def test_a_run_is_started_detached_and_told_to_its_end(
    here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert here.launch("--wait") == 0
    said = capsys.readouterr().out
    assert "virtual CPU devices in 1 process" in said
    assert "the attention kernel of the GPU cannot run on CPU devices" in said
    assert said.endswith("is done: its last step was reached\n")
    job = only_job(here)
    assert (job["phase"], job["exit_code"]) == ("completed", 0)
    (record,) = here.records().values()
    assert record["launcher"] == "local"
    assert [entry["job"] for entry in record["jobs"]] == [job["job"]]
    assert run_command(["status", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert (row["state"], row["step"], row["loss"]) == ("done", 2, 10.2)
    assert run_command(["logs", "moe", "--lines", "1"]) == 0
    assert "completed step: 2" in capsys.readouterr().out
    bundle = Path(record["bundle"])
    assert [path.name for path in bundle.glob("moe-*.log")] == [f"moe-{job['job']}.log"]


def test_it_outlives_the_launch_and_its_terminal(here: Machine) -> None:
    here.behave(WAITS)
    assert here.launch() == 0
    (pid,) = here.programs()
    assert os.getsid(pid) == pid != os.getsid(0)
    assert only_job(here)["pid"] == pid
    assert state(here) == "running"


def test_processes_find_each_other_by_what_jax_reads_of_slurm(here: Machine) -> None:
    here.behave("env | sort; pwd")
    assert here.launch(processes=2, more="secrets: [HF_TOKEN]\n") == 0
    here.ended()
    (record,) = here.records().values()
    logs = Path(record["bundle"]) / "logs" / record["jobs"][0]["job"]
    told = [
        dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        for text in ((logs / f"rank-{rank}.log").read_text() for rank in (0, 1))
    ]
    assert [rank["SLURM_PROCID"] for rank in told] == ["0", "1"]
    assert [rank["SLURM_NTASKS"] for rank in told] == ["2", "2"]
    assert told[0]["JAX_COORDINATOR_ADDRESS"] == told[1]["JAX_COORDINATOR_ADDRESS"]
    assert told[0]["XLA_FLAGS"] == "--xla_force_host_platform_device_count=2"
    assert told[0]["JAX_PLATFORMS"] == "cpu"
    assert told[0]["HF_TOKEN"] == SECRET
    assert "MOECTL_RUNS" not in told[0]
    files = [path for path in here.runs.rglob("*") if path.is_file() and path.name[:4] != "rank"]
    assert not [path for path in files if SECRET in path.read_text("utf-8", "replace")]


def test_the_first_process_that_fails_ends_the_others_and_leaves_its_code(
    here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    here.behave('[ "$SLURM_PROCID" = 0 ] || exit 3\nexec sleep 600')
    assert here.launch("--wait", processes=2) == 1
    job = only_job(here)
    assert (job["phase"], job["exit_code"]) == ("failed", 3)
    run_command(["status", "moe"])
    assert "failed  rank 1 on localhost, exit code 3" in capsys.readouterr().out


def test_a_run_that_hangs_is_ended_by_the_watchdog(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = here.folder / "python"
    python.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} -c "$(cat {here.folder}/hang)"\n')
    (here.folder / "hang").write_text(
        "import faulthandler, time; faulthandler.enable(); time.sleep(600)"
    )
    path = here.run_file()
    text = Path(path).read_text().replace("devices: cpu", "devices: cpu, compile_limit: 1")
    Path(path).write_text(text)
    assert run_command(["render", path, "--output", "bundle"]) == 0
    plan = Path("bundle/launch.json")
    plan.write_text(plan.read_text().replace("--every=10", "--every=1"))
    assert run_command(["launch", "bundle", "--wait"]) == 1
    assert only_job(here)["exit_code"] == 124
    (found,) = Path("bundle/logs").glob("*/watchdog.json")
    assert "the first step did not come in 1 s" in found.read_text()


def test_cancel_ends_a_run_and_resume_goes_on_with_it(
    here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    here.behave("echo ready; exec sleep 600")
    assert here.launch() == 0
    here.until(lambda: only_job(here)["phase"] == "running", "it runs")
    assert run_command(["cancel", "moe"]) == 0
    here.ended()
    assert state(here) == "cancelled"
    (here.folder / "behaviour").unlink()
    assert run_command(["resume", "moe"]) == 0
    here.ended()
    (record,) = here.records().values()
    assert [job["why"] for job in record["jobs"]] == ["first", "resume"]
    assert [job["phase"] for job in here.jobs()] == ["cancelled", "completed"]
    assert state(here) == "completed"
    capsys.readouterr()
    assert run_command(["cancel", "moe"]) == 0
    assert "had ended already" in capsys.readouterr().out


def test_a_process_that_was_given_the_same_id_is_never_hit(here: Machine) -> None:
    """The job's file names a process that lives, but started at another time."""
    assert here.launch("--wait") == 0
    (path,) = here.runs.glob("*/jobs/*.json")
    bystander = subprocess.Popen(["/bin/sleep", "600"])
    try:
        held = json.loads(path.read_text())
        del held["exit_code"]
        held |= {"pid": bystander.pid, "phase": "running"}
        path.write_text(json.dumps(held))
        (job,) = of_run(path.parent.parent)
        assert not job.alive
        job.cancel()
        Local(here.runs).cancel([job.job], job.name)
        assert bystander.poll() is None
        assert job.state().phase == "cancelled"
        path.write_text(json.dumps(held | {"start_ticks": started(bystander.pid)}))
        (job,) = of_run(path.parent.parent)
        assert job.alive
        path.write_text(json.dumps(held | {"boot": "another"}))
        (job,) = of_run(path.parent.parent)
        assert not job.alive
    finally:
        bystander.kill()
        bystander.wait()


def test_when_the_program_is_killed_its_processes_die_with_it(here: Machine) -> None:
    here.behave(f"echo $$ >>{here.folder}/pids\nexec sleep 600")
    assert here.launch(processes=2) == 0
    pids = here.folder / "pids"
    here.until(lambda: pids.exists() and len(pids.read_text().split()) == 2, "both run")
    (pid,) = here.programs()
    os.kill(pid, signal.SIGKILL)
    processes = [int(text) for text in pids.read_text().split()]
    here.until(lambda: not any(started(each) for each in processes), "the processes end")
    (row,) = table(Store(here.runs)).rows
    assert row.state == "failed"
    assert row.jobs[0].reason.startswith("the program that ran it was killed")
    (here.folder / "behaviour").unlink()
    assert run_command(["resume", "moe"]) == 0
    here.ended()
    assert state(here) == "completed"


def test_a_run_that_follows_another_waits_for_its_end(here: Machine) -> None:
    here.behave("echo ready; exec sleep 600")
    assert here.launch() == 0
    assert here.launch("--after", "moe", name="next") == 0
    first, second = table(Store(here.runs)).rows[::-1]
    assert [first.state, second.state] == ["running", "pending"]
    (here.folder / "behaviour").unlink()
    assert run_command(["cancel", "moe"]) == 0
    here.ended()
    assert Counter(job["phase"] for job in here.jobs()) == {"cancelled": 1, "completed": 1}


def test_a_launch_that_is_killed_at_any_step_loses_and_doubles_nothing(
    here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    here.behave("exec sleep 600")
    words = ["--points", str(POINTS), "--seed", str(SEED), "launch", here.run_file()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.launch_faults", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout)["ends"]
    assert len(ends) == POINTS
    tally: Counter[str] = Counter()
    for end in ends:
        root = here.runs / end["name"]
        if not root.is_dir():
            tally["before it wrote anything"] += 1
            continue
        rest = [table(Store(root))]

        def at_rest(root: Path = root, rest: list[Table] = rest) -> bool:
            rest[0] = table(Store(root))
            return not any(row.state == "being submitted" for row in rest[0].rows)

        here.until(at_rest, "the intents are settled")
        jobs = [job["job"] for job in here.jobs(root)]
        records = here.records(root)
        assert len(jobs) <= 1
        assert [entry["job"] for r in records.values() for entry in r["jobs"]] == jobs
        running = [pid for pid in here.programs() if _serves(pid, root)]
        assert len(running) == len(jobs)
        tally[rest[0].rows[0].state if rest[0].rows else "a folder without a record"] += 1
    with capsys.disabled():
        sys.stdout.write(f"\n{POINTS} launches on this machine, killed: {dict(tally)}\n")
    assert tally["running"] > 0
    assert tally["lost"] + tally["a folder without a record"] > 0


def _serves(pid: int, root: Path) -> bool:
    return f"--jobs={root}/".encode() in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_launches_at_the_same_moment_make_one_job(here: Machine) -> None:
    here.behave("exec sleep 600")
    words = ["launch", here.run_file()]
    ended = children([lambda: run_command(words)] * 4)
    assert Counter(code for code, _ in ended) == {0: 1, 2: 3}, ended
    assert len(here.programs()) == len(here.jobs()) == 1


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ("python: {folder}/nothing", 3, "which is no program here"),
        ("processes: 3", 2, "cluster.processes cannot be 3: a divisor of 4"),
        ("devices: gpu", 3, "the run takes 4 GPUs and this machine has 0"),
    ],
)
def test_what_this_machine_lacks_is_said_before_anything_starts(
    here: Machine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    code: int,
    words: str,
) -> None:
    monkeypatch.setattr(local, "gpus", lambda: 0)
    key = change.partition(":")[0]
    path = Path(here.run_file())
    held = path.read_text()
    line = next(text for text in held.splitlines() if text.startswith("cluster:"))
    said = {"python": f"python: {here.folder}/python", "processes": "processes: 1"}
    said["devices"] = "devices: cpu"
    path.write_text(held.replace(line, line.replace(said[key], change.format(folder=here.folder))))
    assert run_command(["launch", str(path)]) == code
    assert words in capsys.readouterr().err
    assert here.records() == {}


def test_a_model_that_does_not_fit_the_memory_is_refused_with_the_remedy(
    here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["launch", "mixtral-8x7b", "--launcher", "local", "--set", "cluster.devices=cpu"]
    assert run_command(words) == 2
    said = capsys.readouterr().err
    assert "weights and optimizer of this run take" in said
    assert "`moectl rehearse` runs it made small" in said


def test_an_environment_is_not_begun_where_it_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "read", lambda _: {"environment_gb": 10**6})
    with pytest.raises(LocalFilesError, match="an environment takes up to 1000000 GB"):
        require_room(tmp_path / "not" / "there")
    monkeypatch.setenv("MOECTL_HOME", str(tmp_path))
    plan = {"devices": "cpu", "processes": 1, "python": "", "environment_name": "maxtext-0.2.5"}
    with pytest.raises(LocalFilesError, match="set MOECTL_HOME"):
        local.interpreter(plan)
    assert not environments.built("maxtext-0.2.5")
    with pytest.raises(BackendError, match="no environment has maxtext-9"):
        local.interpreter({**plan, "environment_name": "maxtext-9"})


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"job": 5}', "\0" * 100, '{"job": "%s", "pid": "x"}' % ("1" * 17)],
)
def test_a_file_of_a_job_that_is_none_says_nothing(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "run" / "jobs"
    folder.mkdir(parents=True)
    (folder / f"{'1' * 17}.json").write_text(text)
    (folder / "other.json").write_text("{}")
    states = Local(tmp_path).survey([Wanted("run", ("12345678901234567",))])["run"]
    assert all(state.phase == "unknown" for state in states)
    assert boot()


def test_what_was_started_on_another_machine_is_not_judged_here(here: Machine) -> None:
    here.behave("exec sleep 600")
    assert here.launch() == 0
    here.until(lambda: "start" in only_job(here), "it runs")
    (path,) = here.runs.glob("*/jobs/*.json")
    held = json.loads(path.read_text())
    path.write_text(json.dumps(held | {"host": "elsewhere"}))
    assert state(here) == "unknown"
    with pytest.raises(BackendError, match="runs on elsewhere; cancel it there"):
        Local(here.runs).cancel([held["job"]], held["name"])


def test_without_a_slurm_and_without_a_site_this_machine_runs_it(
    here: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(here.folder))
    path = here.folder / "bare.yaml"
    path.write_text("preset: mixtral-8x7b\ngpus: 8\n")
    assert run_command(["launch", str(path), "--dry-run", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["launcher"] == "local"
    site = here.folder / "site.yaml"
    site.write_text("partition: batch\n")
    words = ["launch", str(path), "--cluster", str(site), "--dry-run", "--format", "json"]
    assert run_command(words) == 0
    assert json.loads(capsys.readouterr().out)["launcher"] == "slurm"
    site.write_text("launcher: local\n")
    assert run_command(words) == 0
    assert json.loads(capsys.readouterr().out)["launcher"] == "local"
