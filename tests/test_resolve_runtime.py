"""Flags, variables, container and site of the processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.errors import UsageError
from moectl.facts.yaml_facts import read

PRESET = "deepseek3-671b"


def test_baked_flags_come_first_and_ours_win_over_them() -> None:
    flag = "xla_gpu_enable_latency_hiding_scheduler"
    job = plan(PRESET, Wishes(sets=[f"xla_flags.{flag}=false"]))
    assert next(iter(job.xla_flags)) == flag
    value = job.xla_flags[flag]
    assert value.value is False
    assert "baked into the image" in str(value.overrode[-1][1])


def test_a_cluster_profile_wins_over_a_preset_and_loses_to_a_person(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("environment: {CUDA_DEVICE_MAX_CONNECTIONS: 1}\n")
    value = plan(PRESET, Wishes(cluster=site)).environment["CUDA_DEVICE_MAX_CONNECTIONS"]
    assert value.value == "1"
    assert [weaker for weaker, _ in value.overrode] == ["16"]
    sets = ["environment.CUDA_DEVICE_MAX_CONNECTIONS=2"]
    ours = plan(PRESET, Wishes(cluster=site, sets=sets)).environment
    assert ours["CUDA_DEVICE_MAX_CONNECTIONS"].value == "2"


@pytest.mark.parametrize("name", [*read("launch.yaml")["reserved"], "M_STEPS"])
def test_a_variable_the_launch_decides_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} (is decided by|would override)"):
        plan(PRESET, Wishes(sets=[f"environment.{name}=1"]))


@pytest.mark.parametrize("name", ["1A", "A-B", "é", "A B"])
def test_a_name_that_no_shell_can_export_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a variable"):
        plan(PRESET, Wishes(sets=[f"environment.{name}=1"]))


def test_a_secret_is_a_name_only_and_no_variable_besides() -> None:
    assert plan(PRESET, Wishes(sets=["secrets=[B, A, B]"])).secrets == ("B", "A")
    with pytest.raises(UsageError, match="is a secret and a variable"):
        plan(PRESET, Wishes(sets=["secrets=[A]", "environment.A=1"]))


def test_an_unknown_flag_names_the_nearest_and_the_releases_that_have_it() -> None:
    with pytest.raises(
        UsageError, match=r"unknown XLA flag .*did you mean 'xla_gpu_autotune_level'"
    ):
        plan(PRESET, Wishes(sets=["xla_flags.xla_gpu_autotune_leve=1"]))


def test_cpus_are_the_cores_of_a_node_over_its_gpus_unless_said() -> None:
    assert plan(PRESET, Wishes()).cluster.cpus_per_task == 36
    assert plan(PRESET, Wishes(sets=["cluster.cpus_per_task=5"])).cluster.cpus_per_task == 5


def test_mounts_of_the_site_come_before_those_of_the_run(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text("mounts: [{source: /s, target: /s, read_only: true}]\n")
    sets = ["container.mounts=[{source: /r, target: /r}]"]
    mounts = plan(PRESET, Wishes(cluster=site, sets=sets)).container.mounts
    assert [(m.source, m.read_only) for m in mounts] == [("/s", True), ("/r", False)]
