"""How runs are: the scheduler's word and that of their logs, put together."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moectl.actions import render as rendering
from moectl.actions.differences import differences
from moectl.actions.plan import Wishes
from moectl.actions.runs import Table
from moectl.actions.status import LAST_LOOK, Status, Statuses, details, status, statuses, watched
from moectl.launch.backend import JobState, Phase
from moectl.launch.store import Store
from moectl.logs.folders import FIRST_FAILURE
from tests.support import training_logs as made
from tests.support.run_records import Scheduler, record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def one(store: Store, scheduler: Scheduler, now: float | None = None) -> Status:
    (found,) = statuses(store, scheduler, now).runs
    return found


def logs(store: Store, identity: str, job: str, text: str, rank: int = 0) -> Path:
    return made.folder(store.folder(identity) / "bundle", job, {rank: text})


def test_a_run_that_trains_shows_its_step_and_its_rates(store: Store) -> None:
    run = record(store, 7, steps=100)
    folder = logs(store, run.id, "7", made.config(steps=100) + made.steps(12))
    os.utime(folder / "rank-0.log", (1000, 1000))
    found = one(store, Scheduler({"7": JobState("7", "running", nodes="gpu[0-1]")}), now=1090)
    assert (found.state, found.log.last_step, found.steps) == ("running", 11, 100)
    assert (found.log.seconds, found.log.tflops, found.log.tokens_per_s) == (5.0, 412.125, 1000.0)
    assert found.age == 90
    assert found.as_dict(1090)["step"] == 11


def test_exit_code_0_is_done_only_at_the_last_step(store: Store) -> None:
    ended = Scheduler({"7": JobState("7", "completed", exit_code=0)})
    run = record(store, 7, steps=8)
    assert one(store, ended).state == "stopped"
    logs(store, run.id, "7", made.steps(7) + made.STOPPED)
    assert one(store, ended).state == "stopped"
    assert [row.state for row in statuses(store, ended).table.rows] == ["stopped"]
    logs(store, run.id, "7", made.steps(8))
    assert one(store, ended).state == "done"
    assert [row.state for row in statuses(store, ended).table.rows] == ["done"]


def test_without_a_number_of_steps_the_end_is_what_the_scheduler_says(store: Store) -> None:
    run = record(store, 7, steps=None)
    ended = Scheduler({"7": JobState("7", "completed", exit_code=0)})
    assert one(store, ended).state == "completed"
    logs(store, run.id, "7", made.step(3) + made.STOPPED)
    assert one(store, ended).state == "stopped"
    logs(store, run.id, "7", made.config(steps=5) + made.steps(5))
    assert one(store, ended).state == "done"


def test_minus_one_step_means_those_of_the_schedule(store: Store) -> None:
    run = record(store, 7, steps=-1)
    config = store.folder(run.id) / "bundle" / "config.yml"
    config.write_text("steps: -1\nlearning_rate_schedule_steps: 400\n")
    assert one(store, Scheduler()).steps == 400


def test_a_run_of_several_jobs_shows_the_newest_start_that_has_logs(store: Store) -> None:
    run = record(store, 7, jobs=["7", "8", "9"], steps=100)
    logs(store, run.id, "7", made.steps(10))
    logs(store, run.id, "8", made.steps(4, first=10))
    logs(store, run.id, "8.1", made.steps(4, first=20))
    logs(store, run.id, "6", made.steps(99))  # of another run of this bundle
    jobs = {"8": JobState("8", "completed"), "9": JobState("9", "pending", reason="Dependency")}
    found = one(store, Scheduler(jobs))
    assert (found.state, found.log.last_step) == ("pending", 23)
    assert found.folder is not None
    assert (found.folder.job, found.folder.restart) == ("8", 1)


def test_a_job_that_the_scheduler_forgot_is_done_when_its_logs_say_so(store: Store) -> None:
    run = record(store, 7, steps=8)
    assert one(store, Scheduler()).state == "unknown"
    logs(store, run.id, "7", made.steps(8))
    assert one(store, Scheduler()).state == "done"


def spoilt_log(bundle: Path, job: str) -> Path:
    return made.folder(bundle, job, {}) / "rank-0.log"


SPOILS: list[Callable[[Path], object]] = [
    lambda bundle: (bundle / "logs").write_text("a file"),
    lambda bundle: (bundle / "config.yml").unlink(),
    lambda bundle: (bundle / "config.yml").write_bytes(b"\xff\x00steps: x\n"),
    lambda bundle: os.mkfifo(spoilt_log(bundle, "5")),
    lambda bundle: spoilt_log(bundle, "6").mkdir(),
    lambda bundle: spoilt_log(bundle, "7").write_bytes(b"\xff" * 999),
    lambda bundle: spoilt_log(bundle, "8").symlink_to("rank-0.log"),
]


def test_whatever_lies_in_the_folder_the_table_comes(store: Store) -> None:
    good = record(store, 1)
    for number, spoil in enumerate(SPOILS, start=2):
        spoil(Path(record(store, number, name="odd").bundle))
    gone = record(store, 20, name="gone")
    (Path(gone.bundle) / "config.yml").unlink()
    Path(gone.bundle).rmdir()
    (store.root / "no-record").mkdir()
    (store.root / "torn").mkdir()
    (store.root / "torn" / "record.json").write_text("{")
    found = statuses(store, Scheduler({"1": JobState("1", "running")}))
    assert len(found.runs) == 9
    assert [each.state for each in found.runs if each.row.record.id == good.id] == ["running"]
    assert len(found.table.broken) == 1
    for each in found.runs:
        found_one, _ = status(store, each.row.record.id, Scheduler())
        json.dumps(details(found_one).as_dict(time.time()))


def test_a_loss_that_is_no_number_can_be_told_as_json(store: Store) -> None:
    run = record(store, 7)
    logs(store, run.id, "7", made.steps(3) + made.NAN)
    assert one(store, Scheduler()).as_dict(0.0)["loss"] == "nan"


def test_the_scheduler_is_asked_once_for_all_and_its_silence_is_told(store: Store) -> None:
    for number in range(30):
        record(store, number)
    scheduler = Scheduler()
    assert len(statuses(store, scheduler).runs) == 30
    assert scheduler.asked == 1
    silent = statuses(store, Scheduler(silent=True))
    assert silent.table.unreachable.startswith("squeue gave no answer")
    assert {each.state for each in silent.runs} == {"unknown"}


def test_a_thousand_runs_are_told_quickly(store: Store) -> None:
    text = made.config(steps=8) + made.steps(8)
    for number in range(1000):
        run = record(store, number)
        logs(store, run.id, str(number), text)
    scheduler = Scheduler()
    statuses(store, scheduler)
    before = time.process_time()
    assert len(statuses(store, scheduler).runs) == 1000
    assert time.process_time() - before < 1.5


# ---- One run -------------------------------------------------------------------------------


def test_a_run_that_failed_says_why(store: Store) -> None:
    run = record(store, 7)
    folder = logs(store, run.id, "7", made.VICTIM)
    made.folder(store.folder(run.id) / "bundle", "7", {5: made.MEMORY})
    (folder / "first-failure").write_text("1 5 gpu001\n")
    failed = Scheduler({"7": JobState("7", "failed", exit_code=1)})
    found, unreachable = status(store, run.id, failed)
    assert unreachable == ""
    close = details(found)
    assert close.verdict is not None
    assert (close.verdict.known, close.verdict.rank) == ("out-of-memory", 5)
    assert close.as_dict(0.0)["verdict"]["remedy"]


def test_a_run_that_is_well_is_given_no_verdict(store: Store) -> None:
    run = record(store, 7)
    logs(store, run.id, "7", made.MEMORY + made.steps(8))
    for phase in ("running", "completed"):
        scheduler = Scheduler({"7": JobState("7", phase)})
        found, _ = status(store, run.id, scheduler)
        assert details(found).verdict is None


def test_watching_looks_ever_more_seldom_until_nothing_is_live() -> None:
    phases = ["pending"] * 14 + ["running"] * 3 + ["completed"]
    waits: list[float] = []

    def look() -> Statuses:
        from moectl.actions.runs import row  # noqa: PLC0415
        from moectl.actions.status import status_of  # noqa: PLC0415
        from moectl.launch.record import RunRecord  # noqa: PLC0415
        from moectl.launch.settle import Survey  # noqa: PLC0415

        run = RunRecord("a", "a", "", "slurm", "", "/none", 8, 2, "x", "submitted")
        run = run.submitted("1", "")
        jobs = {"a": (JobState("1", phases.pop(0)),)}  # type: ignore[arg-type]
        found = status_of(row(Survey((run,), jobs), run), 0.0)
        return Statuses((found,), Table((found.row,)))

    seen = [each.runs[0].state for each in watched(look, waits.append)]
    assert seen[-1] == "completed"
    assert len(seen) == 18
    assert waits[0] == 2.0
    assert waits[:13] == sorted(waits[:13])
    assert max(waits) == LAST_LOOK
    assert waits[14] == 2.0  # something happened


# ---- What ran, against the lock -----------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "b"
    rendering.write(rendering.render("mixtral-8x7b", Wishes()), folder, force=False)
    return folder


def ran(bundle: Path, tmp_path: Path, **changes: Any) -> Path:
    """Write a record of what ran that is as the lock has it, but for the changes."""
    import hashlib  # noqa: PLC0415

    from moectl.render.variables import environment  # noqa: PLC0415

    job = rendering.render("mixtral-8x7b", Wishes()).job
    names = ("config.yml", "launch.sbatch", "rank.sh", "moectl.lock.yaml")
    own = {"JAX_COORDINATOR_ADDRESS": "a:1", "JAX_PARTITION_INDEX": "0", "PATH": "/bin"}
    image = job.container.image
    data: dict[str, Any] = {
        "format": 1,
        "processes": job.gpus,
        "files": {n: hashlib.sha256((bundle / n).read_bytes()).hexdigest() for n in names},
        "packages": {"maxtext": image.maxtext, "jaxlib": image.jaxlib, "numpy": "2.0"},
        "environment": {**environment(job), **own},
        "withheld": [],
    }
    for name, value in changes.items():
        held = data[name]
        data[name] = {**held, **value} if isinstance(held, dict) else value
    (tmp_path / "as-run.json").write_text(json.dumps(data))
    return tmp_path


def test_what_ran_as_it_was_rendered_differs_in_nothing(bundle: Path, tmp_path: Path) -> None:
    assert differences(bundle, ran(bundle, tmp_path)) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"packages": {"jaxlib": "0.9.0"}}, "jaxlib 0.9.0 ran; the job was checked against"),
        ({"processes": 3}, "3 processes ran, the job has 16"),
        ({"files": {"rank.sh": "0" * 64}}, "rank.sh was changed since it ran"),
        ({"files": {"gone.py": "0" * 64}}, "gone.py ran and is gone from the bundle"),
        ({"environment": {"NCCL_DEBUG": "TRACE"}}, "NCCL_DEBUG was 'TRACE'; the lock has 'WARN'"),
        ({"environment": {"NCCL_ALGO": "Ring"}}, "NCCL_ALGO was 'Ring', which the lock does not"),
        ({"environment": {"XLA_FLAGS": "--xla_odd=1"}}, "--xla_odd=1 was in XLA_FLAGS and is not"),
        ({"environment": {"NCCL_DEBUG": None}}, "NCCL_DEBUG did not reach the processes"),
    ],
)
def test_a_difference_is_named(
    changes: dict[str, Any], expected: str, bundle: Path, tmp_path: Path
) -> None:
    found = differences(bundle, ran(bundle, tmp_path, **changes))
    assert [line for line in found if line.startswith(expected)], found


def test_a_withheld_variable_is_no_difference(bundle: Path, tmp_path: Path) -> None:
    folder = ran(bundle, tmp_path, environment={"NCCL_DEBUG": None}, withheld=["NCCL_DEBUG"])
    assert differences(bundle, folder) == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"files": 3, "packages": [], "environment": "x", "processes": "7"}']
)
def test_a_spoilt_record_of_what_ran_says_nothing(text: str, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "as-run.json").write_text(text)
    assert differences(bundle, tmp_path) == []


def test_a_bundle_without_its_lock_is_told(tmp_path: Path) -> None:
    (tmp_path / "as-run.json").write_text("{}")
    (line,) = differences(tmp_path / "none", tmp_path)
    assert line.startswith("the lock cannot be read")


@pytest.mark.parametrize(
    ("phase", "cause"),
    [
        ("timeout", "the job reached its time limit"),
        ("node failure", "a node of the job went down"),
    ],
)
@pytest.mark.parametrize("code", [137, 143])
def test_what_the_scheduler_did_is_the_cause_and_not_the_signal_it_sent(
    store: Store, phase: Phase, cause: str, code: int
) -> None:
    run = record(store, 7, steps=9)
    folder = logs(store, run.id, "7", made.steps(3))
    (folder / FIRST_FAILURE).write_text(f"{code} 0 gpu0\n")
    seen = details(one(store, Scheduler({"7": JobState("7", phase)})))
    assert seen.verdict is not None
    assert (seen.verdict.cause, seen.verdict.exit_code) == (cause, code)


def test_a_cause_in_the_logs_is_told_whatever_the_scheduler_did_later(store: Store) -> None:
    run = record(store, 7, steps=9)
    text = "Traceback (most recent call last):\nValueError: no such thing\n"
    folder = logs(store, run.id, "7", made.steps(3) + text)
    (folder / FIRST_FAILURE).write_text("1 0 gpu0\n")
    seen = details(one(store, Scheduler({"7": JobState("7", "timeout")})))
    assert seen.verdict is not None
    assert seen.verdict.cause == "MaxText ended with ValueError"
