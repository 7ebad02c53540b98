"""Time by class of kernel, from profiles of known content and from a real one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.errors import LocalFilesError
from moectl.logs.xplane import Device, Kernel, TraceError, devices, profiles, read_trace
from moectl.report.kernel_classes import UNKNOWN, booked, classes, layer_of
from moectl.report.kernels import breakdown
from moectl.report.spans import common, length, own, union
from tests.support.traces import xspace

GPU = "/device:GPU:0"
COMPUTE, COMMUNICATION = "Stream #7(Compute)", "Stream #9(Communication)"
# One kernel of every class, by names that real programs give them.
NAMED = {
    "grouped_gemm": "nvjet_sm100_qqtst_128x256_Avec32UE8M0_Bvec32UE8M0_ptrGroup",
    "ep_dispatch": "nccl_ep_jit_ht_dispatch_kernel",
    "ep_combine": "nccl_ep_jit_ht_combine_kernel",
    "routing": "nccl_ep_jit_ht_scan_flat_kernel",
    "quantisation": "group_quantize_mxfp8_kernel",
    "attention": "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16",
    "dense_gemm": "nvjet_sm100_tst_192x192",
    "fsdp": "ncclDevKernel_AllGather_RING_LL",
    "collectives": "ncclDevKernel_AllReduce_Sum_bf16",
    "copies": "MemcpyD2H",
    "elementwise": "loop_add_fusion_12",
    UNKNOWN: "made_up_kernel",
}


def of(data: bytes) -> Device:
    (device,) = devices(data, "t.xplane.pb")
    return device


def test_the_time_of_every_class_is_told_exactly() -> None:
    events = []
    at = 100
    for number, name in enumerate(NAMED.values(), start=1):
        events.append((name, at, number * 1000, {"hlo_op": "op"}))
        at += number * 1000 + 10
    found = breakdown(of(xspace({GPU: {COMPUTE: events}})))
    told = {one.id: one.seconds for one in found.classes}
    assert told == {
        name: pytest.approx(number * 1e-6, rel=1e-12) for number, name in enumerate(NAMED, start=1)
    }
    assert {one.id for one in classes()} == set(NAMED)
    assert found.idle == pytest.approx(11 * 10e-9, rel=1e-9)
    ((name, seconds),) = found.unknown
    assert (name, round(seconds * 1e9)) == ("made_up_kernel", 12000)


def test_what_computes_hides_what_moves_and_the_rest_is_exposed() -> None:
    data = xspace(
        {
            GPU: {
                COMPUTE: [("nvjet_sm100_tst", 0, 1000, {}), ("nvjet_sm100_tst", 1500, 500, {})],
                COMMUNICATION: [
                    ("ncclDevKernel_AllGather_RING_LL", 500, 1200, {}),
                    ("nccl_ep_jit_ht_dispatch_kernel", 1700, 100, {}),
                ],
            }
        }
    )
    found = breakdown(of(data))
    by_class = {one.id: one for one in found.classes}
    # 500 to 1,700: 500 ns under the first GEMM, 200 ns under the second, 500 ns alone.
    assert by_class["fsdp"].exposed == pytest.approx(500e-9)
    assert by_class["ep_dispatch"].exposed == 0.0
    assert (found.moving, found.exposed) == pytest.approx((1300e-9, 500e-9))
    assert (found.window, found.idle) == pytest.approx((2000e-9, 0.0))


def test_lines_that_are_made_of_others_do_not_count_and_steps_bound_the_time() -> None:
    kernels: list[tuple[str, int, int, dict[str, str]]] = [
        ("loop_add", 0, 50, {}),
        ("loop_add", 100, 50, {}),
        ("loop_add", 150, 50, {}),
    ]
    data = xspace(
        {
            GPU: {
                COMPUTE: kernels,
                "XLA Ops": [("fusion", 0, 200, {})],
                "XLA Modules": [("jit_train_step", 0, 200, {})],
                "Steps": [("1", 100, 100, {})],
            },
            "/host:CPU": {"python": [("train", 0, 999, {})]},
        }
    )
    found = breakdown(of(data))
    assert (found.steps, found.window, found.idle) == pytest.approx((1, 100e-9, 0.0))
    assert found.classes[0].kernels == 2


def test_helpers_count_as_time_of_their_class_and_not_as_latency() -> None:
    data = xspace(
        {
            GPU: {
                COMPUTE: [
                    ("setup_grouped_gemm_kernel", 0, 5, {}),
                    (NAMED["grouped_gemm"], 5, 100, {}),
                    ("setup_grouped_gemm_kernel", 105, 5, {}),
                    (NAMED["grouped_gemm"], 110, 300, {}),
                ]
            }
        }
    )
    (one,) = breakdown(of(data)).classes
    assert one.seconds == pytest.approx(410e-9)
    assert one.latency is not None
    assert (one.latency.count, one.latency.longest) == pytest.approx((2, 300e-9))
    assert one.latency.median == pytest.approx(200e-9)


def test_the_operation_says_the_direction_that_the_kernel_does_not() -> None:
    kernel = "nccl_ep_jit_ht_combine_kernel"
    assert booked(kernel).id == "ep_combine"
    assert booked(kernel, "custom-call te_ep_dispatch_bwd_ffi").id == "ep_combine"
    assert booked("nccl_ep_jit_ht_dispatch_kernel", "te_ep_combine_bwd_ffi").id == "ep_dispatch"
    # The all-gather in the preparation of a dispatch is of routing, not of FSDP.
    assert booked("ncclDevKernel_AllGather_RING_LL", "te_ep_prepare_ffi").id == "routing"
    assert booked("nccl_ep_jit_local_permute_dup_kernel").part
    assert booked("nccl_ep_jit_local_permute_reduce_kernel").id == "ep_combine"


def test_a_custom_call_that_nobody_knows_stays_unknown() -> None:
    assert booked("custom-call.7", "custom-call.7").id == UNKNOWN
    assert booked("").id == UNKNOWN


@pytest.mark.parametrize(
    ("scope", "layer"),
    [
        ("jit(train_step)/jvp(Transformer)/decoder/moe_layers/while/body/MoeBlock_0/dot", "moe"),
        ("jit(train_step)/decoder/dense_layers/mlp/wi", "dense"),
        ("jit(train_step)/decoder/layers/self_attention/q", "attention"),
        ("", "elsewhere"),
    ],
)
def test_the_path_of_an_operation_tells_the_part_of_the_model(scope: str, layer: str) -> None:
    assert layer_of(Kernel("k", 0, 1, scope=scope)) == layer


SPANS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda s: (float(s[0]), float(sum(s))))
)


@given(SPANS, SPANS)
def test_unions_and_common_time_agree_with_counting_moments(
    left: list[tuple[float, float]], right: list[tuple[float, float]]
) -> None:
    def moments(spans: list[tuple[float, float]]) -> set[int]:
        return {moment for start, end in spans for moment in range(int(start), int(end))}

    assert length(union(left)) == len(moments(left))
    both = common(union(left), union(right))
    assert length(both) == len(moments(left) & moments(right))


@given(SPANS)
def test_the_kernels_of_a_line_share_its_time_without_rest(
    spans: list[tuple[float, float]],
) -> None:
    line = sorted(
        (Kernel(str(n), start, end) for n, (start, end) in enumerate(spans)),
        key=lambda kernel: (kernel.start, -kernel.end),
    )
    told = list(own(line))
    assert sorted(kernel.name for kernel, _ in told) == sorted(kernel.name for kernel in line)
    assert sum(length(held) for _, held in told) == length(union(spans))
    for kernel, held in told:
        assert all(kernel.start <= start < end <= kernel.end for start, end in held)


@given(st.lists(st.tuples(st.sampled_from(list(NAMED.values())), st.integers(0, 50)), min_size=1))
def test_time_is_computing_moving_or_idle_and_nothing_twice(
    events: list[tuple[str, int]],
) -> None:
    lines: dict[str, list[tuple[str, int, int, dict[str, str]]]] = {COMPUTE: [], COMMUNICATION: []}
    for number, (name, start) in enumerate(events):
        line = COMPUTE if number % 2 else COMMUNICATION
        lines[line].append((name, start * 10, 7, {}))
    found = breakdown(of(xspace({GPU: lines})))
    assert found.computing + found.exposed + found.idle == pytest.approx(found.window)
    assert 0 <= found.exposed <= found.moving + 1e-15
    for one in found.classes:
        assert 0 <= one.exposed <= one.busy + 1e-15
        assert one.busy <= one.seconds + 1e-15


@pytest.mark.parametrize("data", [b"", b"no profile", b"\x00" * 50, b"\xff" * 400])
def test_what_is_no_profile_is_refused_in_a_sentence(data: bytes) -> None:
    with pytest.raises(TraceError, match=r"is no profile|is empty|names no kernel"):
        devices(data, "a.xplane.pb")


@given(st.binary(max_size=200))
def test_no_file_is_too_odd(data: bytes) -> None:
    try:
        found = devices(data, "a")
    except TraceError:
        found = []
    assert all(breakdown(device).window >= 0 for device in found)


def test_a_profile_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalFilesError, match=r"gone\.xplane\.pb: No such file"):
        read_trace(tmp_path / "gone.xplane.pb")


REAL = """
import sys, jax, jax.numpy as jnp
x = jnp.ones((256, 256))
step = jax.jit(lambda x: jnp.tanh(x @ x).sum())
step(x)
with jax.profiler.trace(sys.argv[1]):
    for _ in range(3):
        step(x).block_until_ready()
"""


def test_a_real_profile_of_this_machine_is_read_to_the_end(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", REAL, str(tmp_path)],
        check=True,
        capture_output=True,
        env={"JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    (path,) = profiles(tmp_path)
    (device,) = read_trace(path)
    found = breakdown(device)
    assert found.window > 0
    assert found.computing > 0
    assert sum(one.kernels for one in found.classes) >= 3
