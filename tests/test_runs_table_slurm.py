"""The table with 200 runs at a real Slurm with accounts: all of them, and one call each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from moectl.launch.record import RunRecord
from moectl.launch.settle import moment
from moectl.launch.slurm import Slurm
from moectl.launch.store import Store, run_id
from moectl.launch.submit import cancel, launch
from moectl.settings.bundle_names import LAUNCH
from tests.support.launching import Site, eventually, person, run_command

RUNS, CANCELLED = 200, 8


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with person(tmp_path / "person") as found:
        yield found


def written(folder: Path) -> None:
    folder.mkdir(parents=True)
    script = folder / LAUNCH
    script.write_text("#!/bin/sh\n#SBATCH --partition=held --output=/dev/null\nexit 0\n")


def launched(store: Store, number: int) -> RunRecord:
    name, now = f"moe-{number:03d}", moment()
    meant = RunRecord(run_id(name, now), name, now, "slurm", "t", "", 4, 1, "gb200-nvl72")
    return launch(store, Slurm(), meant, written)


def test_200_runs_are_in_the_table_after_one_call_each(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(site.runs)
    runs = [launched(store, number) for number in range(RUNS)]
    for run in runs[:CANCELLED]:
        cancel(store, Slurm(), run.id)
    last = runs[CANCELLED - 1].job_ids[-1]
    eventually(lambda: site.state(last) == "CANCELLED", "the last one is cancelled")
    calls = site.folder / "calls"
    for program in ("squeue", "sacct"):
        site.program(program, f'echo {program} >>{calls}; exec $REAL "$@"')

    assert run_command(["runs", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["runs"]
    assert {row["id"]: row["jobs"][0]["job"] for row in rows} == {
        run.id: run.job_ids[0] for run in runs
    }
    states = Counter(row["state"] for row in rows)
    assert states == {"pending": RUNS - CANCELLED, "cancelled": CANCELLED}
    called = Counter(calls.read_text().split())
    assert called["squeue"] == 1
    assert called["sacct"] <= 1

    calls.unlink()
    assert run_command(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("moe-")]) == RUNS
    assert sum(" pending " in line for line in lines) == RUNS - CANCELLED
    assert Counter(calls.read_text().split())["squeue"] == 1
