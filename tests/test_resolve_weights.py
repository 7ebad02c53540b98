"""Every weight can be cut over the mesh, or the render says which cannot."""

from __future__ import annotations

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.facts import maxtext
from moectl.job import Degree
from moectl.resolve.weights import RULES, WeightsError, mesh_sizes, narrowed

CATALOGUE = maxtext.load("0.2.5")


def test_an_axis_is_as_large_as_its_ici_and_dcn_degrees() -> None:
    sizes = mesh_sizes({"fsdp": Degree(8, 2), "expert": Degree(8)}, CATALOGUE)
    assert (sizes["fsdp"], sizes["expert"], sizes["data"]) == (16, 8, 1)


def test_weights_that_divide_need_no_rules() -> None:
    job = plan("deepseek3-671b", Wishes())
    assert narrowed(job.effective, job.mesh.degrees, CATALOGUE) is None
    assert RULES not in job.arguments


def test_a_weight_that_no_rule_helps_is_named_with_the_arithmetic() -> None:
    job = plan("deepseek3-671b", Wishes())
    degrees = {**job.mesh.degrees, "fsdp": Degree(12)}
    with pytest.raises(WeightsError, match="7168 along embed_moe, which fsdp 12 = 12 does not"):
        narrowed(job.effective, degrees, CATALOGUE)


def test_rules_of_a_person_and_models_without_a_table_are_left_alone() -> None:
    job = plan("deepseek3-671b", Wishes())
    degrees = {**job.mesh.degrees, "fsdp": Degree(12)}
    for changed in ({RULES: [["embed", ["fsdp"]]]}, {"model_name": "default"}):
        assert narrowed({**job.effective, **changed}, degrees, CATALOGUE) is None
