"""What would be ignored, contradict the bundle, or hang is refused instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moectl.__main__ import main

PRESET = "deepseek3-671b"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ["--allow", "NOPE"],
        ["--name", "/"],
        ["--name", ".."],
        ["--name", ""],
        ["--hardware", ""],
        ["--output", ""],
        ["--cluster", ""],
        ["--image", "docker://ghcr.io/nvidia/jax:x"],
        ["--image", "/"],
        ["--set", "preset=gpt-oss-20b"],
        ["--set", "steps=0"],
        ["--set", "hf_access_token=abc"],
        ["--set", "batch.sequence_length=99999999999999"],
        ["--global-batch", "99999999999"],
        ["--profile-ranks", "0;1"],
        ["--profile-ranks", ""],
        ["--profile-ranks=-1"],
        ["--profile-steps", "0"],
    ],
)
def test_a_word_that_cannot_be_meant_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["render", PRESET, *words]) == 2
    assert capsys.readouterr().err.startswith("moectl: ")
    assert list(Path().iterdir()) == []


def test_the_form_said_by_set_is_the_form_rendered(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["render", PRESET, "--set", "form=pretrain", "--output", "b", "--format", "json"]) == 0
    )
    summary = json.loads(capsys.readouterr().out)
    assert summary["form"] == "pretrain"
    assert summary["maxtext"]["config"]["dataset_type"] == "hf"


@pytest.mark.parametrize("words", [["--form", "pretrain"], ["--hardware", "h100-hgx"]])
def test_a_lock_becomes_no_other_form_or_platform(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["render", PRESET, "--output", "b"]) == 0
    capsys.readouterr()
    assert main(["render", "b", *words]) == 2
    assert "is a lock" in capsys.readouterr().err


def test_hardware_by_set_is_the_platform_and_not_maxtexts_key(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--set", "hardware=h100-hgx", "--gpus", "64", "--output", "b", "--format", "json"]
    assert main(["render", PRESET, *words]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["hardware"], summary["processes_per_node"]) == ("h100-hgx", 8)


def test_a_pipe_in_place_of_a_run_file_does_not_hang(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("f.yaml")
    assert main(["render", "f.yaml"]) == 4
    assert "not a regular file" in capsys.readouterr().err


def test_what_a_run_leaves_in_its_bundle_needs_no_force() -> None:
    assert main(["render", PRESET, "--output", "b"]) == 0
    Path("b/logs").mkdir()
    assert main(["render", PRESET, "--output", "b"]) == 0
    assert Path("b/logs").is_dir()


def test_a_link_to_an_empty_folder_is_written_through() -> None:
    Path("real").mkdir()
    Path("link").symlink_to("real")
    assert main(["render", PRESET, "--output", "link"]) == 0
    assert Path("real/config.yml").is_file()
    assert Path("link").is_symlink()


def test_a_state_larger_than_the_memory_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", PRESET, "--gpus", "4", "--stdout", "config"]) == 0
    assert "MEM111" in capsys.readouterr().err
    assert main(["render", PRESET, "--gpus", "128", "--stdout", "config"]) == 0
    assert "MEM111" not in capsys.readouterr().err


@pytest.mark.parametrize("redirection", [">&-", "2>&-"])
def test_a_closed_stream_is_no_fault(redirection: str) -> None:
    command = f'"{sys.executable}" -m moectl render {PRESET} --stdout config {redirection}'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_narrow_encoding_shows_escapes() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "moectl", "presets", "list"],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


TOKEN = "hf_" + "sesame" * 5


@pytest.mark.parametrize(
    "words",
    [
        ["--set", f"environment.HF_TOKEN={TOKEN}"],
        ["--set", f"environment.MY_KEY={TOKEN}"],
        ["--set", f"secrets=[{TOKEN}]"],
        ["--set", f"secrets=[HF_TOKEN={TOKEN}]"],
        ["--set", f"secrets={{HF_TOKEN: {TOKEN}}}"],
        ["--set", f"cluster.directives=[--export=HF_TOKEN={TOKEN}]"],
        ["--set", f"nope={TOKEN}"],
    ],
)
def test_a_secret_by_value_is_neither_rendered_nor_repeated(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["render", PRESET, *words, "--output", "b"])
    captured = capsys.readouterr()
    assert "sesame" not in captured.out + captured.err
    written = [path.read_text() for path in Path().rglob("*") if path.is_file()]
    assert [text for text in written if "sesame" in text] == []
