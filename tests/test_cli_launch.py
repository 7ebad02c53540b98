"""`moectl launch` at a real Slurm of 8 nodes with 4 pretend GPUs each, with accounts."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moectl.actions import launch as action
from moectl.actions.plan import Wishes
from moectl.errors import UsageError
from tests.support.launching import ROOT, SECRET, Site, person, run_command


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with person(tmp_path / "person") as found:
        yield found


def only(site: Site) -> dict[str, Any]:
    """Return the one record there is."""
    (found,) = site.records().values()
    return found


def field(site: Site, job: str, name: str) -> str:
    said = site.slurm.run("scontrol", "show", "job", job).stdout
    found = re.search(rf"\b{name}=(\S*)", said)
    assert found, said
    return found[1]


def told(site: Site) -> list[Path]:
    """Return the files under a person's folder that hold the secret's value."""
    files = (path for path in site.folder.rglob("*") if path.is_file())
    return [path for path in files if SECRET in path.read_text("utf-8", "replace")]


def test_a_launch_is_written_down_submitted_and_told(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.program("sbatch", f'printf "%s\\n" "$@" >>{site.folder}/words; exec $REAL "$@"')
    assert run_command(site.words()) == 0
    said = capsys.readouterr()
    record = only(site)
    (entry,) = record["jobs"]
    assert (record["state"], record["name"], record["gpus"], record["nodes"]) == (
        "submitted",
        "moe",
        8,
        2,
    )
    assert entry["why"] == "first"
    assert site.queue()[record["id"]] == [entry["job"]]
    assert field(site, entry["job"], "NumNodes") == "2-2"
    bundle = Path(record["bundle"])
    assert bundle == site.runs / record["id"] / "bundle"
    assert f"job {entry['job']}, 8 GPUs, 2 nodes of gb200-nvl72, 1.333 GPU-hours" in said.out
    assert str(bundle / "logs" / entry["job"] / "rank-0.log") in said.out
    assert f"moectl cancel {record['id']}" in said.out
    assert "the partition starts no jobs at present (Slurm: PartitionDown)" in said.out

    words = (site.folder / "words").read_text()
    assert f"--job-name={record['id']}" in words
    assert SECRET not in words + said.out + said.err
    assert told(site) == []


def test_a_run_that_is_followed_is_done_when_its_last_step_was_reached(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.behave(
        f'[ "$HF_TOKEN" = {SECRET} ] || exit 9\n'
        'for step in 0 1 2; do echo "completed step: $step, seconds: 0.1, TFLOP/s/device: 1.0, '
        'Tokens/s/device: 1.0, total_weights: 1, loss: 1.0"; done\n'
    )
    assert run_command(site.words("moe", "batch", "--wait")) == 0
    assert "is done: its last step was reached" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        ("exit 3", "it is failed"),
        (
            "echo 'completed step: 1, seconds: 0.1, TFLOP/s/device: 1.0, Tokens/s/device: 1.0, "
            "total_weights: 1, loss: 1.0'",
            "it ended with exit code 0, but its log has step 1 of 3 as the last",
        ),
    ],
)
def test_an_exit_code_of_0_is_not_done(
    site: Site, behaviour: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    site.behave(behaviour)
    assert run_command(site.words("moe", "batch", "--wait", "--format", "json")) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["done"], said["why_not"]) == (False, why)
    assert said["run"] == only(site)["id"]


def test_a_dry_run_prints_the_whole_plan_and_writes_nothing(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = site.words("moe", "batch", "--dry-run")
    before = sorted(site.folder.rglob("*"))
    queue = site.queue()
    assert run_command(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("#!/bin/bash -p\n")
    assert '\nexit "$code"\n' in said
    assert "place   2 nodes of GB200 NVL72" in said
    assert "1.333 GPU-hours" in said
    assert re.search(r"Slurm   sbatch: Job \d+ to start at .* in partition batch", said)
    assert "nothing was written or submitted" in said
    assert (sorted(site.folder.rglob("*")), site.queue()) == (before, queue)

    assert run_command([*words, "--format", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert said.startswith(plan["script"])
    assert plan["gpu_hours"] == pytest.approx(8 / 6)
    assert "to start at" in plan["scheduler"]

    monkeypatch.setenv("PATH", str(site.folder / "bin"))
    monkeypatch.delenv("HF_TOKEN")
    assert run_command(words) == 0
    said = capsys.readouterr().out
    assert "this shell does not have HF_TOKEN, which the job needs" in said
    assert "Slurm   sbatch is not on this machine" in said
    assert not site.runs.exists()


def test_a_dry_run_needs_no_cluster_behind_the_programs(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(site.folder / "none.conf"))
    site.program(
        "sbatch", 'echo "sbatch: fatal: Could not establish a configuration source" >&2; exit 1'
    )
    assert run_command(site.words("moe", "batch", "--dry-run")) == 0
    assert "Slurm   this machine has Slurm's programs but belongs" in capsys.readouterr().out


def test_a_dry_run_tells_what_slurm_would_refuse(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(site.words("moe", "nope", "--dry-run")) == 3
    said = capsys.readouterr()
    assert said.out.startswith("#!/bin/bash -p\n")
    assert "moectl: there is no such partition" in said.err
    assert not site.runs.exists()


@pytest.mark.parametrize(
    ("partition", "said", "cause", "own"),
    [
        ("nope", "steps=3", "there is no such partition", "Invalid partition name specified"),
        ("batch", "cluster.account=nope", "the account does not exist", "Invalid account"),
        ("batch", "cluster.qos=nope", "the quality of service does not", "Invalid qos"),
        ("batch", "cluster.reservation=nope", "the reservation does not", "is invalid"),
        ("short", "steps=3", "the time limit is longer", "Requested time limit is invalid"),
        ("batch", "cluster.gres=tpu", "the nodes have no such GPUs", "Invalid generic resource"),
        ("batch", "gpus=64", "the partition cannot give so many nodes", "submission failed"),
        ("batch", "cluster.segment=true", "this Slurm does not know", "unrecognized option"),
    ],
)
def test_a_refusal_is_told_by_its_cause_and_leaves_nothing(
    site: Site,
    partition: str,
    said: str,
    cause: str,
    own: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = site.queue()
    words = site.words("moe", partition, "--set", said, "--set", "cluster.gpu_request=gres")
    assert run_command(words) == 3
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("moectl: ")]
    assert lines[0].startswith(f"moectl: {cause}")
    assert any(own in line and line.startswith("moectl:   ") for line in lines[1:]), lines
    assert not [entry for entry in site.runs.iterdir() if entry.is_dir()]
    assert site.queue() == before


def test_without_slurm_one_sentence_says_so(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(site.folder / "bin"))
    assert run_command(site.words()) == 3
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("moectl: sbatch is not on this machine")
    assert "--dry-run" in said
    assert not site.runs.exists()


def test_a_live_run_of_the_name_is_refused_unless_told_otherwise(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(site.words()) == 0
    first = only(site)
    assert run_command(site.words()) == 2
    assert f"moe is live already: {first['id']}, job {first['jobs'][0]['job']}" in (
        capsys.readouterr().err
    )
    assert run_command(site.words("moe", "held", "--again")) == 0
    assert run_command(site.words("moe", "held", "--name", "other")) == 0
    assert len(site.records()) == 3


def test_a_run_starts_after_another_one(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(site.words("first")) == 0
    first = only(site)["jobs"][0]["job"]
    assert run_command(site.words("second", "batch", "--after", "first")) == 0
    second = next(r for r in site.records().values() if r["name"] == "second")["jobs"][0]["job"]
    assert field(site, second, "Dependency").startswith(f"afterany:{first}")
    assert f"starts when job {first} of first-" in capsys.readouterr().out

    site.slurm.run("scancel", first)
    site.until(first, "CANCELLED")
    assert run_command(site.words("third", "held", "--after", "first")) == 0
    assert "has ended already" in capsys.readouterr().out
    assert run_command(site.words("fourth", "held", "--after", "nobody")) == 2
    assert "unknown run 'nobody'" in capsys.readouterr().err


def test_a_bundle_is_launched_in_its_place(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    render = ["render", site.run_file(), "--cluster", site.cluster_file(), "--output", "b u'n"]
    assert run_command(render) == 0
    bundle = site.folder / "b u'n"
    assert run_command(["launch", "b u'n"]) == 0
    record = only(site)
    assert (record["bundle"], record["name"]) == (str(bundle), "moe")
    assert [path.name for path in (site.runs / record["id"]).iterdir()] != []
    assert not (site.runs / record["id"] / "bundle").exists()
    assert "launched as it stands" not in capsys.readouterr().out

    script = bundle / "launch.sbatch"
    script.write_text(script.read_text().replace("set -u", "set -u # mine", 1))
    assert run_command(["launch", str(bundle), "--again"]) == 0
    assert "launched as it stands: launch.sbatch differs" in capsys.readouterr().out

    for words in (["--gpus", "8"], ["--set", "steps=5"], ["--cluster", site.cluster_file()]):
        assert run_command(["launch", str(bundle), "--again", *words]) == 2
        assert f"so {words[0]} cannot change it" in capsys.readouterr().err
    script.unlink()
    assert run_command(["launch", str(bundle), "--again"]) == 4
    assert len(site.records()) == 2


def test_a_preset_is_one_also_beside_a_folder_of_its_name(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    (site.folder / "deepseek3-671b").mkdir()
    words = ["launch", "deepseek3-671b", "--gpus", "32", "--cluster", site.cluster_file("held")]
    assert run_command(words) == 0
    assert only(site)["target"] == "deepseek3-671b"
    assert run_command(["launch", str(site.folder / "deepseek3-671b")]) == 2
    assert "so it is no bundle" in capsys.readouterr().err


def test_a_secret_that_the_shell_lacks_is_named_before_anything_is_written(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "")
    assert run_command(site.words()) == 2
    assert "declares HF_TOKEN as a secret" in capsys.readouterr().err
    assert not site.runs.exists()


def test_an_error_finding_stops_it_unless_it_is_allowed(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["launch", "deepseek3-671b", "--gpus", "32", "--cluster", site.cluster_file("held")]
    words += ["--set", "sparse_matmul=false"]
    assert run_command([*words, "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    errors = [finding["code"] for finding in found if finding["severity"] == "error"]
    assert "TE101" in errors
    assert not site.runs.exists()
    allowed = [word for code in errors for word in ("--allow", code)]
    assert run_command([*words, *allowed]) == 0
    assert only(site)["gpus"] == 32


def test_what_the_shell_happens_to_hold_does_not_change_the_job(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "SBATCH_PARTITION": "nope",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_WAIT": "1",
        "SBATCH_JOB_NAME": "x",
        "SBATCH_ACCOUNT": "moectl",
        "SQUEUE_FORMAT": "%i",
        "SQUEUE_STATES": "running",
        "SLURM_TIME_FORMAT": "relative",
    }.items():
        monkeypatch.setenv(name, value)
    assert run_command(site.words()) == 0
    job = only(site)["jobs"][0]["job"]
    assert field(site, job, "Partition") == "held"
    assert field(site, job, "TimeLimit") == "00:10:00"
    assert field(site, job, "Account") == "moectl"
    assert run_command(site.words()) == 2


def inside(site: Site, nodes: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Launch from the shell of an allocation."""
    launch = [sys.executable, "-m", "tests.support.launching", *words]
    salloc = ["salloc", f"--nodes={nodes}", "--exclusive", "--partition=batch", "--quiet"]
    return subprocess.run(
        [*salloc, *launch],
        cwd=ROOT,
        env=site.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_inside_an_allocation_the_run_starts_there(site: Site) -> None:
    done = inside(site, 2, *site.words("moe", "batch", "--format", "json"))
    assert done.returncode == 0, done.stdout
    said = json.loads(done.stdout)
    record = only(site)
    assert said["done"] is True
    assert record["options"]["exit_code"] == 0
    assert record["options"]["inside"] == record["jobs"][0]["job"]
    assert f"runs inside job {record['options']['inside']}" in done.stderr
    logs = Path(record["bundle"]) / "logs" / record["options"]["inside"]
    assert len(list(logs.glob("rank-*.log"))) == 8


def test_an_allocation_that_does_not_fit_is_told(site: Site) -> None:
    done = inside(site, 1, *site.words("moe", "batch"))
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert re.search(r"stands in job \d+ with 1 node, but the run takes 2", last)
    assert not site.runs.exists()


def test_gpu_hours_above_the_limit_are_asked_about_once(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = action.plan_launch(site.run_file(), Wishes(cluster=Path(site.cluster_file())))
    asked: list[str] = []

    def agree(question: str) -> bool:
        asked.append(question)
        return False

    action.require_agreement(planned, None, agree)
    action.require_agreement(planned, 1.34, agree)
    assert asked == []
    with pytest.raises(UsageError, match="nothing was launched"):
        action.require_agreement(planned, 1.3, agree)
    assert "8 GPUs for 00:10:00" in asked[0]
    action.require_agreement(planned, 1.3, lambda _: True)

    words = site.words("moe", "held", "--set", "cluster.gpu_hours_limit=1")
    assert run_command(words) == 2
    assert "--yes launches it all the same" in capsys.readouterr().err
    assert not site.runs.exists()
    assert run_command([*words, "--yes"]) == 0


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 2), ("", 2)])
def test_the_question_is_asked_at_a_terminal(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    code: int,
) -> None:
    typing = io.StringIO(typed)
    monkeypatch.setattr(typing, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", typing)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    words = site.words("moe", "held", "--set", "cluster.gpu_hours_limit=1")
    assert run_command(words) == code
    assert capsys.readouterr().err.count("launch? [y/N] ") == 1
    assert site.runs.exists() == (code == 0)


def test_bundles_go_to_the_folder_of_the_site(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = site.folder / "shared by all"
    words = site.words("moe", "held", "--set", f"cluster.runs_folder={shared}")
    assert run_command(words) == 0
    record = only(site)
    assert record["bundle"] == str(shared / record["id"])
    assert (shared / record["id"] / "launch.sbatch").is_file()
    refused = site.words("other", "nope", "--set", f"cluster.runs_folder={shared}")
    assert run_command(refused) == 3
    assert [path.name for path in shared.iterdir()] == [record["id"]]
    # The site's own word counts, and this model is larger than a test machine.
    assert run_command(site.words("third", "held", "--set", "cluster.launcher=local")) in {2, 3}
    assert only(site)["id"] == record["id"]
    assert "sbatch" not in capsys.readouterr().err.splitlines()[-1]
