"""The pydantic models of the spec: strict, closed, and complete."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from moectl.spec import base, cluster, preset, run, training

MODULES = (cluster, preset, run, training)
MODELS = sorted(
    {
        model
        for module in MODULES
        for model in vars(module).values()
        if isinstance(model, type) and issubclass(model, BaseModel) and model is not base.SpecModel
    },
    key=lambda model: model.__name__,
)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_closed_frozen_and_described(model: type[BaseModel]) -> None:
    assert model.model_config.get("extra") == "forbid"
    assert model.model_config.get("frozen") is True
    assert model.__doc__
    assert [name for name, info in model.model_fields.items() if not info.description] == []


@pytest.mark.parametrize(
    "data",
    [
        {"gpu": 128},
        {"gpus": "128"},
        {"gpus": 0},
        {"batch": {"per_device": "6"}},
        {"batch": {"per_device": 0}},
        {"batch": {"global_": 768}},
        {"model": {"name": 3}},
        {"precision": {"dtype": "fp8"}},
        {"remat": {"tensors": {"out_proj": "disk"}}},
        {"container": {"digest": "sha256:abc"}},
        {"container": {"maxtext": {"commit": "abc"}}},
        {"cluster": {"time": "soon"}},
        {"cluster": {"memory": "lots"}},
        {"accept": [{"code": "TE101"}]},
        {"lock": {}},
        {"moectl": 2},
        {"name": "two words"},
        {"launcher": "pbs"},
    ],
)
def test_what_cannot_be_meant_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        run.RunSpec.model_validate(data, strict=True)


@pytest.mark.parametrize(
    "time", ["30", "04:00", "04:00:00", "1-12", "1-12:30", "1-12:30:15", "100:00:00"]
)
def test_every_form_of_a_slurm_time_is_taken(time: str) -> None:
    assert cluster.ClusterSpec.model_validate({"time": time}).time == time


def test_an_empty_run_is_all_defaults() -> None:
    spec = run.RunSpec.model_validate({}, strict=True)
    assert spec.form == "benchmark"
    assert spec.gpus is None
    assert spec.switches.pgle.runs == 3
    assert spec.cluster.segment is True
