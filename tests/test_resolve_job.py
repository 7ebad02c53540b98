"""A job is complete: nothing open, every value with its origin."""

from __future__ import annotations

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.errors import SeveralUsageErrors, UnknownNameError, UsageError
from moectl.resolve.job import platform_of
from moectl.settings.files import preset, preset_names

NAMES = [name for name in preset_names() if preset(name).estimate_only is None]


@pytest.mark.parametrize("name", NAMES)
def test_every_value_of_a_job_has_an_origin(name: str) -> None:
    job = plan(name, Wishes())
    for values in (job.config, job.arguments, job.xla_flags, job.environment, job.settings):
        assert [key for key, value in values.items() if not value.origin.layer] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_degree_of_a_job_is_open(name: str) -> None:
    job = plan(name, Wishes())
    degrees = {k: v.value for k, v in job.config.items() if k.endswith("_parallelism")}
    assert degrees
    assert [key for key, value in degrees.items() if value < 1] == []


def test_the_platform_of_a_preset_is_used_until_somebody_names_one() -> None:
    assert platform_of([], preset("deepseek3-671b")).name == "gb200-nvl72"
    with pytest.raises(UsageError, match="add --hardware NAME, one of h100-hgx"):
        platform_of([], None)


def test_the_notes_say_the_slices_and_how_the_batch_changed() -> None:
    notes = plan("deepseek3-671b", Wishes(options={"gpus": (256, "--gpus")})).notes
    assert "4 slices of 64 GPUs (16 nodes)" in notes
    assert any("global batch 1536 sequences" in note and "768" in note for note in notes)


def test_faults_of_every_kind_are_collected() -> None:
    sets = ["xla_flags.nope=1", "environment.M_A=1", "model.name=nope"]
    with pytest.raises(SeveralUsageErrors) as refused:
        plan("deepseek3-671b", Wishes(sets=sets))
    assert len(refused.value.errors) == 3
    assert any(isinstance(error, UnknownNameError) for error in refused.value.errors)
