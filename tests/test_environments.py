"""Managed environments: whole or not at all, whoever dies and whoever comes at once."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from moectl import environments
from moectl.errors import BackendError, LocalFilesError, UnknownNameError, ValueUsageError

MINOR = "{}.{}".format(*sys.version_info[:2])
ENSURE = (
    "import sys; from pathlib import Path; from moectl import environments;"
    f"print(environments.ensure('e', Path(sys.argv[1]), {MINOR!r}, Path(sys.argv[2])).python)"
)


@pytest.fixture
def uv() -> Path:
    """A working uv; building environments needs one."""
    try:
        return environments.find_uv()
    except BackendError as error:
        pytest.skip(f"needs uv: {str(error).splitlines()[0]}")


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """A requirements file whose only package is a wheel made here: no registry is asked."""
    wheel = tmp_path / "wheels" / "hello_wheel-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("hello_wheel.py", "WORD = 'hello'\n")
        info = "hello_wheel-1.0.dist-info"
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: hello-wheel\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    file = tmp_path / "requirements.txt"
    file.write_text(f"--no-index\n--find-links {wheel.parent}\nhello-wheel==1.0\n")
    return file


def _word(python: Path) -> str:
    command = [str(python), "-c", "import hello_wheel; print(hello_wheel.WORD)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _seen(root: Path) -> list[str]:
    """Return what lies in the folder of environments, but for the locks."""
    return sorted(entry.name for entry in root.iterdir() if not entry.name.endswith(".lock"))


def test_an_environment_is_built_once_and_found_afterwards(
    uv: Path, tmp_path: Path, requirements: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    root = tmp_path / "a folder with spaces" / "ünd"
    built = environments.ensure("hello", requirements, MINOR, root, said.append)
    assert _word(built.python) == "hello"
    assert built.folder.parent == root
    assert built.folder.name.startswith("hello-")
    assert _seen(root) == [built.folder.name]
    assert len([s for s in said if not s.startswith("uv: ")]) == 1
    # Found without uv, without a search for a Python, without a word.
    monkeypatch.setenv("PATH", "")
    assert environments.ensure("hello", requirements, MINOR, root, said.append) == built
    assert len([s for s in said if not s.startswith("uv: ")]) == 1


def test_other_requirements_make_another_environment_and_comments_do_not(
    uv: Path, tmp_path: Path
) -> None:
    empty = environments.ensure("e", "", MINOR, tmp_path)
    assert environments.ensure("e", "# a comment\n\n", MINOR, tmp_path) == empty
    assert environments._digest("six==1.17.0", MINOR) != environments._digest("", MINOR)
    assert environments._digest("", "3.11") != environments._digest("", "3.12")


def test_a_failed_build_leaves_nothing_and_says_what_uv_said(uv: Path, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="no-such-wheel") as caught:
        environments.ensure("bad", "--no-index\nno-such-wheel==1.0\n", MINOR, tmp_path)
    assert "uv failed (exit code 1) at" in str(caught.value)
    assert _seen(tmp_path) == []


def test_two_processes_at_once_get_the_same_whole_environment(
    uv: Path, tmp_path: Path, requirements: Path
) -> None:
    root = tmp_path / "root"
    command = [sys.executable, "-c", ENSURE, str(requirements), str(root)]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    pythons = {out for out, _ in said}
    assert len(pythons) == 1
    python = Path(pythons.pop().strip())
    assert _word(python) == "hello"
    assert _seen(root) == [python.parent.parent.name]


def _slow_uv(folder: Path, uv: Path) -> Path:
    """Write a uv that makes the environment and then hangs before it installs anything."""
    folder.mkdir()
    program = folder / "uv"
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = pip ]; then touch "{folder}/reached"; exec sleep 60; fi\n'
        f'exec "{uv}" "$@"\n'
    )
    program.chmod(0o755)
    return program


def test_a_build_killed_at_any_point_leaves_no_environment_and_the_next_one_cleans_up(
    uv: Path, tmp_path: Path, requirements: Path
) -> None:
    root, slow = tmp_path / "root", _slow_uv(tmp_path / "slow", uv)
    path = f"{slow.parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        [sys.executable, "-c", ENSURE, str(requirements), str(root)],
        env=os.environ | {"PATH": path},
        start_new_session=True,
    )
    end = time.monotonic() + 60
    while not (slow.parent / "reached").exists():
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = _seen(root)
    assert len(left) == 1
    assert left[0].endswith(".partial")
    assert left[0].startswith(".")
    built = environments.ensure("e", requirements, MINOR, root)
    assert _word(built.python) == "hello"
    assert _seen(root) == [built.folder.name]


def test_an_environment_whose_interpreter_was_removed_is_built_again(
    uv: Path, tmp_path: Path, requirements: Path
) -> None:
    built = environments.ensure("e", requirements, MINOR, tmp_path / "root")
    built.python.unlink()
    built.python.symlink_to(tmp_path / "gone")
    again = environments.ensure("e", requirements, MINOR, tmp_path / "root")
    assert again == built
    assert _word(again.python) == "hello"
    assert _seen(tmp_path / "root") == [again.folder.name]


def test_without_file_locks_the_rename_decides(
    uv: Path, tmp_path: Path, requirements: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    built = environments.ensure("e", requirements, MINOR, tmp_path / "root")
    # Somebody else finishes first: this build is thrown away and theirs is taken.
    partial = built.folder.with_name(f".{built.folder.name}.late.partial")
    shutil.copytree(built.folder, partial, symlinks=True)
    environments._settle(partial, built.folder)
    assert _word(built.python) == "hello"


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "-option", "a b", "a\0b", "é"])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueUsageError, match="name of an environment"):
        environments.ensure(name, "", MINOR, tmp_path)
    assert _seen(tmp_path) == []


@pytest.mark.parametrize("python", ["", "3", "3.12.1", "3.x", "; rm", "³.12"])
def test_a_python_that_is_no_minor_version_is_refused(python: str, tmp_path: Path) -> None:
    with pytest.raises(ValueUsageError, match="a version such as"):
        environments.ensure("e", "", python, tmp_path)


def test_a_folder_that_cannot_be_written_is_a_fault_of_local_files(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(LocalFilesError, match="cannot prepare the environment e"):
        environments.ensure("e", "", MINOR, file / "below")
    with pytest.raises(LocalFilesError, match="missing"):
        environments.ensure("e", tmp_path / "missing.txt", MINOR, tmp_path)


def test_the_folder_of_environments_follows_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("MOECTL_HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert environments.home() == Path("/home/me/.cache/moectl/environments")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the specification: to be ignored
    assert environments.home() == Path("/home/me/.cache/moectl/environments")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert environments.home() == Path("/cache/moectl/environments")
    monkeypatch.setenv("MOECTL_HOME", "~/moe")
    assert environments.home() == Path("/home/me/moe/environments")
    monkeypatch.setenv("MOECTL_HOME", "")
    assert environments.home() == Path("/cache/moectl/environments")


def test_every_shipped_set_is_pinned_in_full() -> None:
    found = environments.recipes()
    assert {"maxtext-0.2.5", "jaxlib-0.8.3", "jaxlib-0.11.2", "jaxlib-0.12.0.1"} <= set(found)
    for name, recipe in found.items():
        lines = environments._significant(recipe.requirements)
        package, release, *_ = name.split("-")  # what follows says what else is in it
        assert f"{package}=={release}" in lines
        assert all(line.count("==") == 1 and " " not in line for line in lines), name
        assert recipe.purpose


def test_what_training_imports_is_in_the_maxtext_set() -> None:
    lines = environments._significant(environments.recipes()["maxtext-0.2.5"].requirements)
    names = {line.partition("==")[0] for line in lines}
    assert {"ml-collections", "tensorboardx", "orbax-checkpoint", "optax", "grain"} <= names


def test_an_unknown_set_is_named_with_its_neighbours(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean 'maxtext-0\.2\.5'"):
        environments.managed("maxtext-0.2.6", tmp_path)
