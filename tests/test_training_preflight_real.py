"""Real MaxText trains after a real preflight passed, in the same job."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from moectl.actions.status import details, status
from moectl.cli import status as status_command
from moectl.launch.store import Store
from moectl.logs.folders import beginning
from moectl.logs.maxtext import StepLine, read_log
from moectl.logs.tail import last_lines
from moectl.render.config import config_yml
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import shell
from tests.support.run_records import record
from tests.support.slurm import Slurm
from tests.test_training_real import ATTEMPTS, STEPS, observed, tiny, with_job
from tests.test_training_real import slurm as slurm  # noqa: PLC0414 - the fixture


def test_maxtext_trains_after_the_preflight_and_status_shows_both(
    slurm: Slurm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm.environment[name])
    plain = tiny()
    job = replace(plain, cluster=replace(plain.cluster, preflight=True))
    store = Store()
    run = record(store, 1, name="tiny", jobs=[], steps=None)
    bundle = Path(run.bundle)
    files = {"launch.sbatch": launch_script(job), "config.yml": config_yml(job), **programs(job)}
    shell.write(bundle, files)
    options = [f"--job-name={run.id}", "--output=%j.out"]
    seen: list[tuple[str, int | None]] = []
    for _ in range(ATTEMPTS + 2):
        number = slurm.submit(bundle / "launch.sbatch", options=options, cwd=bundle)
        store.update(run.id, partial(with_job, str(number)))
        if seen := observed(slurm, store, str(number)):
            break
    folder = bundle / "logs" / str(number)
    output = beginning(bundle / f"{number}.out", 10_000)
    last = "".join(last_lines(folder / "rank-0.log"))[-3000:]
    assert seen[-1:] == [("done", STEPS - 1)], f"{output}\n{last}"
    assert "4 processes are there and alike" in output
    said = json.loads((folder / "preflight.json").read_text())
    assert (said["passed"], said["ranks"], said["faults"]) == (True, 4, [])
    assert "ici fsdp" in said["median_seconds"]
    for rank in range(4):
        steps = [s for s in read_log(folder / f"rank-{rank}.log") if isinstance(s, StepLine)]
        assert [step.step for step in steps] == list(range(STEPS))
    found, _ = status(store, run.id)
    assert found.state == "done"
    assert details(found).preflight == "passed"
    assert status_command.run(["tiny"], watch=False, format="text") == 0
    assert "checked the preflight passed" in capsys.readouterr().out
