"""Mappings become settings, and every fault in them is told in one pass."""

from __future__ import annotations

from typing import Any

import pytest

from moectl.errors import SeveralUsageErrors, UsageError
from moectl.settings.flatten import flatten, judge, place, raise_all
from moectl.settings.setting import Layer, Setting
from moectl.values import Origin

HERE = Origin("run file", "run.yaml", 3, 5)


def flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    settings = flatten(data, Layer.RUN_FILE, lambda _: HERE, prefix=prefix)
    return {setting.path: setting.value for setting in settings}


def test_every_leaf_becomes_a_setting_of_the_layer_with_its_origin() -> None:
    asked: list[tuple[str, ...]] = []

    def locate(keys: tuple[str, ...]) -> Origin:
        asked.append(keys)
        return HERE

    settings = flatten({"batch": {"per_device": 6}, "gpus": 8}, Layer.PRESET, locate)
    assert settings == [
        Setting("batch.per_device", 6, Layer.PRESET, HERE),
        Setting("gpus", 8, Layer.PRESET, HERE),
    ]
    assert asked == [("batch", "per_device"), ("gpus",)]


def test_entries_of_maps_are_leaves_even_when_they_are_mappings() -> None:
    data = {"maxtext": {"shardy": True, "logical": {"a": 1}}, "environment": {"A": "x"}}
    assert flat(data) == {
        "maxtext.shardy": True,
        "maxtext.logical": {"a": 1},
        "environment.A": "x",
    }


def test_a_cluster_profile_stands_under_its_section() -> None:
    assert flat({"partition": "batch"}, "cluster") == {"cluster.partition": "batch"}


def test_a_section_with_nothing_under_it_says_nothing() -> None:
    assert flat({"batch": None, "gpus": None}) == {"gpus": None}


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(SeveralUsageErrors) as refused:
        flat({"gpu": 1, "batch": {"per_device": "x"}, "debug": 1})
    assert len(refused.value.errors) == 3
    assert all(str(error).startswith("run.yaml:3:5: ") for error in refused.value.errors)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("gpu", 1, "unknown key 'gpu'; did you mean 'gpus'?"),
        ("batch.per_devic", 1, "unknown key 'per_devic' (in batch); did you mean 'per_device'"),
        ("batch", 1, "batch is a section; its keys stand under it"),
        ("steps", 1, "steps is no key of a run file; MaxText's steps is training.steps"),
        ("maxtext.steps", 1, "maxtext.steps belongs to training.steps; write it there"),
        ("model.overrides.steps", 1, "belongs to training.steps"),
        ("gpus", "x", "gpus cannot be 'x': input should be a valid integer"),
        ("name", "two words", "wanted is run name: letters"),
        ("environment.A", True, "environment.A cannot be True"),
    ],
)
def test_a_fault_says_place_path_and_what_is_legal(path: str, value: Any, said: str) -> None:
    fault = judge(path, value, HERE)
    assert fault is not None
    assert str(fault).startswith("run.yaml:3:5: ")
    assert said in str(fault)


@pytest.mark.parametrize(
    ("path", "value"),
    [("gpus", 8), ("secrets", ["HF_TOKEN"]), ("model.name", "x"), ("hardware", None)],
)
def test_what_is_legal_has_no_fault(path: str, value: Any) -> None:
    assert judge(path, value, HERE) is None


def test_one_fault_is_raised_as_itself_and_none_is_not_raised() -> None:
    raise_all([])
    with pytest.raises(UsageError, match=r"^one$") as refused:
        raise_all([UsageError("one")])
    assert not isinstance(refused.value, SeveralUsageErrors)


def test_a_place_is_the_file_or_else_the_layer() -> None:
    assert place(HERE) == "run.yaml:3:5"
    assert place(Origin("--set")) == "--set"
