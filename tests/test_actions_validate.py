"""Judging files: one by one and many at once come to the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moectl.actions.validate import FEW, Given, validate


@pytest.fixture(autouse=True)
def _two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have several processes judge, on a machine of one core too."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def test_many_files_are_judged_as_each_alone_and_in_their_order(tmp_path: Path) -> None:
    count = FEW + 6
    for number in range(count):
        text = f"base_config: base.yml\nhardware: gpu_multiprocess\nsteps_{number}: 1\n"
        (tmp_path / f"run-{number:03d}.yml").write_text(text)
    paths = sorted(map(str, tmp_path.iterdir()))
    together = validate([str(tmp_path)], Given())
    alone = [validate([path], Given()) for path in paths]
    assert [checked.name for checked in together.checked] == paths
    assert list(together.findings) == [f for report in alone for f in report.findings]
    assert list(together.checked) == [c for report in alone for c in report.checked]
    errors = [finding for finding in together.findings if finding.severity == "error"]
    assert [finding.field for finding in errors] == [f"steps_{n}" for n in range(count)]


def test_what_many_files_have_in_common_is_held_once(tmp_path: Path) -> None:
    for number in range(FEW + 1):
        (tmp_path / f"run-{number}.yml").write_text("base_config: base.yml\nscan_layers: 'no'\n")
    report = validate([str(tmp_path)], Given())
    assert len(report.findings) == FEW + 1
    assert len({id(finding.message) for finding in report.findings}) == 1
