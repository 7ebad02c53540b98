"""MaxText's own configs as bases of somebody's file."""

from __future__ import annotations

from typing import Any

import pytest

from moectl.facts import maxtext
from moectl.facts.own_configs import content
from moectl.facts.yaml_facts import read
from moectl.resolve.own_configs import on_own
from moectl.values import Origin, Value

CATALOGUE = maxtext.load("0.2.5")


def based(name: Any, **said: Any) -> dict[str, Value] | None:
    values = {"base_config": name, **said}
    config = {key: Value(value, Origin("a.yml")) for key, value in values.items()}
    return on_own(config, CATALOGUE)


@pytest.mark.parametrize("name", list(read("maxtext_configs.yaml")["configs"]))
def test_every_shipped_config_is_held_and_its_chain_ends(name: str) -> None:
    if name != "base.yml":
        assert content(name, CATALOGUE) is not None
    found = based(name)
    assert found is not None
    assert found["base_config"].value in {"base.yml", None}


def test_a_chain_is_followed_to_its_end_and_the_nearer_file_counts() -> None:
    found = based("post_train/distillation-sft.yml", steps=3)
    assert found is not None
    assert found["base_config"].value == "base.yml"
    assert found["steps"].value == 3
    below = content("post_train/distillation.yml", CATALOGUE)
    assert below is not None
    assert set(below) - {"base_config"} <= set(found)
    assert {value.origin.layer for value in found.values()} > {"a.yml"}


def test_a_model_file_is_a_base_as_well() -> None:
    found = based("models/mixtral-8x7b.yml", num_experts=4)
    assert found is not None
    assert found["num_experts"].value == 4
    assert found["base_emb_dim"].value == 4096
    assert found["base_config"].value is None


def test_mappings_of_a_base_are_merged() -> None:
    name, held = next(
        (config, held)
        for config in read("maxtext_configs.yaml")["configs"]
        if (held := content(config, CATALOGUE)) and any(isinstance(v, dict) for v in held.values())
    )
    key = next(key for key, value in held.items() if isinstance(value, dict))
    found = based(name, **{key: {"mine": 1}})
    assert found is not None
    assert found[key].value == {**held[key], "mine": 1}


@pytest.mark.parametrize(
    "name", ["nosuch.yml", "", None, 5, ["base.yml"], "/etc/passwd", "../base.yml", "models/x.yml"]
)
def test_what_is_no_file_of_maxtexts_is_told_apart(name: Any) -> None:
    assert based(name) is None


def test_a_file_without_a_base_stays_as_it_is() -> None:
    config = {"steps": Value(5, Origin("a.yml"))}
    assert on_own(config, CATALOGUE) == config
