"""config.yml and the arguments: what MaxText reads is what the job says."""

from __future__ import annotations

import json
import subprocess

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.render.config import arguments, comment, config_yml, plain
from moectl.settings.files import preset, preset_names
from moectl.settings.yaml_source import read_mapping, read_scalar
from tests.support import components

NAMES = [name for name in preset_names() if preset(name).estimate_only is None]
HOSTILE = ["data.hf_path=${oc.env:HOME} 'x' \"y\" #: \\", "tokenizer_path=off", "hf_name=1e3"]


@pytest.mark.parametrize("name", NAMES)
def test_config_yml_holds_exactly_the_config_of_the_job(name: str) -> None:
    job = plan(name, Wishes())
    assert read_mapping(config_yml(job), "config.yml").data == plain(job.config)


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_read_back_as_the_values_of_the_job(name: str) -> None:
    job = plan(name, Wishes())
    read = {
        key: read_scalar(text, key) for key, _, text in (a.partition("=") for a in arguments(job))
    }
    assert read == plain(job.arguments)


def test_omegaconf_reads_the_config_back_and_expands_nothing() -> None:
    python = components.require("maxtext")
    job = plan("deepseek3-671b", Wishes(sets=HOSTILE))
    program = (
        "import json, sys\nfrom omegaconf import OmegaConf\n"
        "found = OmegaConf.create(sys.stdin.read())\n"
        "print(json.dumps(OmegaConf.to_container(found, resolve=True)))\n"
    )
    done = subprocess.run(
        [str(python), "-c", program],
        input=config_yml(job),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == plain(job.config)


def test_config_yml_says_where_values_come_from_and_which_keys_it_cannot_hold() -> None:
    sets = ["steps=3", "model.overrides.base_num_decoder_layers=6"]
    text = config_yml(plan("deepseek3-671b", Wishes(sets=sets)))
    assert "# --set\nsteps: 3\n" in text
    assert "command line" in text
    assert "base_num_decoder_layers" in text.split("\n\n")[0]


@pytest.mark.parametrize("text", ["a\nb: 1", "a\rb", "a\u2028b", "a\x85b", "a\0b"])
def test_a_comment_cannot_be_left(text: str) -> None:
    assert len(comment(text).splitlines()) == 1
    assert comment(text).isprintable()
