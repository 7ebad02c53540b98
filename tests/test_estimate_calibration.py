"""Efficiencies fitted to a measured step predict that step."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.__main__ import main
from moectl.actions.estimate import request_of
from moectl.actions.plan import Wishes, plan
from moectl.estimate.assessment import assess, prepare
from moectl.estimate.calibration import fitted, rates

JOB = plan("gpt-oss-20b", Wishes(options={"hardware": ("h100-hgx", "--hardware")}))
PREPARED = prepare(JOB.effective, JOB.container.image.maxtext)
REQUEST = request_of(JOB)
LINE = (
    "I1130 15:26:49.461972 140264779340672 metric_logger.py:265] completed step: {step}, "
    "seconds: {seconds:.3f}, TFLOP/s/device: 100.000, Tokens/s/device: 4000.000, "
    "total_weights: 8192, loss: 7.000\n"
)


def predicted(calibration: dict[str, float] | None) -> float:
    time = assess(PREPARED, JOB.effective, replace(REQUEST, calibration=calibration)).time
    assert time is not None
    return time.seconds()


@settings(max_examples=20)
@given(st.floats(0.6, 4.0))
def test_the_fit_predicts_what_was_measured(factor: float) -> None:
    seconds = predicted(None) * factor
    found = fitted(PREPARED, JOB.effective, REQUEST, seconds)
    assert found is not None
    assert predicted(found) == pytest.approx(seconds, rel=1e-4)
    assert found.keys() == rates().keys()


def test_a_slower_step_has_lower_efficiencies() -> None:
    found = fitted(PREPARED, JOB.effective, REQUEST, predicted(None) * 1.5)
    assert found is not None
    assert all(found[name] < rate for name, rate in rates().items())


def test_a_profile_tells_an_efficiency_by_itself() -> None:
    time = assess(PREPARED, JOB.effective, REQUEST).time
    assert time is not None
    classes = {"attention": time.parts["middle"]["attention"] * 2}
    seconds = predicted(None) * 1.3
    found = fitted(PREPARED, JOB.effective, REQUEST, seconds, classes)
    assert found is not None
    assert found["attention"] == pytest.approx(rates()["attention"] / 2)
    assert predicted(found) == pytest.approx(seconds, rel=1e-4)


@pytest.mark.parametrize("factor", [0.0, 0.01, 1000.0])
def test_what_no_efficiency_explains_is_not_fitted(factor: float) -> None:
    assert fitted(PREPARED, JOB.effective, REQUEST, predicted(None) * factor) is None


def test_a_measured_run_changes_what_is_estimated_for_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))
    words = ["gpt-oss-20b", "--hardware", "h100-hgx"]
    assert main(["render", *words, "--output", "b"]) == 0
    logs = tmp_path / "b/logs/1"
    logs.mkdir(parents=True)
    seconds = round(predicted(None) * 1.25, 3)
    text = "".join(LINE.format(step=step, seconds=seconds) for step in range(40))
    (logs / "rank-0.log").write_text(text)
    capsys.readouterr()
    assert main(["calibrate", "b", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured_step_time_s"] == pytest.approx(seconds)
    assert main(["estimate", *words, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["calibrated"] is True
    assert told["step_time_s"]["mid"] == pytest.approx(seconds, rel=1e-3)
    assert main(["estimate", "gpt-oss-20b", "--hardware", "b200-hgx", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["calibrated"] is False


@pytest.mark.parametrize("run", ["gone", "empty"])
def test_what_was_not_measured_is_a_sentence(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))
    (tmp_path / "empty").mkdir()
    assert main(["calibrate", run]) in {2, 4}
    assert "Traceback" not in capsys.readouterr().err
