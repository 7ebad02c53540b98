"""The fact files that people edit, and the JSON that is read in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

import moectl.facts.yaml_facts as module
from moectl.facts.yaml_facts import COMPILED, compiled, compiled_name, read

DATA = Path(module.__file__).parent / "data"
FILES = sorted(path.name for path in DATA.glob("*.yaml"))


@pytest.mark.parametrize("name", FILES)
def test_what_is_read_is_what_people_wrote(name: str) -> None:
    text = (DATA / COMPILED / compiled_name(name)).read_text("utf-8")
    assert text == compiled((DATA / name).read_text("utf-8")), "python -m moectl.facts.yaml_facts"
    assert read(name)


def test_nothing_is_left_of_files_that_are_gone() -> None:
    left = {path.name for path in (DATA / COMPILED).iterdir()}
    assert left == {compiled_name(name) for name in FILES}
