"""Catalogues on disk: whole or not at all, the same bytes each time, the shipped ones renewed."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from pathlib import Path

import pytest

from moectl.errors import LocalFilesError, SourceError, ValueUsageError
from moectl.evidence.maxtext_source import read_source
from moectl.evidence.maxtext_write import documents, write_catalogue
from moectl.facts import maxtext
from moectl.resources import fact
from tests.test_evidence_maxtext_source import TREE, real, tree

FILES = ["base.json", "keys.json", "models.json"]


def texts(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.json")}


def names(folder: Path) -> list[str]:
    """Return the names in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def test_a_written_catalogue_reads_back_as_the_source_was(tmp_path: Path) -> None:
    source, out = tree(tmp_path / "source"), tmp_path / "new" / "folder"
    summary = write_catalogue(source, out)
    assert summary.folder == out / "9.1.0"
    assert names(summary.folder) == FILES
    assert names(out) == ["9.1.0"]
    tables, catalogue = read_source(source), maxtext.read(summary.folder)
    assert catalogue.release == "9.1.0"
    assert catalogue.source == "maxtext 9.1.0 (Apache-2.0), configs/types.py, configs/base.yml"
    known = catalogue.keys()
    assert {name: catalogue.key(name) for name in known} == tables.keys
    assert catalogue.key("lora.lora_rank") == tables.nested["lora"]["lora_rank"]
    assert catalogue.base == tables.base
    assert {name: catalogue.model(name) for name in catalogue.models()} == tables.models
    assert catalogue.axes == tables.axes
    assert catalogue.mesh_axes == ("data", "fsdp")
    assert catalogue.logical_axis_rules == (("embed", ("fsdp",)),)


def test_the_summary_says_what_was_found(tmp_path: Path) -> None:
    summary = write_catalogue(tree(tmp_path / "source"), tmp_path / "out")
    assert str(summary).splitlines() == [
        "maxtext 9.1.0: 15 keys (1 of them derived), 2 nested keys, 2 models",
        f"{tmp_path}/out/9.1.0 written",
        "only running MaxText can judge: lora.below",
        "set by its own files, yet no keys: moe-b: stray",
    ]
    again = write_catalogue(tree(tmp_path / "source"), tmp_path / "out")
    assert again == dataclasses.replace(summary, changed=False)
    assert "holds just that already" in str(again)


def test_the_bytes_depend_on_nothing_but_the_source(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_catalogue(tree(tmp_path / f"source-{name}"), tmp_path / name)
    assert texts(tmp_path / "one") == texts(tmp_path / "two")
    assert len(texts(tmp_path / "one")) == 3


def test_each_key_has_a_line_and_no_help_text_is_taken_over(tmp_path: Path) -> None:
    files = documents(read_source(tree(tmp_path)))
    assert "UPSTREAM" not in "".join(files.values())
    assert "UPSTREAM HELP" in TREE["configs/types.py"]
    lines = files["keys.json"].splitlines()
    assert sum(line.startswith('    "steps": {"type": "int", "ge": 0') for line in lines) == 1
    assert '    "steps": 1000,' in files["base.json"].splitlines()
    assert '      ["embed", ["fsdp"]]' in files["base.json"].splitlines()
    assert all(text.endswith("}\n") and json.loads(text) for text in files.values())


def test_another_catalogue_in_the_way_is_replaced_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_catalogue(tree(tmp_path / "one"), out)
    before = texts(out)
    changed = tree(tmp_path / "two", base="steps: 5\n")
    with pytest.raises(LocalFilesError, match="exists and differs: move it away"):
        write_catalogue(changed, out)
    assert texts(out) == before
    assert write_catalogue(changed, out, force=True).changed
    assert maxtext.read(out / "9.1.0").base == {"steps": 5}
    assert names(out) == ["9.1.0"]


def test_what_is_no_catalogue_is_not_replaced_even_by_force(tmp_path: Path) -> None:
    mine = tmp_path / "out" / "9.1.0"
    mine.mkdir(parents=True)
    (mine / "notes.txt").write_text("mine")
    with pytest.raises(LocalFilesError, match="is no catalogue: move it away first"):
        write_catalogue(tree(tmp_path / "source"), tmp_path / "out", force=True)
    assert (mine / "notes.txt").read_text() == "mine"
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "9.1.0").symlink_to(mine)
    with pytest.raises(LocalFilesError, match="is no catalogue"):
        write_catalogue(tree(tmp_path / "source"), linked, force=True)
    assert (mine / "notes.txt").read_text() == "mine"


def test_a_failed_replacement_leaves_the_old_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    write_catalogue(tree(tmp_path / "one"), out)
    before = texts(out)
    replace = os.replace

    def failing(source: Path, target: Path) -> None:
        if source.name == "new":
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(LocalFilesError, match="No space left on device"):
        write_catalogue(tree(tmp_path / "two", base="steps: 5\n"), out, force=True)
    assert texts(out) == before
    assert names(out) == ["9.1.0"]


def test_a_folder_that_is_a_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way")
    with pytest.raises(LocalFilesError, match="cannot be written"):
        write_catalogue(tree(tmp_path / "source"), tmp_path / "out")


@pytest.mark.parametrize(
    "release", ["", "..", "../x", "1/2", "latest", "1 2", "1.", "1\n", "1" * 65, ".1", "1..2"]
)
def test_a_release_that_is_no_number_is_refused_before_anything_is_read(
    tmp_path: Path, release: str
) -> None:
    source = tree(tmp_path / "source", version=f"__version__ = {release!r}\n")
    with pytest.raises(ValueUsageError, match="MaxText release cannot be"):
        write_catalogue(tmp_path / "none", tmp_path / "out", release)
    with pytest.raises(ValueUsageError, match="MaxText release cannot be"):
        write_catalogue(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_source_that_is_no_maxtext_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"holds no maxtext/configs/types\.py"):
        write_catalogue(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_shipped_catalogue_is_what_a_real_maxtext_gives_today(tmp_path: Path) -> None:
    summary = write_catalogue(real(), tmp_path)
    assert summary.release in maxtext.releases()
    shipped = fact("maxtext", summary.release)
    assert sorted(item.name for item in shipped.iterdir()) == FILES
    for name in FILES:
        written = (summary.folder / name).read_bytes()
        assert shipped.joinpath(name).read_bytes() == written, name
