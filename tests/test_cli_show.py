"""The commands that print: parts, values with their sources, catalogues and facts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moectl.__main__ import main
from moectl.actions.render import render
from moectl.facts import hardware
from moectl.settings.files import preset_names

PRESET = "deepseek3-671b"
Capture = pytest.CaptureFixture[str]


def printed(capsys: Capture, *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("part", "file"),
    [("config", "config.yml"), ("launch", "launch.sbatch"), ("lock", "moectl.lock.yaml")],
)
def test_a_part_is_printed_and_nothing_is_written(
    part: str, file: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert printed(capsys, "render", PRESET, "--stdout", part) == render(PRESET).files[file]
    assert list(tmp_path.iterdir()) == []


def test_the_environment_is_printed_with_the_flags_last(capsys: Capture) -> None:
    lines = printed(capsys, "render", PRESET, "--stdout", "env").splitlines()
    assert "CUDA_DEVICE_MAX_CONNECTIONS=16" in [line.replace("'", "") for line in lines]
    assert lines[-1].startswith("XLA_FLAGS=")


def test_findings_that_stop_are_json_too(capsys: Capture) -> None:
    words = ["render", PRESET, "--set", "sparse_matmul=false", "--format", "json"]
    told = json.loads(printed(capsys, *words, code=1))
    assert "TE101" in [finding["code"] for finding in told["findings"]]


def test_show_says_where_a_value_came_from_and_what_it_overrode(capsys: Capture) -> None:
    text = printed(capsys, "show", PRESET, "--set", "steps=7", "--sources")
    after = text[text.index("  steps = 7") :].splitlines()[1:4]
    assert after == [
        "      from --set",
        "      over 15, preset deepseek3-671b",
        "      over 150001, MaxText 0.2.5 base.yml",
    ]


def test_show_as_json_has_every_section(capsys: Capture) -> None:
    told = json.loads(printed(capsys, "show", PRESET, "--format", "json"))
    assert set(told["values"]) == {"run", "config.yml", "command line", "XLA flags", "environment"}
    steps = told["values"]["config.yml"]["steps"]
    assert (steps["value"], steps["overrode"][0]["value"]) == (15, 150001)


def test_show_of_a_job_that_would_not_render_ends_in_one(capsys: Capture) -> None:
    assert "sparse_matmul = false" in printed(
        capsys, "show", PRESET, "--set", "sparse_matmul=false", code=1
    )


def test_the_presets_are_listed_one_a_line(capsys: Capture) -> None:
    rows = json.loads(printed(capsys, "presets", "list", "--format", "json"))
    assert [row["name"] for row in rows] == preset_names()
    text = printed(capsys, "presets", "list")
    assert [name for name in preset_names() if f"{name} " not in text] == []


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_shown_with_its_reason_and_source(name: str, capsys: Capture) -> None:
    told = json.loads(printed(capsys, "presets", "show", name, "--format", "json"))
    text = printed(capsys, "presets", "show", name)
    assert told["path"]["why"] in text
    assert told["source"] in text


@pytest.mark.parametrize("name", hardware.names())
def test_a_platform_is_listed_and_shown(name: str, capsys: Capture) -> None:
    assert name in printed(capsys, "hardware", "list")
    told = json.loads(printed(capsys, "hardware", "show", name, "--format", "json"))
    assert told
    assert printed(capsys, "hardware", "show", name)


def test_the_fact_tables_are_listed_with_their_releases(capsys: Capture) -> None:
    told = json.loads(printed(capsys, "facts", "list", "--format", "json"))
    assert [row["release"] for row in told["maxtext"]] == ["0.2.4", "0.2.5"]
    assert {row["release"] for row in told["xla"]} == {"0.8.3", "0.10.2", "0.11.2", "0.12.0.1"}
    assert "renew moectl facts maxtext SOURCE" in printed(capsys, "facts", "list")
