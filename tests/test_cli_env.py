"""moectl env: list, install with its progress, remove unless it is in use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moectl import environments
from moectl.errors import BackendError
from moectl.launch import local
from tests.support.launching import run_command

MINOR = "{}.{}".format(*sys.version_info[:2])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of environments, of which there is one without any package."""
    try:
        environments.find_uv()
    except BackendError as error:
        pytest.skip(f"needs uv: {str(error).splitlines()[0]}")
    monkeypatch.setenv("MOECTL_HOME", str(tmp_path / "home"))
    recipe = environments.Recipe("tiny", MINOR, "# nothing\n", "tests")
    monkeypatch.setattr(environments, "recipes", lambda: {"tiny": recipe})
    return tmp_path / "home" / "environments"


def test_what_can_be_had_is_listed_installed_and_removed(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["env", "list"]) == 0
    assert "not built" in capsys.readouterr().out
    assert run_command(["env", "install", "tiny"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("moectl: building the environment tiny-")
    assert Path(said.out.split(": ")[1].strip()).is_relative_to(root)
    assert run_command(["env", "install", "tiny"]) == 0
    assert "which was there already" in capsys.readouterr().out
    assert run_command(["env", "list", "--format", "json"]) == 0
    (held,) = json.loads(capsys.readouterr().out)["environments"]
    assert (held["name"], held["built"]) == ("tiny", True)
    assert held["bytes"] > 0
    assert run_command(["env", "remove", "tiny"]) == 0
    assert not environments.built("tiny")
    assert run_command(["env", "remove", "tiny"]) == 0
    assert "was not built" in capsys.readouterr().out
    assert [path.name for path in root.iterdir() if not path.name.endswith(".lock")] == []


def test_one_that_is_in_use_stays(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = environments.managed("tiny").python
    script = "import time; print(flush=True); time.sleep(600)"
    running = subprocess.Popen([python, "-c", script], stdout=subprocess.PIPE)
    assert running.stdout is not None
    try:
        running.stdout.readline()  # it has its name by then
        assert run_command(["env", "remove", "tiny"]) == 2
        assert f"tiny is in use by process {running.pid}" in capsys.readouterr().err
        assert environments.built("tiny")
    finally:
        running.kill()
        running.communicate()


@pytest.mark.parametrize("command", ["install", "remove"])
def test_an_unknown_one_is_refused_with_the_nearest(
    root: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run_command(["env", command, "tinny"]) == 2
    assert "did you mean 'tiny'?" in capsys.readouterr().err
    assert not root.exists()


def test_where_there_is_no_room_nothing_is_begun(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "read", lambda _: {"environment_gb": 10**6})
    assert run_command(["env", "install", "tiny"]) == 4
    assert "set MOECTL_HOME to a folder on another disk" in capsys.readouterr().err
    assert not root.exists()


def test_without_the_python_it_is_pinned_for_one_sentence_says_so(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = environments.Recipe("tiny", "3.99", "# nothing\n", "tests")
    monkeypatch.setattr(environments, "recipes", lambda: {"tiny": recipe})
    assert run_command(["env", "install", "tiny"]) == 3
    assert "no working Python 3.99 found; install it" in capsys.readouterr().err
    assert not environments.built("tiny")
