"""Real MaxText trains on this machine through the local launcher."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moectl.actions.status import details, status
from moectl.launch.store import Store
from moectl.logs.maxtext import StepLine, read_log
from moectl.logs.tail import first_fatal
from tests.support.components import require
from tests.support.launching import run_command
from tests.support.local_site import Machine, machine

STEPS = 3
ATTEMPTS = 3
CHECKPOINTS = "checkpoints: {enabled: true, period: 1, asynchronous: false}\n"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Machine]:
    interpreter = require("maxtext")
    with machine(tmp_path / "person") as found:
        (found.folder / "python").write_text(f'#!/bin/sh\nexec {interpreter} "$@"\n')
        yield found


def logs_of(here: Machine) -> Path:
    """Return the logs of the newest job."""
    newest = here.jobs()[-1]
    (folder,) = here.runs.glob(f"{newest['name']}/bundle/logs/{newest['job']}")
    return folder


def steps(path: Path) -> list[StepLine]:
    return [line for line in read_log(path) if isinstance(line, StepLine)]


def test_a_tiny_moe_trains_on_eight_devices_and_goes_on_from_its_checkpoint(
    here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(here.run_file("tiny", more=CHECKPOINTS))
    path.write_text(path.read_text().replace("gpus: 4", "gpus: 8").replace("fsdp: 2", "fsdp: 4"))
    assert run_command(["launch", str(path), "--wait"]) == 0, capsys.readouterr()
    folder = logs_of(here)
    whole = steps(folder / "rank-0.log")
    assert [step.step for step in whole] == list(range(STEPS))
    assert "Num_devices: 8" in (folder / "rank-0.log").read_text("utf-8", "replace")
    losses = [step.loss for step in whole if step.loss is not None]
    assert len(losses) == STEPS
    assert losses == sorted(losses, reverse=True)
    found, _ = status(Store(here.runs), "tiny")
    assert (found.state, found.steps) == ("done", STEPS)
    assert details(found).verdict is None
    ran = json.loads((folder / "as-run.json").read_text())
    assert ran["packages"]["maxtext"] == "0.2.5"
    (checkpoints,) = here.runs.glob("*/bundle/output/tiny/checkpoints")
    held = sorted(int(entry.name) for entry in checkpoints.iterdir() if entry.name.isdecimal())
    assert held[0] == 0


def test_two_processes_find_each_other_through_maxtexts_own_start(
    here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """On CPU they wait 30 s for each other at most, which a busy machine may exceed."""
    for _ in range(ATTEMPTS):
        code = here.launch("--wait", "--again", name="two", processes=2)
        folder = logs_of(here)
        said = [first_fatal(folder / f"rank-{rank}.log") for rank in (0, 1)]
        if code == 0 or not any(fatal and fatal.known.id == "gloo" for fatal in said):
            break
    assert code == 0, capsys.readouterr()
    both = [steps(folder / f"rank-{rank}.log") for rank in (0, 1)]
    assert [[step.step for step in rank] for rank in both] == [list(range(STEPS))] * 2
    assert [step.loss for step in both[0]] == [step.loss for step in both[1]]
    text = (folder / "rank-1.log").read_text("utf-8", "replace")
    assert "Num_devices: 4" in text
    assert json.loads((folder / "as-run.json").read_text())["processes"] == 2
