"""What MaxText is told, and where: config.yml, or the command line where a file would lose."""

from __future__ import annotations

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.errors import UsageError
from moectl.facts import maxtext

PRESET = "deepseek3-671b"
MODEL = maxtext.load("0.2.5").model(PRESET)


def test_a_key_the_model_file_sets_goes_on_the_command_line() -> None:
    job = plan(PRESET, Wishes(sets=["model.overrides.base_num_decoder_layers=6"]))
    assert "base_num_decoder_layers" not in job.config
    value = job.arguments["base_num_decoder_layers"]
    assert value.value == 6
    assert value.overrode[-1][0] == (MODEL or {})["base_num_decoder_layers"]
    assert job.arguments["override_model_config"].value is True
    assert job.effective["base_num_decoder_layers"] == 6


def test_an_override_that_says_the_same_is_not_said() -> None:
    job = plan(PRESET, Wishes(sets=["model.overrides.num_experts=256"]))
    assert "override_model_config" not in job.arguments


def test_no_key_of_config_yml_is_lost_to_the_model_file() -> None:
    job = plan(PRESET, Wishes())
    lost = {k for k in job.config if k in (MODEL or {}) and job.config[k].value != (MODEL or {})[k]}
    assert lost == set()


def test_config_and_command_line_say_no_key_twice() -> None:
    job = plan("glm-5-744b", Wishes())
    assert job.config.keys() & job.arguments.keys() == set()
    assert all(job.effective[k] == v.value for k, v in job.config.items() if k != "base_config")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("maxtext.nope=1", "unknown (key|MaxText key) "),
        ("maxtext.run_name=x", "run_name is decided by name"),
        ("maxtext.ici_fsdp_parallelism=2", "belongs to parallelism.ici.fsdp"),
        ("model.name=gpt9", "unknown model of MaxText 0.2.5 'gpt9'"),
        ("num_experts=0", "num_experts cannot be 0"),
    ],
)
def test_what_maxtext_does_not_take_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plan(PRESET, Wishes(sets=[text]))


def test_a_key_an_older_release_lacks_is_refused_for_it() -> None:
    with pytest.raises(UsageError, match=r"moe\.te_block sets te_moe_block, which MaxText 0\.2\.4"):
        plan(PRESET, Wishes(sets=["container.maxtext_release=0.2.4"]))
