"""Names the launch cannot share with anybody are refused, and none is forgotten."""

from __future__ import annotations

import re

import pytest

from moectl.__main__ import main
from moectl.facts.yaml_facts import read
from moectl.resources import shipped

ASSIGNED = re.compile(
    r"^\s*(?:export\s+|for\s+|read -r\s+)?([A-Za-z_]+)(?==|\s+in\s)", re.MULTILINE
)


def test_every_variable_the_scripts_use_is_reserved() -> None:
    facts = read("launch.yaml")
    known = {*facts["script_names"], *facts["reserved"]}
    prefixes = tuple(facts["foreign_prefixes"])
    used = {
        name
        for script in ("launch.sbatch.j2", "rank.sh.j2")
        for name in ASSIGNED.findall(shipped("templates").joinpath(script).read_text("utf-8"))
    }
    theirs = {"PYTHONPATH", "PYTHONUNBUFFERED", "NCCL_DEBUG_FILE"}  # kept or added to, not taken
    assert {"lock", "logs", "XLA_FLAGS"} <= used
    assert {n for n in used - theirs if n not in known and not n.startswith(prefixes)} == set()


@pytest.mark.parametrize("name", ["lock", "logs", "PATH", "SLURM_PROCID", "IFS", "BASH_ENV", "UID"])
def test_a_variable_that_would_break_the_script_is_refused(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for said in (f"environment.{name}=/x", f"secrets=[{name}]"):
        assert main(["render", "deepseek3-671b", "--stdout", "env", "--set", said]) == 2
        assert name in capsys.readouterr().err
