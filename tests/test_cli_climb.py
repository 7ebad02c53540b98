"""moectl climb as a command line, without a scheduler: what it says before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl import __main__ as door

SITE = "runtime: none\npython: /usr/bin/python3\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOECTL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("site.yaml").write_text(SITE)


def test_a_climb_without_a_scheduler_says_so_and_leaves_no_climb(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    line = ["climb", "mixtral-8x7b", "--rungs", "8,16", "--cluster", "site.yaml"]
    assert door.main(line) == 3
    assert "sbatch is not on this machine" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--show", "--resume"])
def test_an_unknown_climb_is_named(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert door.main(["climb", option, "$(touch pwned)"]) == 2
    assert "unknown climb '$(touch pwned)'" in capsys.readouterr().err
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    "words", [[], ["mixtral-8x7b"], ["--rungs", "8"], ["mixtral-8x7b", "--show", "a"]]
)
def test_a_target_goes_with_rungs_and_nothing_else(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert door.main(["climb", *words]) == 2
    assert "climb wants a target with --rungs" in capsys.readouterr().err


def test_every_bad_threshold_and_rung_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert door.main(["climb", "mixtral-8x7b", "--rungs", "8,x"]) == 2
    assert "--rungs" in capsys.readouterr().err
    assert door.main(["climb", "mixtral-8x7b", "--rungs", "8", "--min-tflops", "fast"]) == 2
    assert "--min-tflops" in capsys.readouterr().err
