"""Named switches become flags, variables and remat keys, at their own force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.errors import UsageError
from moectl.facts import xla
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.resolve.switches import expand
from moectl.settings.setting import Layer, Setting
from moectl.spec.table import table
from moectl.values import Origin

PRESET = "mixtral-8x7b"
BUFFERS = "xla_flags.xla_gpu_enable_command_buffer"


def job(*sets: str, preset: str = PRESET) -> Job:
    return plan(preset, Wishes(sets=sets))


def run(folder: Path, text: str) -> str:
    (folder / "run.yaml").write_text(f"preset: {PRESET}\n{text}\n")
    return str(folder / "run.yaml")


def test_every_switch_of_the_spec_has_its_effects_and_the_reverse() -> None:
    named = {path.split(".")[1] for path in table().fields if path.startswith("switches.")}
    assert named == set(read("switches.yaml")["switches"])


def test_latency_hiding_is_a_flag() -> None:
    flag = "xla_gpu_enable_latency_hiding_scheduler"
    assert job("switches.latency_hiding=false").xla_flags[flag].value is False
    assert job().xla_flags[flag].value is True


@pytest.mark.parametrize(("count", "several"), [(1, False), (4, True)])
def test_multi_stream_collectives_are_two_flags(count: int, several: bool) -> None:
    flags = job(f"switches.multi_stream_collectives={count}").xla_flags
    assert flags["xla_gpu_experimental_enable_collective_multi_streaming"].value is several
    assert flags["xla_gpu_experimental_parallel_collective_overlap_limit"].value == count


def test_offloaded_activations_are_remat_keys_under_the_custom_policy() -> None:
    config = job("switches.offload_activations=[query_proj, out_proj]").config
    assert config["remat_policy"].value == "custom"
    assert (config["query_proj"].value, config["out_proj"].value) == ("offload", "offload")


def test_pgle_is_three_variables_and_off_is_none() -> None:
    said = job("switches.pgle.enabled=true", "switches.pgle.runs=5").environment
    assert said["JAX_ENABLE_PGLE"].value == "true"
    assert said["JAX_PGLE_PROFILING_RUNS"].value == "5"
    off = job("switches.pgle.enabled=false", preset="deepseek3-671b").environment
    assert "JAX_ENABLE_PGLE" not in off


@pytest.mark.parametrize(("text", "value"), [("[FUSION, CUBLAS]", "FUSION,CUBLAS"), ("[]", "")])
def test_command_buffers_are_one_flag(text: str, value: str) -> None:
    flags = job(f"switches.command_buffers={text}").xla_flags
    assert flags["xla_gpu_enable_command_buffer"].value == value
    assert "switch command_buffers" in str(flags["xla_gpu_enable_command_buffer"].origin)


def test_a_release_without_the_flag_refuses_the_switch_and_names_those_that_have_it() -> None:
    with pytest.raises(UsageError, match=r"which jaxlib 0\.8\.3 does not have \(known to: 0\.1"):
        job("switches.multi_stream_collectives=2", "container.jaxlib_release=0.8.3")


def test_a_flag_that_contradicts_its_switch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="say one of them"):
        job("switches.command_buffers=[FUSION]", f"{BUFFERS}=CUBLAS")


def test_a_stronger_flag_wins_over_a_weaker_switch(tmp_path: Path) -> None:
    path = run(tmp_path, "switches: {command_buffers: [FUSION]}")
    found = plan(path, Wishes(sets=[f"{BUFFERS}=CUBLAS"]))
    assert found.xla_flags["xla_gpu_enable_command_buffer"].value == "CUBLAS"


def test_a_stronger_switch_wins_over_a_weaker_flag(tmp_path: Path) -> None:
    path = run(tmp_path, "xla_flags: {xla_gpu_enable_command_buffer: CUBLAS}")
    found = plan(path, Wishes(sets=["switches.command_buffers=[FUSION]"]))
    value = found.xla_flags["xla_gpu_enable_command_buffer"]
    assert value.value == "FUSION"
    assert "CUBLAS" in [weaker for weaker, _ in value.overrode]


def test_a_stronger_list_replaces_the_weaker_one(tmp_path: Path) -> None:
    path = run(tmp_path, "switches: {offload_activations: [query_proj]}")
    found = plan(path, Wishes(sets=["switches.offload_activations=[key_proj]"]))
    assert found.config["key_proj"].value == "offload"
    assert found.effective["query_proj"] != "offload"


def test_a_switch_that_is_taken_back_has_no_effect(tmp_path: Path) -> None:
    path = run(tmp_path, "switches: {command_buffers: [FUSION]}")
    found = plan(path, Wishes(sets=["switches.command_buffers=null"]))
    assert "xla_gpu_enable_command_buffer" not in found.xla_flags


@pytest.mark.parametrize("value", [None, {"enabled": False}])
def test_a_switch_that_is_off_adds_nothing(value: Any) -> None:
    said = [Setting("switches.command_buffers", None, Layer.PRESET, Origin("p"))]
    assert expand(said, xla.load("0.12.0.1")) == said
    assert value is None or not value["enabled"]
