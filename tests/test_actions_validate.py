"""Judging files: one by one and many at once come to the same."""

from __future__ import annotations

import os
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from moectl.actions import validate as action
from moectl.actions.validate import AHEAD, FEW, PORTION, Given, validate


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


def test_no_more_is_judged_ahead_than_a_reader_takes_soon(tmp_path: Path) -> None:
    done: list[str] = []

    class Pool:
        """Judges when it is asked to, in this process."""

        def submit(self, call: Any, judge: Any, names: list[str]) -> Future[list[str]]:
            future: Future[list[str]] = Future()
            future.set_result(call(judge, names))
            return future

    def judge(name: str) -> str:
        done.append(name)
        return name

    names = [str(number) for number in range(10 * PORTION * AHEAD)]
    outcomes: Any = action._in_order(cast("Any", Pool()), cast("Any", judge), names)
    assert next(outcomes) == "0"
    assert len(done) == PORTION * (AHEAD + 1)
    assert ["0", *outcomes] == names
    assert done == names
