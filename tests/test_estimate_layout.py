"""Weights prepared for many meshes are what they are one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.estimate.layout import Layout, axis_rules, layout_of
from moectl.facts import maxtext, weights
from moectl.sharding import indivisible, parameter_bytes
from moectl.workload import UNKNOWN

RELEASE = "0.2.5"
TABLE = weights.load(RELEASE)
RULES = maxtext.load(RELEASE).logical_axis_rules
MESHES = st.fixed_dictionaries({
    "data": st.sampled_from([1, 2, 3]),
    "fsdp": st.sampled_from([1, 2, 3, 8, 16, 64, 100]),
    "expert": st.sampled_from([1, 2, 5, 8]),
    "tensor": st.sampled_from([1, 2, 7]),
    "context": st.sampled_from([1, 2]),
})  # fmt: skip
OVERRIDES = st.sampled_from([[], [["embed", ["fsdp"]]], [["kv_lora", []], ["q_lora", ["fsdp"]]]])


def values(name: str, **changes: Any) -> dict[str, Any]:
    file = maxtext.load(RELEASE).model(name)
    assert file is not None
    return {**maxtext.load(RELEASE).base, **file, "model_name": name, **changes}


def made(name: str, **changes: Any) -> Layout:
    found = layout_of(values(name, **changes), RELEASE)
    assert found is not None
    return found


@given(st.sampled_from(TABLE.models), MESHES, OVERRIDES, st.sampled_from(["bfloat16", "float32"]))
@settings(max_examples=150, deadline=None)
def test_bytes_and_divisibility_are_those_of_each_weight_by_itself(
    name: str, mesh: dict[str, int], overrides: list[Any], dtype: str
) -> None:
    found = made(name, logical_axis_rules=overrides) if overrides else made(name)
    rules = axis_rules({"logical_axis_rules": overrides}, RELEASE)
    leaves = TABLE.leaves(name, values(name))
    assert leaves is not None
    held = found.held(mesh)
    assert held.parameters(dtype) == parameter_bytes(leaves, rules, mesh, dtype)
    trained = [leaf for leaf in leaves if leaf.trained]
    assert held.second_moment(dtype) == parameter_bytes(trained, rules, mesh, dtype)
    assert found.divides(mesh) == (indivisible(leaves, rules, mesh) == [])
    assert sum(row.elements for row in found.rows(mesh)) >= found.parameters() / (
        mesh["fsdp"] * mesh["expert"] * mesh["tensor"] * mesh["context"]
    )


def test_the_first_moment_is_cast_and_the_second_keeps_a_weights_own_dtype() -> None:
    """GLM-5's indexer has float32 weights; asked of MaxText 0.2.5's own optimizer state."""
    held = made("deepseek3.2-671b").held({"fsdp": 16, "expert": 8})
    assert held.fixed > 0
    assert held.first_moment("bfloat16") == 2 * held.changed
    assert held.second_moment("bfloat16") - held.first_moment("bfloat16") == (
        held.trained_fixed - 2 * (held.changed - held.trained)
    )


def test_a_model_that_is_asked_for_again_is_prepared_once() -> None:
    assert made("deepseek3-671b") is made("deepseek3-671b")
    assert made("deepseek3-671b") is not made("deepseek3-671b", base_emb_dim=6144)
    other = made("deepseek3-671b", logical_axis_rules=[["embed", []]])
    assert other is not made("deepseek3-671b")


def test_deepseek_v3_activates_37_of_671_billion_parameters() -> None:
    found = made("deepseek3-671b")
    assert round(found.parameters() / 1e9) == 671
    assert round(found.active(256, 8) / 1e9) == 37


def test_narrowed_rules_make_a_mesh_divide() -> None:
    mesh = {"fsdp": 128, "expert": 8}
    found = made("deepseek3-671b")
    assert not found.divides(mesh)
    narrowed = found.narrowed(mesh)
    assert narrowed.divides(mesh)
    assert found.narrowed(mesh | {"context": 1}) is narrowed
    assert found.narrowed({"fsdp": 256, "expert": 8}) is not narrowed
    assert found.narrowed({"fsdp": 16, "expert": 8}) is found


@pytest.mark.parametrize(
    "changes",
    [
        {"model_name": "nobody's-model"},
        {"model_name": UNKNOWN},
        {"scan_layers": False},
        {"logical_axis_rules": UNKNOWN},
    ],
    ids=str,
)
def test_what_the_tables_cannot_tell_has_no_layout(changes: dict[str, Any]) -> None:
    assert layout_of({**values("deepseek3-671b"), **changes}, RELEASE) is None
    assert layout_of(values("deepseek3-671b"), "0.2.4") is None


def test_rules_that_cannot_be_keys_are_followed_all_the_same() -> None:
    odd = values("deepseek3-671b", logical_axis_rules=[["embed", [{"fsdp": 1}]]])
    assert layout_of(odd, RELEASE) is not None
