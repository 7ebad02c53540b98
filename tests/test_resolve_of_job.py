"""A job as a workload: the same rules judge a render and a foreign file."""

from __future__ import annotations

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.resolve.of_job import workload_of
from moectl.settings.files import preset, preset_names

NAMES = [name for name in preset_names() if not preset(name).estimate_only]


@pytest.mark.parametrize("name", NAMES)
def test_the_values_of_a_job_are_those_maxtext_ends_up_with(name: str) -> None:
    job = plan(name, Wishes())
    made = workload_of(job)
    for key, value in job.effective.items():
        if key in {"logical_axis_rules", "base_output_directory", "override_model_config"}:
            continue
        assert made.effective[key] == value, key
    assert made.derived["num_slices"] == job.mesh.slices
    assert made.derived["devices_per_slice"] == job.mesh.gpus_per_slice
    assert made.derived["global_batch_size_to_train_on"] == job.batch.global_batch
    for axis, key in (("fsdp", "fsdp"), ("expert", "expert")):
        assert made.derived["axis_sizes"][axis] == job.mesh.total(key)


def test_layout_flags_and_variables_come_along() -> None:
    job = plan("deepseek3-671b", Wishes(sets=["environment.MY_NAME=x"]))
    made = workload_of(job)
    assert made.kind == "run file"
    assert made.devices == job.gpus
    assert made.layout.processes is not None
    assert made.layout.processes.value == job.gpus
    assert made.flags is not None
    assert all(f"--{flag}" in made.flags.text for flag in job.xla_flags)
    assert made.variable("MY_NAME") == "x"
    assert made.where("per_device_batch_size") == job.config["per_device_batch_size"].origin
