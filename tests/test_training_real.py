"""Real MaxText trains through the rendered script, and its steps are seen.

Two nodes of a real Slurm with two processes each, on CPU, without a container; MaxText's own
start-up finds the peers. Nothing is a stand-in but the size of the model.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moectl.actions.status import details, status, statuses
from moectl.cli import logs as logs_command
from moectl.cli import status as status_command
from moectl.job import Cluster, Job
from moectl.launch.record import RunRecord
from moectl.launch.store import Store
from moectl.logs.folders import beginning, rank_logs
from moectl.logs.maxtext import StepLine, read_line, read_log
from moectl.logs.tail import first_fatal, last_lines
from moectl.render.config import config_yml
from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs, shell
from tests.support.components import require
from tests.support.run_records import process, record
from tests.support.slurm import Slurm, cluster
from tests.support.tiny_moe import TINY

STEPS = 6
ATTEMPTS = 3
MODEL: dict[str, Any] = TINY | {
    "ici_fsdp_parallelism": 4,
    "enable_checkpointing": False,
    "base_output_directory": "output",
    "steps": STEPS,
}


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    require("slurm-cluster")
    with cluster(nodes=2, gpus=2, cpus=16) as running:
        yield running


def tiny() -> Job:
    hardware = replace(jobs.GB200, gpus_per_node=2, domain_gpus=2, usable_domain_gpus=2)
    environment = {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1", "HF_HUB_OFFLINE": "1"}
    return replace(
        jobs.job(hardware, 2, slice_gpus=4),
        config=jobs.said(MODEL),
        environment=jobs.said(environment),
        cluster=Cluster(
            runtime="none", gpu_request="none", memory="", python=str(require("maxtext"))
        ),
    )


def with_job(job: str, held: RunRecord) -> RunRecord:
    return held.submitted(job, held.created)


def observed(slurm: Slurm, store: Store, job: str) -> list[tuple[str, int | None]]:
    """Return what `status` says of the run until it ends; nothing when it began too unevenly.

    On CPU the processes wait 30 s for each other at their first collective operation, which a
    busy machine may exceed; no setting of JAX makes that longer.
    """
    seen = []
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        (found,) = statuses(store).runs
        seen.append((found.state, found.log.last_step))
        if not found.row.live:
            break
        logs = rank_logs(found.folder.path) if found.folder else {}
        said = [fatal for path in logs.values() if (fatal := first_fatal(path)) is not None]
        if any(fatal.known.id == "gloo" for fatal in said):
            slurm.run("scancel", job)
            slurm.wait(int(job), store.root / "none")
            return []
        time.sleep(1)
    return seen


def test_four_processes_of_maxtext_train_and_status_shows_their_steps(
    slurm: Slurm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm.environment[name])
    job = tiny()
    store = Store()
    run = record(store, 1, name="tiny", jobs=[], steps=None)
    bundle = Path(run.bundle)
    files = {"launch.sbatch": launch_script(job), "config.yml": config_yml(job), **programs(job)}
    shell.write(bundle, files)
    words = {"follow": True, "failed": False, "rank": None, "job": None, "lines": "0"}
    options = [f"--job-name={run.id}", "--output=%j.out"]
    seen: list[tuple[str, int | None]] = []
    for _ in range(ATTEMPTS):
        number = slurm.submit(bundle / "launch.sbatch", options=options, cwd=bundle)
        store.update(run.id, partial(with_job, str(number)))
        follower = process("logs", {**words, "run": "tiny"})
        request.addfinalizer(follower.kill)
        if seen := observed(slurm, store, str(number)):
            break
        follower.kill()
        follower.communicate()
    folder = bundle / "logs" / str(number)
    output = beginning(bundle / f"{number}.out", 10_000)
    last = "".join(last_lines(folder / "rank-0.log"))[-3000:]
    assert seen[-1] == ("done", STEPS - 1), f"{output}\n{last}"
    assert ("running", None) in seen

    for rank in range(4):
        steps = [s for s in read_log(folder / f"rank-{rank}.log") if isinstance(s, StepLine)]
        assert [step.step for step in steps] == list(range(STEPS))
        assert all(step.seconds is not None and step.loss is not None for step in steps)
        assert steps[-1].loss == pytest.approx(steps[0].loss, abs=1)
    assert not (folder / "watchdog.json").exists()
    assert "watchdog" not in output

    found, _ = status(store, run.id)
    assert details(found).verdict is None
    assert found.log.seconds is not None
    assert (found.log.tokens_per_s or 0) > 0
    assert status_command.run([], watch=False, format="text") == 0
    assert f"{STEPS}/{STEPS}" in capsys.readouterr().out
    assert logs_command.run("tiny", False, False, "3", None, "400") == 0
    assert f"completed step: {STEPS - 1}," in capsys.readouterr().out
    followed, told = follower.communicate(timeout=60)
    assert follower.returncode == 0, told
    lines = followed.decode().splitlines()
    lines = lines[lines.index(f"==> job {number}, rank 0 <==") :]
    assert len(lines) > 100
    read = [line for line in map(read_line, lines) if isinstance(line, StepLine)]
    assert [step.step for step in read] == list(range(STEPS))
    ran = json.loads((folder / "as-run.json").read_text())
    assert ran["processes"] == 4
    assert ran["packages"]["maxtext"]
