"""Finding a Python and uv: believed only after they answered."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from moectl import interpreters
from moectl.errors import BackendError, LocalFilesError, ValueUsageError

Program = Callable[..., Path]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Write programs that answer with a word and an exit code, by default with success."""

    def write(place: str, says: str, code: int = 0) -> Path:
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = "" if code == 0 else " >&2"
        path.write_text(f"#!/bin/sh\nprintf '%s\\n' '{says}'{stream}\nexit {code}\n")
        path.chmod(0o755)
        return path

    return write


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine of its own: two folders on PATH, no pyenv yet, no uv package."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'one'}:{tmp_path / 'two'}::/bin:/usr/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setitem(sys.modules, "uv", None)


def test_a_shim_that_refuses_is_passed_over_for_the_next_on_path(program: Program) -> None:
    program("one/python3.77", "pyenv: python3.77: command not found", 127)
    works = program("two/python3.77", "3.77")
    assert interpreters.find_python("3.77") == works


def test_a_program_with_another_version_than_its_name_is_passed_over(program: Program) -> None:
    program("one/python3.77", "3.76")
    works = program("two/python3.77", "3.77")
    assert interpreters.find_python("3.77") == works


def test_the_newest_patch_of_pyenv_comes_first_by_number(program: Program) -> None:
    for version in ("3.77.9", "3.77.10", "3.77.2", "3.77-dev", "3.77.0rc1", "3.7.99", "3.770.1"):
        program(f"pyenv/versions/{version}/bin/python3.77", "3.77")
    found = interpreters.find_python("3.77")
    assert found.parts[-3] == "3.77.10"


def test_a_broken_newest_patch_gives_way_to_an_older_one(program: Program) -> None:
    program("pyenv/versions/3.77.10/bin/python3.77", "bad interpreter", 1)
    works = program("pyenv/versions/3.77.9/bin/python3.77", "3.77")
    assert interpreters.find_python("3.77") == works


def test_uv_is_asked_last(program: Program, tmp_path: Path) -> None:
    works = program("uv-managed/python3.77", "3.77")
    program("one/uv", str(works))
    assert interpreters.find_python("3.77") == works


def test_the_python_that_runs_this_is_taken_when_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    minor = "{}.{}".format(*sys.version_info[:2])
    assert interpreters.find_python(minor) == Path(sys.executable)


def test_what_was_looked_at_is_listed_with_its_fault(program: Program, tmp_path: Path) -> None:
    program("one/python3.77", "pyenv: python3.77: command not found", 127)
    program("two/python3.77", "3.76")
    program("pyenv/versions/3.77.1/bin/python3.77", "", 9)
    program("pyenv/versions/3.77.0/bin/python3.77", "3.77").chmod(0o644)
    program("one/uv", "error: no interpreter found", 2)
    with pytest.raises(BackendError) as caught:
        interpreters.find_python("3.77")
    said = str(caught.value)
    assert f"{tmp_path}/one/python3.77: pyenv: python3.77: command not found" in said
    assert f"{tmp_path}/two/python3.77: is Python 3.76" in said
    assert "3.77.1/bin/python3.77: exit code 9" in said
    assert "3.77.0/bin/python3.77: Permission denied" in said
    assert "uv python install 3.77" in said
    assert str(tmp_path / "pyenv" / "versions") in said


def test_a_program_that_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = tmp_path / "one" / "python3.77"
    hangs.parent.mkdir()
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(interpreters, "ANSWER_SECONDS", 0.2)
    with pytest.raises(BackendError, match=r"no answer within 0\.2 s"):
        interpreters.find_python("3.77")


@pytest.mark.parametrize("minor", ["", "3", "3.12.1", "three.twelve", "-c.1", "3.12\n"])
def test_what_is_no_minor_version_is_refused(minor: str) -> None:
    with pytest.raises(ValueUsageError, match="a version such as"):
        interpreters.find_python(minor)


def test_uv_on_path_must_answer_before_it_is_believed(program: Program) -> None:
    program("one/uv", "pyenv: uv: command not found", 127)
    works = program("two/uv", "uv 0.13.9")
    assert interpreters.find_uv() == works


def test_the_uv_package_is_taken_when_none_is_on_path(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = program("package/uv", "uv 0.13.9")
    package = types.ModuleType("uv")
    package.find_uv_bin = lambda: str(works)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uv", package)
    assert interpreters.find_uv() == works


def test_a_uv_package_without_its_program_is_no_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise FileNotFoundError("uv")

    package = types.ModuleType("uv")
    package.find_uv_bin = missing  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "uv", package)
    with pytest.raises(BackendError, match="pip install uv"):
        interpreters.find_uv()


def test_without_uv_the_message_says_what_to_type_and_what_was_wrong(program: Program) -> None:
    program("one/uv", "pyenv: uv: command not found", 127)
    with pytest.raises(BackendError, match="pip install uv") as caught:
        interpreters.find_uv()
    assert "pyenv: uv: command not found" in str(caught.value)


def test_without_a_home_folder_the_message_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(LocalFilesError, match="MOECTL_HOME"):
        interpreters.expanded("~nobody-of-this-name/x")
