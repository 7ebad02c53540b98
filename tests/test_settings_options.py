"""`--set` names a path of the run file or a MaxText key, and reads its value as MaxText does."""

from __future__ import annotations

from typing import Any

import pytest

from moectl.errors import UnknownNameError
from moectl.facts import maxtext
from moectl.settings.options import assignments, axis_path, option, owning_path
from moectl.settings.setting import Layer
from moectl.spec.table import table

CATALOGUE = maxtext.load("0.2.5")


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("steps=50", "training.steps", 50),
        ("training.steps=50", "training.steps", 50),
        ("learning_rate=3e-4", "optimizer.learning_rate", 3e-4),
        ("ici_fsdp_parallelism=8", "parallelism.ici.fsdp", 8),
        ("dcn_data_parallelism=-1", "parallelism.dcn.data", -1),
        ("moe_mlpwi_0=offload", "remat.tensors.moe_mlpwi_0", "offload"),
        ("shardy=off", "maxtext.shardy", False),
        ("environment.NCCL_DEBUG=INFO", "environment.NCCL_DEBUG", "INFO"),
        ("environment.A=1e3", "environment.A", "1e3"),
        ("name=1e3", "name", "1e3"),
        ("title=a=b", "title", "a=b"),
        ("title=", "title", ""),
        ("hf_name=null", "data.hf_name", None),
        ("secrets=[HF_TOKEN]", "secrets", ["HF_TOKEN"]),
        ("xla_flags.xla_gpu_autotune_level=0", "xla_flags.xla_gpu_autotune_level", 0),
        ("data.hf_path=${oc.env:HOME}", "data.hf_path", "${oc.env:HOME}"),
    ],
)
def test_an_assignment_becomes_the_setting_of_its_owner(text: str, path: str, value: Any) -> None:
    settings, faults = assignments([text], CATALOGUE)
    assert faults == []
    assert [(s.path, s.value, s.layer) for s in settings] == [(path, value, Layer.OPTION)]
    assert type(settings[0].value) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps", "--set wants key=value, not 'steps'"),
        ("=3", "--set wants key=value"),
        ("", "--set wants key=value"),
        ("stps=3", "did you mean 'steps'"),
        ("batch.per_devic=3", "batch.per_device"),
        ("steps=many", "input should be a valid integer"),
        ("batch=3", "batch is a section"),
        ("maxtext.steps=3", "belongs to training.steps"),
        ("steps=[1", "not YAML"),
        ("steps=!!int x", "is not a int"),
        ("gpus=*a", "not YAML"),
    ],
)
def test_what_cannot_be_meant_is_a_fault_of_one_line(text: str, said: str) -> None:
    settings, faults = assignments([text], CATALOGUE)
    assert settings == []
    assert [said in str(fault) for fault in faults] == [True]
    assert len(str(faults[0]).splitlines()) == 1


def test_all_assignments_are_judged_in_one_pass() -> None:
    settings, faults = assignments(["stps=3", "steps=5", "gpus=x"], CATALOGUE)
    assert [setting.value for setting in settings] == [5]
    assert len(faults) == 2


@pytest.mark.parametrize("key", sorted(CATALOGUE.keys()))
def test_every_maxtext_key_has_exactly_one_path(key: str) -> None:
    path = owning_path(key, CATALOGUE)
    assert table().field(path) is not None
    assert owning_path(path, CATALOGUE) == path


def test_an_unknown_key_is_near_a_path_or_a_maxtext_key() -> None:
    with pytest.raises(UnknownNameError, match="neither a run-file path nor a key of MaxText"):
        owning_path("nothing_like_it_at_all", CATALOGUE)


def test_only_degrees_of_the_release_are_axes() -> None:
    assert axis_path("ici_expert_parallelism", CATALOGUE) == "parallelism.ici.expert"
    assert axis_path("ici_nonsense_parallelism", CATALOGUE) is None
    assert axis_path("ici_parallelism", CATALOGUE) is None


def test_an_option_is_the_strongest_and_names_its_flag() -> None:
    said = option("gpus", 8, "--gpus")
    assert (said.layer, str(said.origin)) == (Layer.OPTION, "--gpus")
