"""What earlier versions wrote still loads: bundles, run records, chains, climbs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moectl.actions import climb as climbs
from moectl.launch.store import Store

ROOT = Path(__file__).resolve().parents[1]
OLD = ROOT / "tests" / "fixtures" / "old"
RUNS = ("first-run", "first-chain", "first-climb")
JOB = ("--gpus", "8", "--hardware", "h100-hgx")
# A double: it only gives out numbers, and knows of no job.
SBATCH = "#!/bin/sh\ncase \"$*\" in *--version*) echo 'slurm 22.05.8';; *) echo $$;; esac\n"
SILENT = "#!/bin/sh\ncase \"$*\" in *--version*) echo 'slurm 22.05.8';; esac\n"


@pytest.fixture(params=RUNS)
def runs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of old records, with the scheduler's double on PATH."""
    return _laid(str(request.param), tmp_path, monkeypatch)


def _laid(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / name
    shutil.copytree(OLD / name, folder)
    for path in folder.rglob("*"):
        if path.is_file() and "@HERE@" in (text := path.read_text("utf-8")):
            path.write_text(text.replace("@HERE@", str(folder)), "utf-8")
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in ("sbatch", "squeue", "sacct", "scontrol", "sinfo", "scancel", "sacctmgr"):
        (programs / program).write_text(SBATCH if program == "sbatch" else SILENT, "utf-8")
        (programs / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("MOECTL_RUNS", str(folder / "runs"))
    return folder / "runs"


def _said(*words: str, codes: tuple[int, ...] = (0,), cwd: Path = OLD) -> str:
    """Run a command in a process of its own and return all that it printed."""
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [sys.executable, "-m", "moectl", *words],
        cwd=cwd,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    printed = answer.stdout + answer.stderr
    assert answer.returncode in codes, (words, answer.returncode, printed)
    assert "Traceback" not in printed
    return printed


def _ids(runs: Path) -> list[str]:
    return sorted(path.parent.name for path in runs.glob("*/record.json"))


def test_old_records_are_read_and_written_back_as_they_were(runs: Path) -> None:
    store = Store(runs)
    listing = store.list()
    assert [record.id for record in sorted(listing.records, key=lambda r: r.id)] == _ids(runs)
    for identity in _ids(runs):
        file = runs / identity / "record.json"
        before = json.loads(file.read_text("utf-8"))
        record = store.update(identity, lambda record: record)
        after = json.loads(file.read_text("utf-8"))
        assert (record.id, record.launcher, record.state) == (identity, "slurm", "submitted")
        assert {key: after[key] for key in before} == before


def test_runs_status_logs_and_reports_tell_of_old_runs(runs: Path) -> None:
    table = _said("runs")
    for identity in _ids(runs):
        assert identity in table
        record = json.loads((runs / identity / "record.json").read_text("utf-8"))
        seen = _said("status", identity, codes=(0, 1))
        assert all(job["job"] in seen for job in record["jobs"])
        assert record["bundle"] in seen
        assert "no line tells of a step" in _said("report", identity, codes=(0, 1))
        answer = json.loads(_said("status", identity, "--format", "json", codes=(0, 1)))
        assert answer["id"] == identity


def test_old_runs_are_resumed_of_their_own_bundle(runs: Path) -> None:
    for identity in _ids(runs):
        before = json.loads((runs / identity / "record.json").read_text("utf-8"))
        assert before["bundle"] in _said("resume", identity)
        after = json.loads((runs / identity / "record.json").read_text("utf-8"))
        assert len(after["jobs"]) > len(before["jobs"])
        assert after["jobs"][: len(before["jobs"])] == before["jobs"]


def test_what_drifted_since_an_old_run_is_named(runs: Path) -> None:
    for identity in _ids(runs):
        assert "something drifted" in _said("verify", identity, codes=(1,))


def test_an_old_climb_is_found_where_it_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = _laid("first-climb", tmp_path, monkeypatch)
    found = climbs.shown(Store(runs), "mixtral-8x7b")
    assert [rung.gpus for rung in found.climb.rungs] == [8, 16]
    assert [rung.run for rung in found.climb.rungs] == sorted(_ids(runs), reverse=True)


def test_an_old_bundle_is_shown_judged_and_told_from_todays(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(OLD / "first-bundle", bundle)
    assert "ici_fsdp_parallelism" in _said("show", str(bundle))
    assert "in 1 file" in _said("validate", str(bundle))
    verified = _said("verify", str(bundle), codes=(1,))
    assert "watchdog.py" in verified
    assert "its lock renders other bytes now" in verified
    compared = _said("diff", str(bundle), "mixtral-8x7b", codes=(0, 1))
    assert "GPUs: 8 -> 16" in compared


def test_an_old_bundle_renders_anew_as_the_same_job(tmp_path: Path) -> None:
    new = tmp_path / "new"
    _said("render", str(OLD / "first-bundle"), "--output", str(new))
    old = _said("show", str(OLD / "first-bundle"))
    assert _said("show", str(new)) == old
    assert "nothing drifted" in _said("verify", str(new))


def test_an_old_bundle_is_imported(tmp_path: Path) -> None:
    files = [str(OLD / "first-bundle" / name) for name in ("launch.sbatch", "config.yml")]
    answer = _said("import", *files, *JOB, codes=(0, 1), cwd=tmp_path)
    assert 'name: "mixtral-8x7b"' in answer
    assert "understood:" in answer
