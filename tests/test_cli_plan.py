"""moectl plan: the table, the JSON, the run file, and what cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moectl.__main__ import main

KEYS = {
    "rank", "mesh", "per_device_batch_size", "remat", "peak_bytes", "step_time_s",
    "tokens_per_s_per_gpu", "why",
}  # fmt: skip
WORDS = ["plan", "deepseek3-671b", "--gpus", "128", "--hardware", "gb200-nvl72"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_json_lists_ranked_meshes_with_what_is_predicted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*WORDS, "--top", "3", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert all(row.keys() >= KEYS for row in rows)
    assert all(row["peak_bytes"] > 1 << 30 and row["step_time_s"] > 0 for row in rows)


def test_the_table_names_mesh_rates_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(WORDS) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("deepseek3-671b on 128 gb200-nvl72: ")
    assert lines[1].split()[:2] == ["RANK", "MESH"]
    assert lines[2].split()[0] == "1"
    assert lines[-1].startswith("rates are predictions")


def test_the_run_file_of_a_rank_renders_and_is_never_overwritten(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*WORDS, "--output", "p.yaml", "--choose", "2"]) == 0
    text = Path("p.yaml").read_text()
    assert text.startswith("# Rank 2 of")
    assert main(["render", "p.yaml", "--output", "b"]) == 0
    assert main([*WORDS, "--output", "p.yaml"]) == 4
    assert "p.yaml exists; --force replaces it" in capsys.readouterr().err
    assert Path("p.yaml").read_text() == text


def test_a_run_file_is_planned_and_written_out_whole(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.yaml").write_text("preset: gpt-oss-20b\ngpus: 8\nhardware: h100-hgx\nname: mine\n")
    assert main(["plan", "run.yaml", "--gpus", "16", "--output", "p.yaml"]) == 0
    capsys.readouterr()
    assert main(["render", "p.yaml", "--output", "b", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["gpus"] == 16


def test_a_longer_sequence_is_planned_with(capsys: pytest.CaptureFixture[str]) -> None:
    rows = []
    for seq in ("4096", "8192"):
        assert main([*WORDS, "--top", "1", "--seq", seq, "--format", "json"]) == 0
        rows.append(json.loads(capsys.readouterr().out)[0])
    assert rows[0] != rows[1]


def test_a_sweep_prints_a_line_for_each_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "gpt-oss-20b", "--sweep", "8,16", "--hardware", "h100-hgx"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["GPUS", "8", "16"]


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "deepseek3-671b"],
        [*WORDS, "--top", "0"],
        [*WORDS, "--seq", "many"],
        [*WORDS, "--global-batch", "1.5"],
        [*WORDS, "--why-not", "$(reboot)"],
        [*WORDS, "--output", "x", "--choose", "99"],
        [*WORDS, "--sweep", "128"],
        ["plan", "deepseek3-671b", "--sweep", "128,"],
        ["plan", "no-such-model", "--gpus", "8"],
        ["plan", "deepseek3-671b", "--gpus", "128", "--hardware", "rtx"],
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("moectl: ")
    assert "Traceback" not in captured.err
    assert not Path("x").exists()
