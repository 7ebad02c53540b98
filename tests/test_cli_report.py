"""moectl report, as a person sees it."""

from __future__ import annotations

import csv
import io
import json
import webbrowser
from pathlib import Path

import pytest

from moectl.cli import report as command
from moectl.errors import LocalFilesError, UsageError, ValueUsageError
from moectl.report import draw_png
from tests.support import report_logs as made

WORDS = {
    "hardware": None, "precision": None, "gpus": None, "maxtext": None, "format": None,
    "output": None, "plots": None, "open": False, "explain": False, "follow": False,
}  # fmt: skip


def run(*inputs: str | Path, **options: str | bool | None) -> int:
    return command.run([str(each) for each in inputs], **{**WORDS, **options})  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_text(made.log(60))
    return path


def test_the_table_has_every_group(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(log, hardware="gb200") == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "run.log: deepseek3-671b, 128 GPUs of gb200-nvl72"
    for group in ("Steps", "Speed", "Learning", "Experts", "Processes", "Memory", "Time"):
        assert group in lines
    assert any(line.split() == ["step", "time,", "median", "5.771", "s"] for line in lines)
    assert "receive demand over capacity" in out
    assert "none was given" in out


def test_explain_names_formula_and_lines(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(log, hardware="gb200", explain=True)
    lines = capsys.readouterr().out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("  step time, median"))
    assert lines[at + 1] == (f"      median of the seconds of 57 steady steps; from {log}:32-88")
    assert f"  {log}: log, 60 lines of steps" in lines


def test_the_json_form_has_what_was_promised(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(log, hardware="gb200", format="json", explain=True)
    found = json.loads(capsys.readouterr().out)
    assert found["steps"] == 60
    assert found["step_time_s"].keys() == {"median", "p5", "p95"}
    assert found["tflops_per_gpu"] == pytest.approx(1066.6, abs=0.1)
    assert found["tokens_per_s_per_gpu"] == pytest.approx(4258.8, abs=0.1)
    assert found["mfu"]["peak"] == 4900
    assert found["mfu"]["dtype"] == "mxfp8"
    assert found["mfu"]["value"] == pytest.approx(1066.6 / 4900, abs=1e-4)
    assert found["loss"]["first"] > found["loss"]["last"]
    assert found["dropped_steps"] == 3
    assert found["dropped"]["steps"] == [0, 1, 2]
    assert found["missing"]["tflops_per_gpu_recomputed"]
    assert {figure["name"] for figure in found["figures"]} >= {"steps", "goodput"}


def test_a_nan_is_text_in_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with log.open("a") as stream:
        stream.write(made.step_text(60, 5.0, float("nan")) + "\n")
    run(log, format="json")
    found = json.loads(capsys.readouterr().out)
    assert found["loss"]["not_finite"] == 1
    assert found["loss"]["last"] == "nan"


def test_the_csv_has_a_row_a_step(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(log, format="csv")
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 60
    assert rows[0]["not_steady_because"] == "start"
    assert rows[10]["steady"] == "yes"
    assert rows[10]["line"] == "39"
    assert float(rows[10]["seconds"]) == pytest.approx(made.times(60)[10], abs=5e-4)


def test_page_and_plots_are_written(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, plots = tmp_path / "page.html", tmp_path / "plots"
    assert run(log, format="html", output=str(page), plots=str(plots)) == 0
    assert page.read_text().startswith("<!doctype html>")
    names = {path.name for path in plots.iterdir()}
    assert {"loss.svg", "loss.png", "step-time.svg", "step-time.png"} <= names
    assert (plots / "loss.png").read_bytes().startswith(b"\x89PNG")
    svg = (plots / "loss.svg").read_text()
    assert svg.startswith("<svg xmlns=")
    assert "var(" not in svg
    assert capsys.readouterr().err.splitlines() == [
        f"moectl: wrote {page}",
        f"moectl: wrote {len(names)} plots into {plots}",
    ]


def test_without_matplotlib_only_svg_is_written_and_the_remedy_is_told(
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(draw_png, "available", lambda: False)
    run(log, plots=str(tmp_path / "plots"))
    assert {path.suffix for path in (tmp_path / "plots").iterdir()} == {".svg"}
    assert "pip install 'moectl[plots]'" in capsys.readouterr().err


def test_open_writes_a_page_named_after_the_run_and_shows_it(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.chdir(tmp_path)

    def browse(uri: str) -> bool:
        shown.append(uri)
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    assert run(log, open=True) == 0
    assert shown == [(tmp_path / "run.log-report.html").as_uri()]
    with pytest.raises(UsageError, match="--open shows the page"):
        run(log, open=True, format="json")


def test_nothing_to_report_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").write_text("")
    assert run(tmp_path / "empty", plots=str(tmp_path / "plots")) == 1
    out, err = capsys.readouterr()
    assert "no line tells of a step" in out
    assert "there is nothing to draw" in err


def test_bytes_of_strangers_reach_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a\x1b[31m\n.log"
    path.write_text(made.log(20) + "Training stopped: \x1b]0;title\x07\n")
    for form in ("text", "json", "csv", "html"):
        run(path, format=form, explain=True)
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "\x07" not in out


def test_a_name_that_is_no_utf8_is_written_with_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(str(tmp_path / "a") + "\udcff.log")
    path.write_text(made.log(20))
    for form in ("text", "json", "csv", "html"):
        assert run(path, format=form, explain=True) == 0
        assert r"\xff" in capsys.readouterr().out.replace("\\\\", "\\")


def test_what_cannot_be_meant_is_refused(log: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueUsageError):
        run(log, gpus="many")
    with pytest.raises(UsageError, match="follow"):
        run(log, follow=True, format="json")
    with pytest.raises(LocalFilesError):
        run(log, output=str(tmp_path))


def test_a_following_report_prints_a_line(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from moectl.actions import report_follow  # noqa: PLC0415

    once = report_follow.follow([str(log)])
    monkeypatch.setattr(report_follow, "follow", lambda *_: [next(once)])
    assert run(log, follow=True) == 0
    out = capsys.readouterr().out
    assert out.startswith("step 59, step time, median 5.771 s, throughput 4,258.8 tokens/s a GPU")
