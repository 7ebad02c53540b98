"""How runs scale: efficiency, the fit, and the plot of the published kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moectl.actions.report import scaling
from moectl.cli import report as command
from moectl.report.compare import IncomparableError
from moectl.report.scaling import UnscaledError, efficiency_plot, plot
from tests.support import report_logs as made

LADDER = (128, 256, 512, 1024, 2048)


def ladder(folder: Path, power: float = 0.99) -> list[str]:
    """Write runs whose throughput a GPU falls as GPUs^(power-1)."""
    paths = []
    for gpus in reversed(LADDER):
        path = folder / f"run-{gpus}"
        seconds = 5.763 * (gpus / 128) ** (1 - power)
        path.write_text(made.log(60, seconds=seconds, gpus=gpus))
        paths.append(str(path))
    return paths


def test_the_power_of_a_ladder_is_found_again(tmp_path: Path) -> None:
    found = scaling(ladder(tmp_path))
    assert [rung.gpus for rung in found.rungs] == list(LADDER)
    assert found.power == pytest.approx(0.99, abs=1e-4)
    assert found.deviation == pytest.approx(0, abs=1e-4)
    assert found.explained == pytest.approx(1)
    assert found.kind == "weak"
    last = found.rungs[-1]
    assert last.efficiency == pytest.approx(16**-0.01, rel=1e-3)
    assert last.total == pytest.approx(last.ideal * last.efficiency)
    assert found.rungs[0].efficiency == 1.0
    assert "2,048 GPUs reach 97." in found.sentence


def test_two_runs_have_a_power_without_an_error(tmp_path: Path) -> None:
    found = scaling(ladder(tmp_path)[:2])
    assert found.deviation is None
    assert found.power == pytest.approx(0.99, abs=1e-4)


def test_gpus_may_be_said_with_the_path(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(made.steps(made.times(40), 70.0))
    with pytest.raises(UnscaledError, match="nothing says how many GPUs a had") as refused:
        scaling([str(tmp_path / "a"), str(tmp_path / "b")])
    assert "nothing says how many GPUs b had" in str(refused.value)
    found = scaling([f"8={tmp_path / 'a'}", f"16={tmp_path / 'b'}"])
    assert [rung.gpus for rung in found.rungs] == [8, 16]
    assert found.power == pytest.approx(1, abs=0.01)


def test_strong_scaling_is_told_from_weak(tmp_path: Path) -> None:
    paths = []
    for gpus in (64, 128):
        steps = made.steps(made.times(40, 5.763 * 64 / gpus), 70.0, batch=64 / gpus)
        path = tmp_path / f"{gpus}"
        path.write_text(steps)
        paths.append(f"{gpus}={path}")
    assert scaling(paths).kind == "strong"


def test_runs_that_measure_different_things_are_refused(tmp_path: Path) -> None:
    paths = ladder(tmp_path)
    text = (
        Path(paths[0]).read_text().replace("use_random_routing: False", "use_random_routing: True")
    )
    Path(paths[0]).write_text(text)
    with pytest.raises(IncomparableError, match="use_random_routing"):
        scaling(paths)
    assert len(scaling(paths, ["routing"]).allowed) == 1


def test_one_number_of_gpus_says_nothing(tmp_path: Path) -> None:
    path = ladder(tmp_path)[0]
    with pytest.raises(UnscaledError, match="the same number of GPUs"):
        scaling([path, path])


def test_the_plot_has_the_ideal_line_beside_the_measured_one(tmp_path: Path) -> None:
    found = scaling(ladder(tmp_path))
    drawn = plot(found)
    assert drawn.doubling
    ideal, measured, _ = drawn.curves
    assert [point.x for point in ideal.points] == list(LADDER)
    assert all(i.y >= m.y for i, m in zip(ideal.points, measured.points, strict=True))
    assert "97." in measured.points[-1].said
    assert efficiency_plot(found).curves[0].points[0].y == found.rungs[0].per_gpu


def test_text_json_page_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ladder(tmp_path)
    allow: list[str] = []
    options = (allow, None, None, None)
    assert command.scaling(words, *options, "text", None, str(tmp_path / "plots")) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].split()[:2] == ["128", f"{out.splitlines()[1].split()[1]}"]
    assert "scaling; 1 is ideal" in out
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {"scaling.svg", "scaling.png", "scaling-per-gpu.svg", "scaling-per-gpu.png"}
    assert command.scaling(words, *options, "json", None, None) == 0
    assert json.loads(capsys.readouterr().out)["fit"]["power"] == pytest.approx(0.99, abs=1e-4)
    page = tmp_path / "scaling.html"
    assert command.scaling(words, *options, "html", str(page), None) == 0
    assert page.read_text().count("<svg") == 4
