"""The order of force: the stronger layer wins, and what it overrode is remembered."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.resolve.merge import merge
from moectl.settings.setting import Layer, Setting
from moectl.spec.table import table
from moectl.values import Origin

LAYERS = list(Layer)


def setting(layer: Layer, path: str = "training.steps") -> Setting:
    return Setting(path, int(layer), layer, Origin(layer.name))


def test_the_layers_stand_in_the_order_of_force() -> None:
    assert [layer.name for layer in sorted(Layer)] == [
        "DEFAULT", "HARDWARE", "PRESET", "PRESET_FORM", "PRESET_HARDWARE", "SCALING", "CLUSTER",
        "RUN_FILE", "OPTION",
    ]  # fmt: skip


@pytest.mark.parametrize(("weak", "strong"), list(pairwise(LAYERS)))
def test_each_layer_wins_over_the_weaker_one_in_either_order(weak: Layer, strong: Layer) -> None:
    for said in ([setting(weak), setting(strong)], [setting(strong), setting(weak)]):
        value = merge(said).values["training.steps"]
        assert value.value == int(strong)
        assert value.overrode == ((int(weak), Origin(weak.name)),)


@given(st.lists(st.sampled_from(LAYERS), unique=True, min_size=1), st.randoms())
def test_everything_weaker_is_remembered_strongest_first(layers: list[Layer], by: Random) -> None:
    said = [setting(layer) for layer in layers]
    by.shuffle(said)
    value = merge(said).values["training.steps"]
    told = [value.value, *(weaker for weaker, _ in value.overrode)]
    assert told == sorted(map(int, layers), reverse=True)


def test_among_equals_the_later_one_wins() -> None:
    said = [Setting("name", word, Layer.OPTION, Origin("--set")) for word in ("a", "b")]
    assert merge(said).get("name") == "b"


def test_a_null_that_was_said_wins_too() -> None:
    said = [
        Setting("gpus", 8, Layer.PRESET, Origin("preset")),
        Setting("gpus", None, Layer.OPTION, Origin("--set")),
    ]
    assert merge(said).get("gpus") is None


def test_what_nobody_said_is_the_default_of_the_field() -> None:
    effective = merge([])
    assert effective.get("batch.sequence_length") == 4096
    assert effective.get("nothing") is None
    assert str(effective.origin("gpus")) == "moectl default"
    assert [path for path in table().fields if effective.said_by_person(path)] == []


def test_only_a_run_file_and_an_option_are_a_person() -> None:
    persons = [
        layer for layer in LAYERS if merge([setting(layer)]).said_by_person("training.steps")
    ]
    assert persons == [Layer.RUN_FILE, Layer.OPTION]


def test_a_section_is_what_stands_under_it() -> None:
    effective = merge([setting(Layer.PRESET, "environment.A"), setting(Layer.PRESET, "name")])
    assert list(effective.section("environment")) == ["A"]
