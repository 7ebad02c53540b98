"""What MaxText ends up with: base.yml below YAML, model file and command line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.facts import maxtext
from moectl.resolve.coercion import coerce
from moectl.resolve.effective import (
    based_on,
    clashes,
    effective,
    lost,
    model_file,
    model_name,
    overrides_model,
)
from moectl.values import Origin, Value
from moectl.workload import UNKNOWN

CATALOGUE = maxtext.load("0.2.5")
BASE = {"base_config": "base.yml"}
RULES = "logical_axis_rules"


def said(values: dict[str, Any]) -> dict[str, Value]:
    return {
        key: Value(value, Origin("file", "a.yml", line, 1))
        for line, (key, value) in enumerate(values.items(), 1)
    }


def values(config: dict[str, Any], arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    return effective(said(config), said(arguments or {}), CATALOGUE)


def test_the_layers_stand_in_maxtexts_order() -> None:
    assert values(BASE)["num_experts"] == 1
    assert values({**BASE, "num_experts": 4})["num_experts"] == 4
    named = {**BASE, "num_experts": 4, "model_name": "mixtral-8x7b"}
    assert values(named)["num_experts"] == 8
    assert values(named, {"num_experts": 16})["num_experts"] == 16


def test_without_a_base_only_the_defaults_of_the_source_count() -> None:
    assert CATALOGUE.base["dataset_type"] != "x"
    differing = [
        key
        for key in CATALOGUE.base
        if (known := CATALOGUE.key(key)) and known.default != CATALOGUE.base[key]
    ]
    assert differing
    key = differing[0]
    assert values({})[key] != values(BASE)[key]
    assert set(values({})) == set(values(BASE)) == set(CATALOGUE.keys())


def test_a_base_of_maxtexts_own_whose_values_are_not_known_leaves_them_open() -> None:
    open_values = values({"base_config": "gpu/models/llama3_8b.yml", "steps": 5})
    assert open_values["steps"] == 5
    assert open_values["num_experts"] is UNKNOWN
    assert values({"base_config": UNKNOWN})["num_experts"] is UNKNOWN


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("base.yml", "base.yml"),
        ("maxtext/configs/base.yml", "base.yml"),
        (None, None),
        ("inference/inference.yml", UNKNOWN),
        ("${x}", UNKNOWN),
        (5, UNKNOWN),
    ],
)
def test_the_end_of_the_chain_is_told_apart(name: Any, base: Any) -> None:
    assert based_on(said({"base_config": name})) is base or base == based_on(
        said({"base_config": name})
    )
    assert based_on({}) is None


@pytest.mark.parametrize(
    ("key", "raw", "made"),
    [
        ("steps", "6", 6),
        ("steps", 15.0, 15),
        ("steps", True, 1),
        ("steps", "15.0", 15),
        ("steps", " 6 ", 6),
        ("steps", 15.5, UNKNOWN),
        ("steps", "abc", UNKNOWN),
        ("steps", None, UNKNOWN),
        ("steps", float("inf"), UNKNOWN),
        ("scan_layers", "off", False),
        ("scan_layers", "YES", True),
        ("scan_layers", 1.0, True),
        ("scan_layers", 2, UNKNOWN),
        ("scan_layers", "maybe", UNKNOWN),
        ("learning_rate", "1e-3", 0.001),
        ("learning_rate", 1, 1.0),
        ("learning_rate", [1], UNKNOWN),
        ("quantization", "none", None),
        ("quantization", "te_mxfp8", "te_mxfp8"),
        ("quantization", "bogus", UNKNOWN),
        ("remat_policy", False, UNKNOWN),
        ("run_name", "none", ""),
        ("hf_eval_files", "", None),
        ("compress_ratios", ["4", 0], [4, 0]),
        ("compress_ratios", "4", UNKNOWN),
        ("per_device_batch_size", 0.5, 0.5),
        ("per_device_batch_size", 2, 2),
        ("image_size_for_vit", [1, 2], [1, 2]),
        ("mesh_axes", ["data"], ["data"]),
        ("vllm_hf_overrides", {"a": 1}, {"a": 1}),
        ("lora", {"lora_rank": 4}, {"lora_rank": 4}),
    ],
)
def test_values_come_out_as_pydantic_makes_them(key: str, raw: Any, made: Any) -> None:
    known = CATALOGUE.key(key)
    assert known is not None
    result = coerce(known, raw)
    assert result is made or (result == made and type(result) is type(made))
    # What is refused is UNKNOWN, and nothing else is.
    assert (CATALOGUE.check(key, raw) is not None) is (made is UNKNOWN)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["steps", "scan_layers", "learning_rate", "run_name", "quantization"]),
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**40), 2**40),
        st.floats(-1e9, 1e9), st.text(max_size=8), st.just([1]),
    ),
)  # fmt: skip
def test_a_value_is_known_exactly_when_maxtext_takes_it(key: str, raw: Any) -> None:
    known = CATALOGUE.key(key)
    assert known is not None
    if isinstance(raw, str) and "${" in raw:
        return
    taken = coerce(known, raw) is not UNKNOWN
    if not any(known.bounds) and CATALOGUE.check(key, raw) is None:
        assert taken
    if not taken:
        assert CATALOGUE.check(key, raw) is not None


def test_unknown_passes_through_and_an_unknown_model_opens_what_models_set() -> None:
    assert values({**BASE, "steps": UNKNOWN})["steps"] is UNKNOWN
    found = values({**BASE, "model_name": UNKNOWN}, {"num_experts": 4})
    assert found["num_experts"] == 4
    assert found["base_emb_dim"] is UNKNOWN
    assert found["steps"] == CATALOGUE.base["steps"]


def test_an_interpolation_is_followed_where_it_is_plain() -> None:
    assert values({**BASE, "steps": "${learning_rate_schedule_steps}"})["steps"] == -1
    assert values({**BASE, "run_name": "x-${model_name}"})["run_name"] == "x-default"
    assert values({**BASE, "steps": "${oc.env:STEPS}"})["steps"] is UNKNOWN


def test_a_value_still_to_come_overrides_nothing() -> None:
    assert values({**BASE, "steps": "???"})["steps"] == CATALOGUE.base["steps"]


def test_an_empty_output_directory_becomes_maxtexts_own() -> None:
    assert values({**BASE, "base_output_directory": ""})["base_output_directory"]
    assert values({**BASE, "base_output_directory": "/o"})["base_output_directory"] == "/o"


def test_logical_axis_rules_of_the_command_line_replace_by_name() -> None:
    own = values(BASE)[RULES]
    merged = values(BASE, {RULES: [["exp", ["fsdp"]]]})[RULES]
    assert ["exp", ["fsdp"]] in merged
    assert [rule for rule in merged if rule[0] == "exp"] == [["exp", ["fsdp"]]]
    assert len(merged) == len(own)
    alone = {RULES: [["exp", ["fsdp"]]], "override_logical_axis_rules": True}
    assert values(BASE, alone)[RULES] == [["exp", ["fsdp"]]]
    assert values({**BASE, RULES: [["exp", "data"]]})[RULES] == [["exp", "data"]]
    assert values({**BASE, RULES: "bogus"})[RULES] is UNKNOWN


def test_lost_keys_are_those_of_the_model_file_and_say_whether_they_differ() -> None:
    config = said(
        {"model_name": "mixtral-8x7b", "num_experts": 4, "base_emb_dim": 4096, "steps": 5}
    )
    rows = {row.key: row for row in lost(config, {}, CATALOGUE)}
    assert {key: row.differs for key, row in rows.items()} == {
        "num_experts": True,
        "base_emb_dim": False,
    }
    assert rows["num_experts"].said.origin.line == 2
    assert rows["num_experts"].model == 8
    assert list(lost(config, said({"num_experts": 4, "base_emb_dim": 1}), CATALOGUE)) == []
    assert list(lost({**config, **said({"model_name": UNKNOWN})}, {}, CATALOGUE)) == []


def test_clashes_compare_raw_values_and_end_with_the_override() -> None:
    config = said({"model_name": "mixtral-8x7b"})
    assert [row.key for row in clashes(config, said({"num_experts": 4}), CATALOGUE)] == [
        "num_experts"
    ]
    assert list(clashes(config, said({"num_experts": 8}), CATALOGUE)) == []
    assert len(list(clashes(config, said({"num_experts": "8"}), CATALOGUE))) == 1
    override = said({"num_experts": 4, "override_model_config": True})
    assert list(clashes(config, override, CATALOGUE)) == []
    unknown = said({"num_experts": 4, "override_model_config": UNKNOWN})
    assert list(clashes(config, unknown, CATALOGUE)) == []


def test_the_text_false_overrides_the_model() -> None:
    assert overrides_model(said({"override_model_config": "false"}), {}) is True
    assert overrides_model(said({"override_model_config": False}), {}) is False
    assert overrides_model({}, {}) is False


@pytest.mark.parametrize("name", ["default", "nope", 5, None, ["a"]])
def test_a_name_without_a_file_sets_nothing(name: Any) -> None:
    assert model_file(said({"model_name": name}), {}, CATALOGUE) == {}


def test_an_instruct_model_reads_the_file_of_its_base() -> None:
    assert model_name(said({"model_name": "a"}), said({"model_name": "b"})) == "b"
    named = said({"model_name": "llama3.1-8b-Instruct"})
    assert model_file(named, {}, CATALOGUE)["base_emb_dim"] == 4096


def test_the_catalogue_is_not_changed_by_what_is_made_of_it() -> None:
    before = dict(CATALOGUE.base)
    values({**BASE, "steps": 3, "model_name": "mixtral-8x7b"})
    assert dict(CATALOGUE.base) == before
