"""Rules on profiling and memory settings that fight each other."""

from __future__ import annotations

import pytest

from moectl.actions.plan import Wishes, plan
from moectl.findings import Finding

PRESET = "deepseek3-671b"


def found(sets: list[str], code: str) -> list[Finding]:
    return [f for f in plan(PRESET, Wishes(sets=sets)).findings if f.code == code]


@pytest.mark.parametrize(("skip", "refused"), [(0, 1), (3, 1), (4, 0), (9, 0)])
def test_a_trace_starts_after_pgle_has_recompiled(skip: int, refused: int) -> None:
    assert len(found([f"profile.skip_steps={skip}"], "PROF101")) == refused


def test_a_longer_pgle_window_moves_the_first_traced_step() -> None:
    sets = ["switches.pgle.runs=6"]
    refused = found(sets, "PROF101")
    assert refused[0].hint == "--set profile.skip_steps=7"
    assert found([*sets, "profile.skip_steps=7"], "PROF101") == []


def test_pgle_and_nsys_cannot_both_subscribe() -> None:
    assert found(["profile.profiler=nsys"], "XLA307")[0].stops
    assert found(["profile.profiler=nsys", "switches.pgle.enabled=false"], "XLA307") == []


@pytest.mark.parametrize("code", ["XLA308", "XLA306", "PROF101"])
def test_without_pgle_nothing_is_said_of_it(code: str) -> None:
    sets = ["switches.pgle.enabled=false", "profile.skip_steps=1"]
    assert found(sets, code) == []


def test_without_command_buffers_pgle_has_none_to_turn_off() -> None:
    assert len(found([], "XLA306")) == 1
    assert found(["switches.command_buffers=[]"], "XLA306") == []


@pytest.mark.parametrize(("factor", "warned"), [(95, 0), (96, 1)])
def test_a_slop_factor_that_leaves_no_margin_is_warned_of(factor: int, warned: int) -> None:
    sets = [f"xla_flags.xla_gpu_memory_limit_slop_factor={factor}"]
    assert len(found(sets, "XLA324")) == warned
