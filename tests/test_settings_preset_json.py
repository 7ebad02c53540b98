"""Presets as people write them, and the JSON that is read in their place."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from moectl.errors import SourceError
from moectl.resources import fact, shipped
from moectl.settings import preset_json
from moectl.settings.preset_json import FOLDER, compiled, data
from moectl.settings.yaml_source import read_mapping

NAMES = sorted(entry.name.removesuffix(".yaml") for entry in shipped(FOLDER).iterdir())
NAME = NAMES[0]


def text_of(name: str) -> str:
    return shipped(FOLDER).joinpath(f"{name}.yaml").read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_what_people_wrote(name: str) -> None:
    held = fact(FOLDER, f"{name}.json").read_text("utf-8")
    assert held == compiled(name, text_of(name)), "python -m moectl.settings.preset_json"
    assert data(name) == read_mapping(text_of(name), name).data


def test_nothing_is_left_of_presets_that_are_gone() -> None:
    left = {entry.name for entry in fact(FOLDER).iterdir()}
    assert left == {f"{name}.json" for name in NAMES}


def edited(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    folder.joinpath(f"{NAME}.yaml").write_text(text, "utf-8")
    monkeypatch.setattr(preset_json, "shipped", lambda _: folder)


def test_a_preset_that_somebody_edited_is_read_from_its_own_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited(monkeypatch, tmp_path, text_of(NAME) + "hostile: '$(touch x)'\n")
    assert data(NAME)["hostile"] == "$(touch x)"


def test_an_edited_preset_that_is_no_yaml_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited(monkeypatch, tmp_path, "name: [\n")
    with pytest.raises(SourceError, match=f"presets/{NAME}.yaml"):
        data(NAME)


def test_a_preset_without_json_is_read_from_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preset_json, "fact", tmp_path.joinpath)
    assert data(NAME) == json.loads(compiled(NAME, text_of(NAME)))["data"]


def test_a_shipped_preset_needs_no_yaml_reader() -> None:
    import subprocess  # noqa: PLC0415

    program = (
        "import sys; from moectl.settings.files import preset; "
        f"assert preset({NAME!r}).run; print('yaml' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
