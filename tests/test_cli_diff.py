"""moectl diff: two jobs by what they mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moectl.__main__ import main


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))


def changes(left: str, right: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    main(["diff", left, right, "--format", "json"])
    data = json.loads(capsys.readouterr().out)
    return {f"{one['section']}/{one['name']}": one for one in data["changes"]}


def test_files_that_are_written_differently_may_mean_the_same_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a.yaml").write_text("preset: deepseek3-671b\ngpus: 128\nname: a\n")
    Path("b.yaml").write_text("# the same\nname: 'a'\ngpus: 128\npreset: deepseek3-671b\n")
    assert main(["diff", "a.yaml", "b.yaml"]) == 0
    assert capsys.readouterr().out == "the two mean the same job\n"


def test_a_bundle_means_the_job_it_was_rendered_from(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.yaml").write_text("preset: gpt-oss-20b\ngpus: 64\n")
    assert main(["render", "a.yaml", "--output", "b"]) == 0
    capsys.readouterr()
    assert main(["diff", "a.yaml", "b"]) == 0


def test_batch_mesh_memory_and_flags_are_told_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.yaml").write_text("preset: deepseek3-671b\ngpus: 128\nname: a\n")
    Path("b.yaml").write_text(
        "preset: deepseek3-671b\ngpus: 256\nname: a\nbatch: {per_device: 4}\n"
        "xla_flags: {xla_gpu_enable_latency_hiding_scheduler: false}\n"
        "environment: {TAG: x}\n"
    )
    found = changes("a.yaml", "b.yaml", capsys)
    gpus, batch = found["job/GPUs"], found["job/sequences a step"]
    assert (gpus["left"], gpus["right"]) == (128, 256)
    assert (batch["left"], batch["right"]) == (768, 1024)
    memory = found["job/memory a GPU, middle estimate, GiB"]
    assert memory["right"] < memory["left"]
    flag = found["XLA flags/xla_gpu_enable_latency_hiding_scheduler"]
    assert flag["right"] is False
    variable = found["environment/TAG"]
    assert variable["right"] == "x"
    assert "left" not in variable
    assert main(["diff", "a.yaml", "b.yaml"]) == 1
    text = capsys.readouterr().out
    assert "  GPUs: 128 -> 256\n" in text
    assert '  TAG: nothing -> "x"\n' in text


def test_what_is_neither_preset_nor_file_nor_run_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["diff", "deepseek3-671b", "deepseek3-672b"]) == 2
    assert "deepseek3-671b" in capsys.readouterr().err


def test_hostile_values_are_shown_printable(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.yaml").write_text("preset: gpt-oss-20b\ngpus: 64\n")
    Path("b.yaml").write_text(
        'preset: gpt-oss-20b\ngpus: 64\nenvironment: {A_B: "\\e[31m$(reboot)\\n"}\n'
    )
    main(["diff", "a.yaml", "b.yaml"])
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err


def test_a_bundle_whose_files_were_edited_or_deleted_is_not_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("a", "b"):
        assert main(["render", "gpt-oss-20b", "--gpus", "64", "--output", name]) == 0
    capsys.readouterr()
    assert main(["diff", "a", "b"]) == 0
    Path("b/config.yml").write_text("steps: 1\n")
    Path("b/rank.sh").unlink()
    assert main(["diff", "a", "b"]) == 1
    found = changes("a", "b", capsys=_emptied(capsys))
    assert found["files/rank.sh"]["right"] == "missing"
    assert found["files/config.yml"]["right"].startswith("other than its lock renders")
    assert set(found) == {"files/rank.sh", "files/config.yml"}


def _emptied(capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    capsys.readouterr()
    return capsys
