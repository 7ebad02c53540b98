"""The skip policy: one clear line, or a failure where everything must be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl.errors import BackendError
from tests.support import components
from tests.support.components import Missing


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> str:
    """A component that no machine has."""

    def find() -> Path:
        raise BackendError("no working thing found\n  looked here\n  and there")

    monkeypatch.setitem(components.COMPONENTS, "absent", find)
    components._looked_for.cache_clear()
    return "absent"


def test_a_missing_component_skips_with_one_line(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(components.REQUIRED, raising=False)
    with pytest.raises(pytest.skip.Exception) as caught:
        components.require(absent)
    assert caught.value.msg == "needs absent: no working thing found"


def test_a_missing_component_fails_where_all_are_required(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(components.REQUIRED, "1")
    with pytest.raises(pytest.fail.Exception, match="needs absent: no working thing found"):
        components.require(absent)


def test_a_component_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def find() -> Path:
        asked.append(1)
        raise Missing("not here")

    monkeypatch.setitem(components.COMPONENTS, "counted", find)
    for _ in range(3):
        with pytest.raises(Missing, match="not here"):
            components.found("counted")
    assert asked == [1]


def test_a_present_component_gives_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(components.COMPONENTS, "present", lambda: Path("/bin/sh"))
    assert components.require("present") == Path("/bin/sh")


def test_a_misspelt_component_is_an_error_and_no_skip() -> None:
    with pytest.raises(KeyError):
        components.require("maxtxet")
