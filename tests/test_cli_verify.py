"""moectl verify: what a bundle rests on, then and now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moectl.__main__ import main


@pytest.fixture(autouse=True)
def bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOECTL_RUNS", str(tmp_path / "runs"))
    assert main(["render", "gpt-oss-20b", "--gpus", "64", "--output", "b"]) == 0
    capsys.readouterr()
    return tmp_path / "b"


def checks(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    main(["verify", "b", "--format", "json"])
    data = json.loads(capsys.readouterr().out)
    return {row["what"]: row for row in data["checks"]}


def test_a_fresh_bundle_has_not_drifted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "b"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "b: nothing drifted that can be seen from here"
    states = {line.split()[0] for line in lines[:-1]}
    assert states == {"same", "unknown"}  # the image has no digest


def test_a_pinned_image_is_known(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = "sha256:" + "a" * 64
    words = ["--set", f"container.digest={digest}", "--output", "b", "--force"]
    assert main(["render", "gpt-oss-20b", "--gpus", "64", *words]) == 0
    capsys.readouterr()
    found = checks(capsys)
    assert found["image"]["state"] == "same"
    assert digest in found["image"]["told"]


def test_a_changed_file_and_an_older_moectl_are_named(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bundle / "launch.sbatch").write_text("#!/bin/sh\n")
    (bundle / "watchdog.py").unlink()
    lock = bundle / "moectl.lock.yaml"
    text = lock.read_text()
    start = text.index("  version: ")
    end = text.index("\n", start)
    lock.write_text(text[:start] + '  version: "0.0.1"' + text[end:])
    found = checks(capsys)
    assert found["launch.sbatch"]["state"] == "drifted"
    assert "is not there" in found["watchdog.py"]["told"]
    assert found["moectl"]["told"].startswith("made with 0.0.1, now ")
    assert main(["verify", "b"]) == 1


def test_what_rules_of_today_refuse_is_named_by_code(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = bundle / "moectl.lock.yaml"
    lock.write_text(lock.read_text().replace("xla_flags:\n", "xla_flags:\n  xla_no_such: 1\n", 1))
    found = checks(capsys)
    assert found["lock"]["state"] == "drifted"


@pytest.mark.parametrize(
    ("target", "said"),
    [("gone", "neither a folder nor a run"), ("b/config.yml", "is a file"), ("empty", "lock")],
)
def test_what_is_no_bundle_is_refused(
    target: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("empty").mkdir()
    assert main(["verify", target]) in {2, 4}
    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err
