"""A file is written whole or not at all, readable as any other file of its owner."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moectl.errors import LocalFilesError
from moectl.launch.whole_file import write


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_gets_the_rights_that_the_umask_leaves(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write(tmp_path / "new" / "file", "text\n")
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "file").stat().st_mode & 0o777 == mode
    assert (tmp_path / "new" / "file").read_text("utf-8") == "text\n"


def test_what_the_file_system_refuses_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old", "utf-8")
    with pytest.raises(LocalFilesError):
        write(tmp_path / "file" / "below", "text")
    with pytest.raises(LocalFilesError, match="is a folder"):
        write(tmp_path, "text")
    with pytest.raises(LocalFilesError, match="--force"):
        write(tmp_path / "file", "text", force=False)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text("utf-8") == "old"
