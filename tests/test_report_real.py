"""Logs that real MaxText wrote are read to their last field, and agree with its own sinks.

One process is killed in the middle of a step and resumed from its checkpoint; two processes train
together. Every number of every step line is compared with the metrics file in full precision.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from moectl.actions.report import report
from moectl.logs.columns import ABSENT, columns
from moectl.logs.reading import Reading
from moectl.logs.tensorboard import EventFile
from moectl.report.context import Wish
from tests.support.components import require
from tests.test_training_real import MODEL

ATTEMPTS = 3
PERIOD = 20  # steps between checkpoints
LATEST = 400  # seconds for a process to get as far as it should


@dataclass(frozen=True)
class Trained:
    """The folder of what was trained."""

    folder: Path
    killed: Path
    resumed: Path
    pair: tuple[Path, Path]


def start(
    folder: Path, name: str, devices: int, environment: dict[str, str], *said: str
) -> subprocess.Popen[bytes]:
    words = [
        f"{key}={value}" for key, value in MODEL.items() if key not in {"base_config", "steps"}
    ]
    words += [
        "ici_fsdp_parallelism=2",
        "ici_expert_parallelism=1",
        f"metrics_file={name}.jsonl",
        *said,
    ]
    config = folder / "start.yml"
    config.write_text("base_config: base.yml\n")
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [
                str(require("maxtext")),
                "-m",
                "maxtext.trainers.pre_train.train",
                str(config),
                *words,
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={
                **os.environ,
                "JAX_PLATFORMS": "cpu",
                "JAX_NUM_CPU_DEVICES": str(devices),
                "HF_HUB_OFFLINE": "1",
                **environment,
            },
        )


def seen(log: Path, step: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a log tells of a step."""
    deadline = time.monotonic() + LATEST
    reading = Reading(log)
    while time.monotonic() < deadline and process.poll() is None:
        reading.update()
        if any(table.attempts[-1].last >= step for table in reading.processes.values()):
            return
        time.sleep(0.2)
    pytest.fail(f"no step {step}: {log.read_text('utf-8', 'replace')[-3000:]}")


def together(folder: Path, attempt: int) -> bool:
    """Train with two processes; False when they began too unevenly, as on a busy machine.

    On CPU the processes wait 30 s for each other at their first collective operation.
    """
    slurm = {
        "SLURM_JOB_ID": str(os.getpid() + attempt),  # JAX makes its port of it
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
    }
    pair = [
        start(
            folder,
            f"pair-{rank}",
            1,
            {**slurm, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
            "steps=12",
            "run_name=pair",
        )
        for rank in range(2)
    ]
    try:
        return [process.wait(LATEST) for process in pair] == [0, 0]
    finally:
        for process in pair:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    alone = [
        "skip_jax_distributed_system=true",
        "enable_checkpointing=true",
        f"checkpoint_period={PERIOD}",
    ]
    alone += [
        f"base_output_directory={folder / 'out'}",
        "run_name=alone",
        "enable_tensorboard=true",
    ]
    running = start(folder, "alone", 2, {}, *alone, "steps=100000")
    try:
        seen(folder / "alone.log", PERIOD + 5, running)
    finally:
        running.kill()  # SIGKILL, wherever it is
        running.wait()
    killed = folder / "killed.log"
    (folder / "alone.log").rename(killed)
    last = max(table.attempts[-1].last for table in read(killed).processes.values())
    again = start(folder, "alone", 2, {}, *alone, f"steps={last + 8}")
    try:
        paired = any(together(folder, number) for number in range(ATTEMPTS))
        assert again.wait(LATEST) == 0, (folder / "alone.log").read_text()[-3000:]
    finally:
        again.kill()
        again.wait()
    assert paired, (folder / "pair-0.log").read_text()[-3000:]
    logs = (folder / "pair-0.log", folder / "pair-1.log")
    return Trained(folder, killed, folder / "alone.log", logs)


def read(path: Path) -> Reading:
    reading = Reading(path)
    reading.update()
    return reading


def records(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_field_of_every_step_line_is_that_of_the_metrics_file(trained: Trained) -> None:
    pairs = [(log, log.with_suffix(".jsonl")) for log in trained.pair]
    compared = 0
    for log, sink in [*pairs, (trained.resumed, trained.folder / "alone.jsonl")]:
        reading = read(log)
        (table,) = reading.processes.values()
        told = {int(record["step"]): record for record in records(sink)}
        assert reading.parser.damaged_count == 0
        assert reading.parser.unknown == set()
        assert set(table.columns) >= {"seconds", "tflops", "tokens_per_s", "loss", "moe_lb_loss"}
        for row, step in enumerate(table.steps):
            for name, values in table.columns.items():
                column = columns()[name]
                assert values[row] != ABSENT
                precise = told[step][column.sink]
                digits = column.decimals if column.decimals is not None else 3
                assert f"{values[row]:.{digits}f}" == f"{precise:.{digits}f}", (log, step, name)
                compared += 1
        assert len(table.steps) >= 8
    assert compared > 200


def test_a_run_that_was_killed_and_resumed_is_one_run_of_two_starts(trained: Trained) -> None:
    sink = trained.folder / "alone.jsonl"
    found = report([str(trained.killed), str(trained.resumed), str(sink)], Wish(hardware="gb200"))
    first, second = found.starts
    assert first.first == 0
    assert second.first == first.last + 1 - first.redone
    assert second.first % PERIOD in {0, 1}
    assert found.value("steps") == second.last + 1
    assert found.value("restarts") == 1
    assert 0 < (found.value("goodput") or 0) < 1
    assert (first.until_first or 0) > 1
    # MaxText's own count of the model's FLOPs, against the one made from its echo.
    tflop = records(sink)[0]["perf/per_device_tflops"]
    assert found.context.model_tflop == pytest.approx(tflop, rel=1e-6)
    assert found.context.gpus == 2
    assert found.context.precision == "bf16"
    told = {int(record["step"]): record for record in records(sink)}
    last = told[second.last]
    assert found.value("loss.last") == last["learning/loss"]


def test_two_processes_are_one_start_with_two_processes(trained: Trained) -> None:
    found = report([str(path) for path in trained.pair])
    assert found.value("steps") == 12
    assert len(found.starts) == 1
    assert len(found.processes) == 2
    assert found.value("ranks.spread_s") is not None
    assert found.context.gpus == 2


def test_event_files_say_what_the_metrics_file_says(trained: Trained) -> None:
    paths = sorted((trained.folder / "out").rglob("events.out.tfevents.*"))
    assert paths
    told: dict[int, list[dict[str, float]]] = {}
    for record in records(trained.folder / "alone.jsonl"):
        told.setdefault(int(record["step"]), []).append(record)
    compared = 0
    for path in paths:
        events = EventFile(path)
        events.update()
        for row, step in enumerate(events.table.steps):
            loss = events.table.columns["loss"][row]
            assert any(loss == pytest.approx(r["learning/loss"], rel=1e-6) for r in told[step])
            compared += 1
    assert compared > PERIOD
