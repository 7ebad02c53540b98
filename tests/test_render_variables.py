"""Variables and flags as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moectl.errors import ValueUsageError
from moectl.render import variables
from moectl.values import Origin
from tests.support import jobs


def test_flags_keep_their_order_and_name_who_said_them() -> None:
    tokens = variables.flag_tokens(jobs.deepseek())
    assert tokens[0] == ("--xla_gpu_enable_latency_hiding_scheduler=true", str(jobs.BAKED))
    assert tokens[-1] == ("--xla_gpu_memory_limit_slop_factor=99", str(jobs.PRESET))
    text = variables.xla_flags_text(jobs.deepseek())
    assert text == " ".join(token for token, _ in tokens)


def test_xla_flags_are_never_empty_because_maxtext_would_dump_hlo() -> None:
    bare = replace(jobs.deepseek(), xla_flags={})
    assert variables.xla_flags_text(bare) == "--xla_dump_to="


def test_a_flag_value_with_a_blank_is_refused() -> None:
    flags = jobs.said({"xla_dump_hlo_module_re": "a b"})
    with pytest.raises(ValueUsageError, match="blank"):
        variables.xla_flags_text(replace(jobs.deepseek(), xla_flags=flags))


def test_values_are_said_as_programs_read_them() -> None:
    said = variables.environment(jobs.deepseek())
    assert said["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.88"
    assert said["XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE"] == "false"
    assert said["CUDA_DEVICE_MAX_CONNECTIONS"] == "16"
    assert variables.value_text(None) == ""
    assert list(said)[-1] == "XLA_FLAGS"


@pytest.mark.parametrize(
    ("level", "under_debug"),
    [(None, "INFO"), ("WARN", "INFO"), ("warn", "INFO"), ("INFO", "INFO"), ("TRACE", "TRACE")],
)
def test_debug_makes_nccl_say_at_least_info(level: str | None, under_debug: str) -> None:
    said = {} if level is None else jobs.said({"NCCL_DEBUG": level}, Origin("run file"))
    job = replace(jobs.deepseek(), environment=said)
    assert variables.environment(job).get("NCCL_DEBUG") == level
    assert variables.environment(replace(job, debug=True))["NCCL_DEBUG"] == under_debug


def test_every_rendered_variable_is_named_for_the_container() -> None:
    job = replace(jobs.deepseek(), debug=True)
    names = variables.container_names(job)
    assert set(variables.environment(job)) <= set(names)
    assert {"XLA_FLAGS", "JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT"} <= set(names)
    assert len(names) == len(set(names))
