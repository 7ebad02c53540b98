"""All rules over one job: accepted by a preset, by a run file, or on the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from moectl.actions.plan import Wishes, plan
from moectl.findings import SEVERITIES
from moectl.rules.run import findings

PRESET = "deepseek3-671b"


def test_the_findings_of_a_job_are_those_of_the_rules_worst_first() -> None:
    job = plan(PRESET, Wishes(sets=["sparse_matmul=false", "profile.skip_steps=0"]))
    assert list(job.findings) == findings(job)
    ranks = [SEVERITIES.index(finding.severity) for finding in job.findings]
    assert ranks == sorted(ranks)
    assert [f.code for f in job.findings if f.stops] == ["PROF101", "TE101"]


def test_a_code_that_is_allowed_stops_nothing_and_is_still_shown() -> None:
    job = plan(PRESET, Wishes(sets=["sparse_matmul=false"], allow=["TE101"]))
    assert [f.accepted for f in job.findings if f.code == "TE101"] == [
        "allowed on the command line"
    ]
    assert [f for f in job.findings if f.stops] == []


def test_a_run_file_gives_its_own_reason(tmp_path: Path) -> None:
    run = tmp_path / "run.yaml"
    run.write_text(f"preset: {PRESET}\naccept: [{{code: XLA324, reason: measured here}}]\n")
    reasons = {f.code: f.accepted for f in plan(str(run), Wishes()).findings}
    assert reasons["XLA324"] == "measured here"
    assert "published recipe" in reasons["XLA308"]


def test_nothing_is_accepted_that_nobody_named() -> None:
    job = replace(plan(PRESET, Wishes()), accept=())
    assert {f.accepted for f in findings(job)} == {""}
