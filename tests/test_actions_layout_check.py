"""JAX's own layout beside moectl's."""

from __future__ import annotations

import builtins
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.__main__ import main
from moectl.actions.estimate import Answer, estimate
from moectl.actions.layout_check import checked, laid_out
from moectl.actions.plan import Wishes
from moectl.errors import LocalFilesError, UsageError
from moectl.estimate.layout import Layout
from moectl.facts import maxtext
from moectl.facts.weights import Leaf
from moectl.settings.files import preset, preset_names
from moectl.sharding import indivisible, partition

RELEASE = "0.2.5"
RUNNABLE = [name for name in preset_names() if preset(name).estimate_only is None]


def of(name: str, gpus: int | None = None) -> Answer:
    return estimate(name, Wishes(options={} if gpus is None else {"gpus": (gpus, "--gpus")}))


@pytest.mark.parametrize("name", RUNNABLE)
@pytest.mark.parametrize("gpus", [None, 512])
def test_jax_lays_out_every_weight_of_every_preset_alike(name: str, gpus: int | None) -> None:
    found = checked(of(name, gpus))
    assert found.differences == ()
    assert found.agrees
    assert found.weights > 10


def test_a_layout_that_is_wrong_is_found_weight_by_weight() -> None:
    answer = of("deepseek3-671b")
    layout = answer.assessment.prepared.layout
    assert layout is not None

    class Wrong(Layout):
        def rows(self, mesh: Mapping[str, int]) -> list[Any]:
            return [replace(row, shape=(1, *row.shape[1:])) for row in super().rows(mesh)]

    wrong = Wrong(layout.leaves, layout.rules)
    prepared = replace(answer.assessment.prepared, layout=wrong)
    found = checked(replace(answer, assessment=replace(answer.assessment, prepared=prepared)))
    assert not found.agrees
    assert len(found.differences) > 20
    assert "and 1" in found.text()
    assert found.as_dict()["agrees"] is False


def test_what_jax_refuses_is_a_difference() -> None:
    leaf = Leaf("w", ("embed", None), (255, 4))
    laid = laid_out([leaf], [("embed", ("fsdp",))], {"fsdp": 8})
    assert "should evenly divide" in laid.shapes[0][1] or "partitioned 8 times" in laid.shapes[0][1]


AXES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True)
RULES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.lists(st.sampled_from(["x", "y", "z"]), max_size=2, unique=True),
    ),
    max_size=6,
)


@given(AXES, RULES)
@settings(max_examples=100, deadline=None)
def test_jax_applies_any_rules_as_moectl_does(axes: list[str], rules: list[Any]) -> None:
    mesh = {"x": 2, "y": 3, "z": 1}
    leaf = Leaf("w", tuple(axes), (36,) * len(axes))
    ((shape, refusal),) = laid_out([leaf], rules, mesh).shapes
    assert refusal == ""
    assert indivisible([leaf], rules, mesh) == []
    spec = partition(leaf.axes, rules, mesh)
    sizes = {"x": 2, "y": 3}
    cut = [36] * len(axes)
    for index, targets in enumerate(spec):
        for target in targets:
            cut[index] //= sizes[target]
    assert shape == tuple(cut)


def test_a_model_without_a_table_has_nothing_to_compare() -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        checked(of("mimo-v2-flash-309b"))


def test_without_jax_it_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "jax":
            raise ImportError("No module named 'jax'")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    rules = maxtext.load(RELEASE).logical_axis_rules
    with pytest.raises(LocalFilesError, match="needs JAX"):
        laid_out([], rules, {"fsdp": 2})


def test_the_command_says_it_in_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "gpt-oss-20b", "--verify"]) == 0
    assert "lays out all 41 weights alike" in capsys.readouterr().out
    assert main(["estimate", "gpt-oss-20b", "--verify", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)["verification"]
    assert said["agrees"] is True
    assert said["bytes_per_device"]["moectl"] == said["bytes_per_device"]["jax"]
