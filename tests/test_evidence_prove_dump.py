"""What XLA writes of a compile: its options and its buffers."""

from __future__ import annotations

import pytest

from moectl.evidence.prove_dump import buffers, differs, options, shown

CONFIG = """entry_computation_layout {
  parameters {
    element_type: F32
  }
}
debug_options {
  xla_gpu_autotune_level: 4
  xla_gpu_enable_triton_gemm: true
  xla_gpu_collective_inflation_factor: 1.5
  xla_gpu_shape_checks: RUNTIME
  xla_dump_to: "/x/a \\"b\\""
  xla_gpu_enable_command_buffer: CUBLAS
  xla_gpu_enable_command_buffer: FUSION
  xla_backend_extra_options {
    key: "xla_gpu_autotune_level"
    value: "9"
  }
  xla_gpu_enable_fast_min_max: false
}
replica_count: 1
"""
REPORT = """Memory Space: default (color=0)
Total bytes: 199715371008 (186.00GiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
   50.75GiB( 31%);   50.75GiB;            0;                6; bf16[32,58], 5×bf16[58,65536]
   50.75GiB( 31%);   512.0KiB;           10;                1; f32[]
Total bytes: 5 (5B)

Memory Space: cmem (color=5)
Total bytes: 31138512896 (29.00GiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
   29.00GiB(100%);    1.00GiB;            0;                1; u8[1073741824]
"""


def test_the_options_of_the_compiler_are_read_by_type() -> None:
    assert options(CONFIG) == {
        "xla_gpu_autotune_level": 4,
        "xla_gpu_enable_triton_gemm": True,
        "xla_gpu_collective_inflation_factor": 1.5,
        "xla_gpu_shape_checks": "RUNTIME",
        "xla_dump_to": '/x/a "b"',
        "xla_gpu_enable_command_buffer": ["CUBLAS", "FUSION"],
        "xla_gpu_enable_fast_min_max": False,
    }


@pytest.mark.parametrize("text", ["", "debug_options {", "x: 1\n"])
def test_a_config_without_options_has_none(text: str) -> None:
    assert options(text) == {}


def test_the_largest_buffers_come_first_with_their_space() -> None:
    totals, found = buffers(REPORT, count=2)
    assert totals == {"default": 199715371008, "cmem": 31138512896}
    assert [(one.space, one.bytes) for one in found] == [
        ("default", int(50.75 * 2**30)),
        ("cmem", 2**30),
    ]
    assert found[0].shapes == ("bf16[32,58]", "bf16[58,65536]")


def test_an_empty_report_has_no_buffers() -> None:
    assert buffers("") == ({}, [])


@pytest.mark.parametrize(
    ("said", "held", "different"),
    [
        ("true", True, False),
        ("0", False, False),
        ("false", True, True),
        ("99", 99, False),
        ("99", 95, True),
        ("0.1", 0.100000001, False),
        ("many", 3, True),
        ("FUSION", ["FUSION", "CUBLAS"], False),
        ("x", None, False),
    ],
)
def test_only_scalars_are_compared_with_what_was_said(
    said: str, held: object, different: bool
) -> None:
    assert differs(said, held) is different


@pytest.mark.parametrize(
    ("held", "text"),
    [(True, "true"), (False, "false"), (3, "3"), (["A", "B"], "A,B"), (None, ""), ("x", "x")],
)
def test_an_option_is_shown_as_a_flag_would_say_it(held: object, text: str) -> None:
    assert shown(held) == text
