"""Folders are written whole or not at all, whatever goes wrong."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest

from moectl import files as module
from moectl.errors import LocalFilesError
from moectl.files import write_folder
from tests.support import components

FILES = {"config.yml": b"steps: 1\n", "launch.sh": b"#!/bin/sh\n", "seal": b"sealed\n"}
NEW = {name: content + b"new\n" for name, content in FILES.items()}


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder and everything under it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def write(folder: Path, files: dict[str, bytes] = FILES, *, force: bool = False) -> None:
    write_folder(folder, files, seal="seal", force=force)


def fail(error: BaseException, calls: int = 0) -> Any:
    """Return a function that raises `error` at its call number `calls`."""
    left = [calls]

    def failing(*_: object, **__: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise error

    return failing


def test_a_new_folder_holds_exactly_the_files_and_its_parents_are_made(tmp_path: Path) -> None:
    write(tmp_path / "a" / "b")
    assert contents(tmp_path) == {f"a/b/{name}": content for name, content in FILES.items()}


def test_a_new_folder_has_the_rights_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "b")
    finally:
        os.umask(before)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "b" / "seal").stat().st_mode & 0o777 == 0o640


def test_an_own_folder_is_renewed_without_force(tmp_path: Path) -> None:
    write(tmp_path / "b")
    write(tmp_path / "b", NEW)
    assert contents(tmp_path / "b") == NEW


def test_other_peoples_files_are_refused_without_force_and_kept_with_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(LocalFilesError, match=r"notes\.txt.*--force"):
        write(tmp_path)
    assert contents(tmp_path) == {"notes.txt": b"mine"}
    write(tmp_path, force=True)
    assert contents(tmp_path) == {**FILES, "notes.txt": b"mine"}


def test_a_file_in_the_place_of_the_folder_is_refused_even_with_force(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    for force in (False, True):
        with pytest.raises(LocalFilesError, match="is a file, not a folder"):
            write(tmp_path / "b", force=force)
    assert contents(tmp_path) == {"b": b"mine"}


def test_a_folder_below_a_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(LocalFilesError, match=r"nothing was written$"):
        write(tmp_path / "b" / "c")


@pytest.mark.parametrize("calls", [0, 1, 2])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_new_folder_that_fails_leaves_nothing(
    error: BaseException, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", fail(error, calls))
    with pytest.raises((LocalFilesError, KeyboardInterrupt)):
        write(tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("calls", [0, 1, 2])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
def test_a_renewed_folder_that_cannot_be_staged_keeps_what_it_had(
    error: BaseException, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "b")
    monkeypatch.setattr(os, "fsync", fail(error, calls))
    with pytest.raises((LocalFilesError, KeyboardInterrupt)):
        write(tmp_path / "b", NEW)
    assert contents(tmp_path / "b") == FILES


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_renewal_that_stops_between_its_files_has_no_seal(
    calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "b")
    rename, left = Path.rename, [calls]

    def stopping(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", stopping)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "b", NEW)
    monkeypatch.undo()
    assert "seal" not in contents(tmp_path / "b")
    write(tmp_path / "b", NEW)
    assert contents(tmp_path / "b") == NEW


def test_what_an_interrupted_renewal_left_is_swept_by_the_next(tmp_path: Path) -> None:
    write(tmp_path / "b")
    staged = tmp_path / "b" / f"{module._STAGED}old"
    staged.mkdir()
    (staged / "config.yml").write_text("half")
    write(tmp_path / "b")
    assert contents(tmp_path / "b") == FILES


@pytest.mark.parametrize("exists", [False, True])
def test_a_killed_write_leaves_no_sealed_half_bundle(exists: bool, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    many = {**{f"file{i}": b"x" * 1000 for i in range(200)}, "seal": b"sealed"}
    if exists:
        write(folder, dict.fromkeys(many, b"old"))
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from moectl import files\n"
        "original = files._write\n"
        "def slow(path, content):\n"
        "    original(path, content); print(path.name, flush=True); time.sleep(0.01)\n"
        "files._write = slow\n"
        "many = {**{f'file{i}': b'x' * 1000 for i in range(200)}, 'seal': b'sealed'}\n"
        "files.write_folder(Path(sys.argv[1]), many, seal='seal', force=False)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(20):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    top = {path.name: path.read_bytes() for path in folder.glob("*") if path.is_file()}
    assert top == (dict.fromkeys(many, b"old") if exists else {})
    assert not [path for path in tmp_path.rglob("seal") if path.parent != folder]
    write(folder, many)
    assert contents(folder) == many


def test_a_full_disk_leaves_no_half_bundle(tmp_path: Path) -> None:
    components.require("root")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        with pytest.raises(LocalFilesError, match="No space left on device; nothing was written"):
            write(tmp_path / "b", {**FILES, "big": b"x" * 200_000})
        assert contents(tmp_path) == {}
        write(tmp_path / "b")
        assert contents(tmp_path / "b") == FILES
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_folder_without_write_permission_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object, **__: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path))

    monkeypatch.setattr(tempfile, "mkdtemp", refusing)
    with pytest.raises(LocalFilesError, match=r"Permission denied; nothing was written$"):
        write(tmp_path / "b")


def test_two_writers_of_one_folder_leave_one_whole_bundle(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom moectl.errors import LocalFilesError\n"
        "from moectl.files import write_folder\n"
        "many = {**{f'f{i}': sys.argv[2].encode() for i in range(50)}, 's': b'x'}\n"
        "try:\n    write_folder(Path(sys.argv[1]), many, seal='s', force=False)\n"
        "except LocalFilesError as error:\n    print(error)\n"
    )
    folder = tmp_path / "b"
    started = time.monotonic()
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(folder), word],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for word in ("one", "two")
    ]
    said = [writer.communicate() for writer in writers]
    assert time.monotonic() - started < 60
    assert [text for _, text in said] == ["", ""], "a traceback"
    found = contents(folder)
    assert set(found) == {*(f"f{i}" for i in range(50)), "s"}
