"""Rendering as an API: the summary, the stop on errors, and the folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moectl.actions.plan import Wishes
from moectl.actions.render import default_folder, plan_job, render, write
from moectl.errors import FindingsError

SUMMARY = {
    "name", "gpus", "nodes", "processes_per_node", "hardware", "mesh", "slices",
    "global_batch_size", "maxtext", "xla_flags", "environment", "image", "files", "findings",
}  # fmt: skip


def test_the_summary_has_what_was_promised_and_is_json() -> None:
    rendered = render("deepseek3-671b", Wishes(options={"gpus": (128, "--gpus")}))
    summary = json.loads(json.dumps(rendered.summary()))
    assert summary.keys() >= SUMMARY
    assert summary["mesh"]["fsdp"] == {"ici": 8, "dcn": 2}
    assert summary["maxtext"].keys() == {"config", "arguments"}
    assert summary["files"] == list(rendered.files)
    assert (summary["nodes"], summary["global_batch_size"]) == (32, 768)


def test_an_error_stops_a_render_with_all_findings() -> None:
    with pytest.raises(FindingsError) as stopped:
        render("deepseek3-671b", Wishes(sets=["sparse_matmul=false"]))
    assert "TE101" in [finding.code for finding in stopped.value.findings]


def test_what_is_written_is_what_was_rendered(tmp_path: Path) -> None:
    rendered = render("mixtral-8x7b")
    write(rendered, tmp_path / "b")
    found = {path.name: path.read_text("utf-8") for path in (tmp_path / "b").iterdir()}
    assert found == rendered.files


def test_the_default_folder_is_named_after_run_and_gpus() -> None:
    job = plan_job("mixtral-8x7b", gpus=64, hardware="h100-hgx", form="pretrain")
    assert str(default_folder(job)) == "mixtral-8x7b-64gpus"
    assert (job.hardware.name, job.form) == ("h100-hgx", "pretrain")
