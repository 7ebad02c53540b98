"""moectl status, as a person sees it."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from moectl.actions import runs
from moectl.cli import status as command
from moectl.errors import BackendError, UnknownNameError, UsageError
from moectl.launch.backend import JobState
from moectl.launch.store import Store
from tests.support import training_logs as made
from tests.support.run_records import Scheduler, record

NOW = 1_800_000_000.0


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Scheduler:
    """The scheduler that every run of this test has."""
    told = Scheduler()
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))
    monkeypatch.setitem(runs._MAKERS, "slurm", lambda _: told)
    monkeypatch.setattr("time.time", lambda: NOW)
    return told


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def trained(store: Store, number: int, text: str, *, name: str = "moe", steps: int = 100) -> str:
    """Write a run with a log that is 90 s old; return its id."""
    run = record(store, number, name=name, steps=steps)
    folder = made.folder(Path(run.bundle), str(number), {0: text})
    os.utime(folder / "rank-0.log", (NOW - 90, NOW - 90))
    return run.id


def said(capsys: pytest.CaptureFixture[str], *words: str, **options: Any) -> list[str]:
    assert command.run(list(words), **{"watch": False, "format": "text", **options}) == 0
    return capsys.readouterr().out.splitlines()


def test_the_table_has_a_line_a_run(
    store: Store, scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(store, 1, made.steps(12))
    trained(store, 2, made.steps(8) + made.NAN, name="longer-name", steps=8)
    record(store, 3, name="new")
    scheduler.jobs = {
        "1": JobState("1", "running"),
        "2": JobState("2", "failed", exit_code=1),
        "3": JobState("3", "pending", reason="Priority"),
    }
    head, *rows = said(capsys)
    assert " ".join(head.split()) == "RUN STATE STEP S/STEP TFLOP/S TOKENS/S LOSS AGE JOB"
    cells = {row.split()[0].partition("-2026")[0]: row.split()[1:] for row in rows}
    assert cells == {
        "moe": ["running", "12/100", "5.000", "412.1", "1000", "7.402", "1m", "1"],
        "longer-name": ["failed", "4/8", "0.211", "0.008", "607", "nan", "1m", "2"],
        "new": ["pending", "-", "-", "-", "-", "-", "-", "3"],
    }
    assert len({row.index(row.split()[1]) for row in rows}) == 1  # columns are columns


def test_a_run_is_looked_at_closely(
    store: Store, scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = trained(store, 1, made.steps(12) + made.VICTIM)
    folder = made.folder(store.folder(identity) / "bundle", "1", {5: made.MEMORY})
    (folder / "first-failure").write_text("1 5 gpu001\n")
    scheduler.jobs = {"1": JobState("1", "failed", nodes="gpu[000-001]", exit_code=1)}
    lines = said(capsys, identity)
    assert lines[0] == f"{identity}: failed"
    text = "\n".join(lines)
    assert "job     1 (first): failed, on gpu[000-001], exit code 1" in text
    assert "steps   12/100 done, 5.000 s a step, 412.1 TFLOP/s" in text
    assert "failed  rank 5 on gpu001, exit code 1, a GPU ran out of memory" in text
    assert "try     a smaller batch" in text
    assert "again   would fail the same way" in text


def test_what_strangers_wrote_reaches_no_terminal(
    store: Store, scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = trained(store, 1, made.steps(2) + "ValueError: \x1b[2Jodd\x07\n")
    folder = store.folder(identity) / "bundle" / "logs" / "1"
    (folder / "first-failure").write_text("1 0 gpu\x1b[2J001\n")
    scheduler.jobs = {"1": JobState("1", "failed", reason="\x1b]0;x\x07")}
    text = "\n".join([*said(capsys, identity), *said(capsys)])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\\x1b[2Jodd\\x07" in text


def test_programs_are_told_the_same(
    store: Store, scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = trained(store, 1, made.steps(12))
    (store.root / "torn").mkdir()
    (store.root / "torn" / "record.json").write_text("{")
    scheduler.jobs = {"1": JobState("1", "running")}
    found = json.loads("\n".join(said(capsys, format="json")))
    (run,) = found["runs"]
    assert (run["state"], run["step"], run["steps"], run["seconds"]) == ("running", 11, 100, 5.0)
    assert run["last_line_age"] == 90
    assert [row["why"] for row in found["broken"]] == ["is no JSON"]
    one = json.loads("\n".join(said(capsys, identity, format="json")))
    assert one["verdict"] is None
    assert one["differences"] == []


def test_no_runs_are_told(scheduler: Scheduler, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = said(capsys)
    assert "no runs in" in line
    assert "moectl launch" in line


def test_a_scheduler_that_does_not_answer_is_an_error_after_what_is_known(
    store: Store, scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = trained(store, 1, made.steps(12))
    scheduler.silent = True
    for words in ([], [identity]):
        with pytest.raises(BackendError, match="squeue gave no answer"):
            command.run(words, watch=False, format="text")
        assert "12/100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "options"), [(["a", "b"], {}), ([], {"watch": True, "format": "json"})]
)
def test_what_cannot_be_meant_is_refused(
    words: list[str], options: dict[str, Any], scheduler: Scheduler
) -> None:
    with pytest.raises(UsageError):
        command.run(words, **{"watch": False, "format": "text", **options})
    with pytest.raises(UnknownNameError):
        command.run(["nobody"], watch=False, format="text")


def watching(monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler) -> None:
    """Let the job end while it is watched for the third time."""
    phases = iter(["pending", "running", "completed"])
    survey = scheduler.survey

    def next_phase(wanted: Any) -> Any:
        scheduler.jobs = {"1": JobState("1", next(phases))}  # type: ignore[arg-type]
        return survey(wanted)

    monkeypatch.setattr(scheduler, "survey", next_phase)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("moectl.actions.status.watched.__defaults__", (lambda _: None,))


@pytest.mark.parametrize("one", [True, False])
def test_watching_prints_every_look_where_there_is_no_terminal(
    one: bool,
    store: Store,
    scheduler: Scheduler,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    identity = trained(store, 1, made.steps(8), steps=8)
    watching(monkeypatch, scheduler)
    lines = said(capsys, *([identity] if one else []), watch=True)
    assert [line.split()[1] for line in lines if line.startswith("moe")] == [
        "pending",
        "running",
        "done",
    ]
    assert "rich" not in sys.modules or not any("\x1b" in line for line in lines)


def test_watching_redraws_one_table_on_a_terminal(
    store: Store, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(store, 1, made.steps(8), steps=8)
    watching(monkeypatch, scheduler)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    assert command.run([], watch=True, format="text") == 0
    text = terminal.getvalue()
    assert "8/8" in text
    assert "done" in text
    assert "\x1b[1A" in text  # drawn over, not below
