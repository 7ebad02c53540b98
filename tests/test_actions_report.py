"""Reports of recorded runs and of bundles: over their jobs and restarts, with their accounts.

The scheduler is a double that says what it is told.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from moectl.actions import report_follow
from moectl.actions.report import material, report
from moectl.actions.report_follow import follow
from moectl.errors import UnknownNameError
from moectl.launch.backend import JobState
from moectl.launch.store import Store
from tests.support import report_logs as made
from tests.support.run_records import Scheduler, record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def trained(store: Store) -> tuple[str, Scheduler]:
    """Record a run of one job that was requeued once, with two ranks."""
    run = replace(record(store, 7), hardware="gb300-nvl72", gpus=256)
    store.save(run)
    bundle = Path(run.bundle)
    spent = made.times(40)
    again = 70 + sum(spent) + 100
    for folder, text in (
        ("7", made.beginning(0.0, 256) + made.steps(spent, 70.0)),
        ("7.1", made.beginning(again, 256) + made.steps(made.times(20), again + 70, first=30)),
    ):
        place = bundle / "logs" / folder
        place.mkdir(parents=True)
        for rank in range(2):
            (place / f"rank-{rank}.log").write_text(text)
    (bundle / "config.yml").write_text("run_name: dsv3\nmetrics_file: m.jsonl\nsteps: 50\n")
    made.metrics(bundle / "m.jsonl", spent)
    start, end = "2026-11-30T08:00:00", "2026-11-30T08:20:00"
    return run.id, Scheduler({"7": JobState("7", "completed", start=start, end=end)})


def test_a_run_is_reported_over_its_restarts_with_its_hardware_and_accounts(store: Store) -> None:
    name, scheduler = trained(store)
    found = report(["moe"], store=store, backend=scheduler)
    assert found.name == name
    assert [(row.first, row.last) for row in found.starts] == [(0, 39), (30, 49)]
    assert found.value("steps") == 50
    assert len(found.processes) == 2
    assert found.context.hardware == "gb300-nvl72"
    assert found.context.gpus == 256
    assert found.value("mfu") == pytest.approx(0.218, abs=0.003)
    median = found.value("step_time_s.median") or 0
    assert found.value("goodput") == pytest.approx(50 * median / 1200)
    assert found.value("moe.recv_share") is not None
    assert scheduler.asked == 1


def test_a_scheduler_that_is_silent_is_a_note(store: Store) -> None:
    _, scheduler = trained(store)
    scheduler.silent = True
    found = report(["moe"], store=store, backend=scheduler)
    assert any("the scheduler gives no answer" in note for note in found.notes)
    assert found.value("goodput") is not None


def test_the_folder_of_a_bundle_is_read_like_its_run(store: Store) -> None:
    name, _ = trained(store)
    bundle = store.folder(name) / "bundle"
    (bundle / "moectl.lock.yaml").write_text("moectl: 1\ngpus: 256\nhardware: gb300-nvl72\n")
    held = material([str(bundle)])
    assert (held.hardware, held.gpus) == ("gb300-nvl72", 256)
    assert len(held.logs) == 4
    assert report([str(bundle)]).value("steps") == 50


def test_a_run_that_is_not_there_is_refused(store: Store) -> None:
    with pytest.raises(UnknownNameError):
        report(["nothing"], store=store)


def test_a_growing_log_is_followed_and_a_replaced_one_too(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(made.log(20))
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            with path.open("a") as stream:
                stream.write(made.steps([5.7] * 5, 400.0, first=20))
        if len(looks) == 4:
            path.unlink()
        if len(looks) == 6:
            path.write_text(made.log(7))

    seen = []
    for found in follow([str(path)], sleep=sleep):
        seen.append((len(looks), found.value("last_step")))
        if len(seen) == 3:
            break
    assert seen == [(0, 19), (2, 24), (6, 24)]
    assert any("was replaced while it was read" in note for note in found.notes)


def test_a_line_that_is_written_in_two_parts_is_seen_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(made.log(20))
    held = material([str(path)])
    line = made.steps([5.7], 400.0, first=20)
    with path.open("a") as stream:
        stream.write(line[:70])
        stream.flush()
        assert report_follow.gained(held) == 0
        stream.write(line[70:])
    assert report_follow.gained(held) == 1


def test_a_run_is_followed_until_nothing_of_it_lives(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(store)
    alive = iter([True, False])
    monkeypatch.setattr(report_follow, "is_live", lambda *_: next(alive))
    monkeypatch.setattr("moectl.actions.runs.backend_for", lambda _: Scheduler())
    found = list(follow(["moe"], store=store, sleep=lambda _: None))
    assert [each.value("last_step") for each in found] == [49, 49]


def test_a_reader_and_a_writer_at_the_same_time_agree_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("")
    text = made.log(400).encode()

    def write() -> None:
        with path.open("ab", buffering=0) as stream:
            for at in range(0, len(text), 997):
                stream.write(text[at : at + 997])
                time.sleep(0.0005)

    held = material([str(path)])
    writer = threading.Thread(target=write)
    writer.start()
    total = 0
    while writer.is_alive():
        total += report_follow.gained(held)
    writer.join()
    total += report_follow.gained(held)
    assert total == 400
    (table,) = held.logs[0].processes.values()
    assert list(table.steps) == list(range(400))
