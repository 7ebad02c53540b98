"""What CPU devices cannot run is said and replaced, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from moectl.actions.render import plan_job
from moectl.facts import maxtext
from moectl.facts.yaml_facts import read
from moectl.settings.files import preset, preset_names
from moectl.settings.options import owning_path
from moectl.shrink.cpu import adapted, holds, stand_ins
from moectl.spec.table import table

ROWS = read("local.yaml")["cpu"]
LOCAL = ("launcher=local", "cluster.devices=cpu")
PRESETS = [name for name in preset_names() if preset(name).estimate_only is None]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["lost"])[:40])
def test_a_row_names_settings_that_there_are_and_its_source(row: dict[str, Any]) -> None:
    assert row["source"]
    for path, value in row["set"].items():
        head, _, key = path.partition(".")
        if head == "maxtext":
            assert owning_path(key, maxtext.load("0.2.5")) == path
        else:
            field = table().field(path)
            assert field is not None
            assert field.accepts(value)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_freed_of_what_the_cpu_lacks(name: str) -> None:
    """What stands in needs nothing more to stand in for it."""
    job = plan_job(name)
    found = stand_ins(job)
    assert any("XLA flag" in each.lost or "attention" in each.lost for each in found)
    again = stand_ins(plan_job(name, sets=LOCAL))
    assert [each.lost for each in again if each.sets] == []


def test_deepseek_loses_the_moe_block_and_keeps_its_router() -> None:
    job = plan_job("deepseek3-671b", sets=LOCAL)
    said = job.effective
    assert (said["te_moe_block"], said["sparse_matmul"]) == (False, False)
    assert said["capacity_factor"] == -1.0
    assert said["moe_mlpwi_0"] == "device"
    assert said["quantization"] == ""
    assert (said["routed_score_func"], said["num_experts"]) == ("sigmoid", 256)
    notes = " ".join(job.notes)
    for word in ("MoEBlock", "all-to-all", "attention kernel", "quantized", "moe_mlpwi_0"):
        assert word in notes
    assert "profile-guided" in notes


def test_what_is_replaced_wins_over_what_a_person_said() -> None:
    job = plan_job("mixtral-8x7b", sets=(*LOCAL, "attention=cudnn_flash_te"))
    assert job.effective["attention"] == "dot_product"
    assert str(job.config["attention"].origin) == "CPU devices in place of GPUs"
    assert {setting.path for setting in adapted(())} >= {"cluster.devices", "cluster.runtime"}


@pytest.mark.parametrize(
    ("when", "value", "fits"),
    [
        ({"a": ["true"]}, True, True), ({"a": ["true"]}, False, False), ({"a": ">1"}, 2, True),
        ({"a": ">1"}, 1, False), ({"a": ">1"}, "2", False), ({"a": ["cudnn_*"]}, "cudnn_x", True),
        ({"a": ["?*"]}, "", False), ({"a": ["?*"]}, "te", True), ({"a": ["?*"]}, None, False),
        ({"b": ["true"]}, True, False), ({"a": "<1"}, 0, True), ({"a": ">0"}, True, False),
    ],
)  # fmt: skip
def test_conditions(when: dict[str, Any], value: object, fits: bool) -> None:
    assert holds(when, {"a": value}) is fits
