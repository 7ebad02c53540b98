"""Opening a MaxText: wheel, source tree, site-packages, virtual environment, package."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from moectl.errors import SourceError
from moectl.evidence import maxtext_tree
from moectl.evidence.maxtext_tree import TYPES, opened


def wheel(path: Path, files: dict[str, bytes]) -> Path:
    """Write a zip file."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("place", "asked"),
    [
        ("maxtext", ""),
        ("maxtext", "maxtext"),
        ("src/maxtext", ""),
        ("env/lib/python3.12/site-packages/maxtext", "env"),
        ("env/lib/python3.12/site-packages/maxtext", "env/lib/python3.12/site-packages"),
        ("köln – a folder/maxtext", "köln – a folder"),
    ],
)
def test_the_package_is_found_from_every_folder_a_person_would_name(
    tmp_path: Path, place: str, asked: str
) -> None:
    types = tmp_path / place / TYPES
    types.parent.mkdir(parents=True)
    types.write_text("here = 1\n")
    with opened(tmp_path / asked) as tree:
        assert tree.read(TYPES) == "here = 1\n"
        assert tree.exists(TYPES)
        assert not tree.exists("configs/base.yml")


def test_a_wheel_is_read_without_unpacking(tmp_path: Path) -> None:
    files = {
        f"maxtext/{TYPES}": b"here = 1\n",
        "maxtext/configs/models/b-1.yml": b"",
        "maxtext/configs/models/b.yml": b"",
        "maxtext/configs/models/deep/c.yml": b"",
        "maxtext/configs/models/notes.md": b"",
    }
    with opened(wheel(tmp_path / "maxtext.whl", files)) as tree:
        assert tree.read(TYPES) == "here = 1\n"
        assert tree.names("configs/models", ".yml") == ["b", "b-1"]
        assert tree.digest(TYPES).startswith("8279568b")
        assert tree.place(TYPES).endswith(f"maxtext.whl/maxtext/{TYPES}")


def test_names_come_sorted_from_a_folder_too(tmp_path: Path) -> None:
    for name in (TYPES, "configs/models/b-1.yml", "configs/models/b.yml", "configs/models/x.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with opened(tmp_path) as tree:
        assert tree.names("configs/models", ".yml") == ["b", "b-1"]
        assert tree.names("configs/none", ".yml") == []


def test_a_folder_without_maxtext_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no maxtext/configs/types\.py"), opened(tmp_path):
        pass


def test_a_wheel_of_something_else_says_what_to_name(tmp_path: Path) -> None:
    other = wheel(tmp_path / "other.whl", {"other/__init__.py": b""})
    with pytest.raises(SourceError, match="name a MaxText wheel"), opened(other):
        pass


def test_what_does_not_exist_and_what_is_no_wheel_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"), opened(tmp_path / "gone.whl"):
        pass
    text = tmp_path / "text.whl"
    text.write_text("PK no")
    with pytest.raises(SourceError, match="neither a folder nor a readable wheel"), opened(text):
        pass


def test_a_damaged_member_is_refused_with_its_name(tmp_path: Path) -> None:
    path = wheel(tmp_path / "maxtext.whl", {f"maxtext/{TYPES}": b"here = 1\n" * 50})
    raw = bytearray(path.read_bytes())
    at = raw.index(b"here = 1")
    raw[at : at + 4] = b"gone"
    path.write_bytes(bytes(raw))
    with opened(path) as tree, pytest.raises(SourceError, match=r"types\.py: cannot be read"):
        tree.read(TYPES)


def test_text_that_is_not_utf8_or_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = wheel(
        tmp_path / "maxtext.whl",
        {f"maxtext/{TYPES}": b"\xff\xfe", "maxtext/configs/base.yml": b"x" * 100},
    )
    with opened(path) as tree:
        with pytest.raises(SourceError, match="not UTF-8"):
            tree.read(TYPES)
        monkeypatch.setattr(maxtext_tree, "_LARGEST_FILE", 99)
        with pytest.raises(SourceError, match="100 bytes; 99 is the most"):
            tree.read("configs/base.yml")
        with pytest.raises(SourceError, match="is missing"):
            tree.read("configs/none.yml")
