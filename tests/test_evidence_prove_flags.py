"""A job's XLA flags on the way to the compiler, judged by a real jaxlib."""

from __future__ import annotations

from pathlib import Path

import pytest

from moectl.evidence.prove_flags import Flag, read_back, sort_flags
from moectl.facts.yaml_facts import read
from tests.support import components

FACTS = read("prove.yaml")
OWN = [row["flag"] for row in FACTS["own_flags"]]
ADDED = " ".join(f"--{name}=false" for name in OWN)


@pytest.fixture(scope="module")
def python() -> Path:
    return components.require("jaxlib-0.12.0.1")


def outcomes(flags: list[Flag]) -> dict[str, str]:
    return {flag.name: flag.outcome for flag in flags}


def test_good_flags_go_on_and_ours_stands_last(python: Path) -> None:
    text, flags = sort_flags("--xla_gpu_autotune_level=0", python, FACTS)
    assert text == f"--xla_gpu_autotune_level=0 {ADDED}"
    assert outcomes(flags) == {"xla_gpu_autotune_level": "taken", **dict.fromkeys(OWN, "added")}


def test_a_refused_flag_is_left_out_with_the_parser_s_words(python: Path) -> None:
    said = "--xla_gpu_bogus=1 --xla_gpu_autotune_level=4 --xla_gpu_enable_command_buffer=NOPE"
    text, flags = sort_flags(said, python, FACTS)
    assert text == f"--xla_gpu_autotune_level=4 {ADDED}"
    assert outcomes(flags) == {
        "xla_gpu_bogus": "refused",
        "xla_gpu_autotune_level": "taken",
        "xla_gpu_enable_command_buffer": "refused",
        **dict.fromkeys(OWN, "added"),
    }
    assert flags[0].why == "jaxlib 0.12.0.1 does not know --xla_gpu_bogus"


def test_a_flag_that_would_disturb_the_proof_is_withheld(python: Path) -> None:
    text, flags = sort_flags("--xla_dump_to=/x", python, FACTS)
    assert "dump" not in text
    assert [(flag.outcome, bool(flag.why)) for flag in flags] == [
        ("withheld", True),
        *(("added", True) for _ in OWN),
    ]


def test_what_the_compiler_held_is_read_back() -> None:
    flags = [
        Flag("xla_a", "true", "taken"),
        Flag("xla_b", "5", "taken"),
        Flag("xla_c", "true", "taken"),
        Flag("xla_d", "1", "refused", why="no"),
        Flag("xla_e", "true", "taken"),
        Flag("xla_e", "false", "added"),
    ]
    held = {"xla_a": True, "xla_b": 4, "xla_z": False, "xla_d": 2, "xla_e": False}
    found = read_back(flags, held, {"xla_c": "xla_z"})
    assert [(flag.outcome, flag.held) for flag in found] == [
        ("taken", "true"),
        ("changed", "4"),
        ("taken", "false"),
        ("refused", ""),
        ("taken", "false"),
        ("added", "false"),
    ]
