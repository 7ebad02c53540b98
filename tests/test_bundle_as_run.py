"""The record of what ran."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from moectl.render.programs import programs
from moectl.render.slurm import launch_script
from tests.support import jobs, shell
from tests.support.programs import load

as_run = load("as_run")


def test_secrets_are_named_and_never_shown() -> None:
    values = {"HF_TOKEN": "s", "MINE": "s", "XLA_FLAGS": "--a", "AWS_SECRET_ACCESS_KEY": "s"}
    shown, withheld = as_run.environment(values, {"MINE"})
    assert shown == {"XLA_FLAGS": "--a"}
    assert withheld == ["AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "MINE"]


def test_the_record_says_what_ran(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    job = jobs.deepseek()
    script = {"launch.sbatch": launch_script(job), "config.yml": "a: 1\n"}
    shell.write(bundle, {**script, **programs(job)})
    logs = bundle / "logs/1"
    logs.mkdir(parents=True)
    (logs / "nodes").write_text("a 0 x\nb 0 x\nc 1 y\nd 1 -\ntorn\n")
    environment = {
        "SLURM_JOB_ID": "1",
        "SLURM_NTASKS": "16",
        "JAX_COORDINATOR_ADDRESS": "a:20481",
        "HF_TOKEN": "hf_very_secret",
        "PATH": os.environ["PATH"],
        "ODD": "\udcff",
    }
    subprocess.run(
        [sys.executable, "as_run.py", "--image", "x#y", "--secret", "HF_TOKEN", "logs/1"],
        cwd=bundle,
        env=environment,
        check=True,
    )
    text = (logs / "as-run.json").read_text()
    assert "hf_very_secret" not in text
    record = json.loads(text)
    assert record["slices"] == [
        {"nodes": ["a", "b"], "domains": ["x"]},
        {"nodes": ["c", "d"], "domains": ["y"]},
    ]
    assert record["processes"] == 16
    assert record["coordinator"] == "a:20481"
    assert record["image"] == "x#y"
    assert record["withheld"] == ["HF_TOKEN"]
    assert record["packages"]["pytest"]
    assert set(record["files"]) == {
        "config.yml", "launch.sbatch", "placement.py", "rank.sh", "watchdog.py",
    }  # fmt: skip
    assert sorted(path.name for path in logs.iterdir()) == ["as-run.json", "nodes"]
