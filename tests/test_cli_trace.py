"""moectl trace: the table, the JSON, and what cannot be read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from moectl.__main__ import main
from moectl.cli.text import json_text
from tests.support.traces import xspace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    gemm = "nvjet_sm100_qq_ptrGroup"
    data = xspace(
        {
            "/device:GPU:0": {
                "Stream #7(Compute)": [
                    (gemm, 0, 1000, {"tf_op": "jit(train_step)/decoder/moe_layers/dot"}),
                    (gemm, 2000, 1000, {}),
                    ("odd\x1b[31m_kernel", 3000, 500, {}),
                ],
                "Stream #9": [("ncclDevKernel_ReduceScatter_RING", 1500, 1000, {})],
                "Steps": [("0", 0, 2000, {}), ("1", 2000, 2000, {})],
            }
        }
    )
    older, newer = tmp_path / "plugins/profile/2026_11_01", tmp_path / "plugins/profile/2026_11_02"
    for place in (older, newer):
        place.mkdir(parents=True)
    (older / "h.xplane.pb").write_bytes(b"")
    (newer / "h.xplane.pb").write_bytes(data)
    return tmp_path


def test_the_newest_profile_of_a_folder_is_told_by_class(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("2026_11_02/h.xplane.pb")
    assert lines[2] == "/device:GPU:0: 4 us over 2 steps"
    cells = {line[:36].strip(): line[36:].split() for line in lines[4:8]}
    assert cells["grouped GEMM"][:3] == ["2", "us", "50.0%"]
    assert cells["FSDP all-gather and reduce-scatter"][:5] == ["1", "us", "25.0%", "0.5", "us"]
    assert cells["idle"] == ["1", "us", "25.0%"]
    assert "not hidden by compute" in lines[8]
    assert "MoE layers 28.6%" in lines[9]
    assert lines[10].startswith("  14.3% of the kernels' time is of names no class knows")
    assert "\x1b" not in "".join(lines)
    assert "\\x1b[31m_kernel" in lines[11]


def test_the_json_has_every_figure_in_seconds(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", str(folder), "--format", "json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["traces"]
    (device,) = one["devices"]
    assert device["window_s"] == pytest.approx(4e-6)
    assert device["exposed_communication_s"] == pytest.approx(0.5e-6)
    assert device["unknown_share"] == pytest.approx(1 / 7)
    gemm = device["classes"][0]
    assert (gemm["class"], gemm["kernels"]) == ("grouped_gemm", 2)
    assert gemm["latency_s"]["median"] == pytest.approx(1e-6)
    assert {row["layer"] for row in device["layers"]} == {"moe", "elsewhere"}


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("gone", 4, "no such file"),
        ("plugins/empty", 4, "holds no profile"),
        ("plugins/profile/2026_11_01/h.xplane.pb", 1, "is empty"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(
    folder: Path, path: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "plugins/empty").mkdir()
    assert main(["trace", os.path.join(folder, path)]) == code  # noqa: PTH118 - as it is typed
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_numbers_that_json_has_not_are_told_as_text() -> None:
    text = json_text({"a": [float("nan"), 1.5], "b": (float("inf"),)})
    assert json.loads(text) == {"a": ["nan", 1.5], "b": ["inf"]}
