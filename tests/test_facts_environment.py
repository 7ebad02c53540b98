"""The environment variables and what they say about a value."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.facts.environment import load

FRACTION = "XLA_CLIENT_MEM_FRACTION"
PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
OWNERS = {"xla", "jax", "nccl", "te", "cuda", "maxtext", "system", "hub", "wandb", "aws", "any"}
KINDS = {"bool", "int", "cint", "float", "enum", "pattern", "regex", "path", "xla_flags", "text"}
# The variables published with NVIDIA's DeepSeek-V3 671B recipe.
RECIPE = {
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.88",
    "CUDA_DEVICE_MAX_CONNECTIONS": "16",
    "XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE": "false",
    "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": "180",
}


def test_every_row_can_be_used() -> None:
    catalogue = load()
    assert len(catalogue.names()) > 100
    for variable in (*catalogue.variables.values(), *catalogue.families):
        assert variable.owner in OWNERS, variable
        assert variable.kind in KINDS, variable
        assert variable.source, variable
        assert (variable.status == "deprecated") <= bool(variable.instead), variable
        assert not variable.instead or catalogue.has(variable.instead), variable
        assert not variable.since or set(variable.since) <= set(variable.legal.split("|"))
        if variable.kind == "pattern":
            assert variable.says, variable
            assert re.compile(variable.legal)
        if variable.default and variable.kind != "text":
            assert catalogue.check(variable.name, variable.default) is None, variable


def test_the_published_variables_are_fine() -> None:
    assert {name: load().check(name, text) for name, text in RECIPE.items()} == dict.fromkeys(
        RECIPE
    )


@pytest.mark.parametrize(
    "text", ["88", "0", "-0.5", "1.01", "abc", "", "0.75+", "nan", "inf", " 1"]
)
def test_a_memory_fraction_is_a_share(text: str) -> None:
    clause = load().check(FRACTION, text)
    assert clause is not None
    assert clause.startswith("takes a number above 0 and at most 1")


@pytest.mark.parametrize("text", ["0.88", "1", "1.0", "1e-1", ".5"])
def test_a_memory_fraction_may_be_written_in_several_ways(text: str) -> None:
    assert load().check(FRACTION, text) is None


@pytest.mark.parametrize("text", ["off", "no", "FALSE", "", "disable"])
def test_words_that_would_leave_preallocation_on_are_refused(text: str) -> None:
    clause = load().check(PREALLOCATE, text)
    assert clause is not None
    assert clause.endswith("false, False or 0 for off; anything else means true")


@pytest.mark.parametrize(
    ("text", "read"),
    [("1MiB", 1), ("on", 0), ("4e6", 4), ("", 0), ("0x", 0), ("08", 0), ("1 ", 1), ("-x", 0)],
)
def test_what_strtoll_would_make_of_a_text_is_told(text: str, read: int) -> None:
    clause = load().check("NCCL_BUFFSIZE", text)
    assert clause is not None
    assert clause == f"takes a whole number of at least 1; {text!r} is read as {read}"


@pytest.mark.parametrize("text", ["1048576", "0x100000", "04000000", "+1"])
def test_nccl_takes_numbers_as_c_does(text: str) -> None:
    assert load().check("NCCL_BUFFSIZE", text) is None


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("NCCL_CUMEM_ENABLE", ["-2", "0", "1"], ["-1", "2"]),
        ("NCCL_MNNVL_ENABLE", ["0", "2"], ["3", "on"]),
        ("NVTE_EP_HANDLE_CACHE_SIZE", ["-1", "4096"], ["0", "-2", "x"]),
        ("NVTE_FUSED_ATTN", ["0", "1"], ["true", "2", ""]),
        ("JAX_ENABLE_PGLE", ["yes", "Off", "T"], ["maybe", "2", ""]),
        ("JAX_OPTIMIZATION_LEVEL", ["O1", "UNKNOWN"], ["o1", "O9", "1"]),
        ("JAX_COORDINATOR_PORT", ["1", "65535"], ["0", "65536", "9" * 5000]),
        ("JAX_COORDINATOR_ADDRESS", ["node-1:8080", "[::1]:80"], ["node-1", ":80", "a b:1"]),
        ("NCCL_DEBUG", ["WARN", "info"], ["LOUD", ""]),
        ("NCCL_P2P_LEVEL", ["NVL", "5"], ["nvl", "NVLINK"]),
        ("NCCL_ALGO", ["Ring,Tree", "^PAT", "allreduce:nvls"], ["Rong", "Ring Tree", ""]),
        ("NCCL_PROTO", ["Simple", "^LL128", "ll,ll128"], ["LL256", ""]),
        ("NCCL_CTA_POLICY", ["DEFAULT|ZERO", "1"], ["10", "FAST", "DEFAULT,ZERO"]),
        ("NCCL_SOCKET_IFNAME", ["=eth0", "^docker,lo", "bond0.12"], ["eth 0", ""]),
        ("NCCL_IB_HCA", ["=mlx5_0,mlx5_1:1", "^=mlx5_3"], ["mlx5 0", ""]),
        ("CUDA_VISIBLE_DEVICES", ["0,1", "", "GPU-8a1b-22"], ["0;1", "all"]),
        ("CUDA_DEVICE_MAX_CONNECTIONS", ["1", "32"], ["0", "33"]),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", ["BFC", "vmm"], ["malloc"]),
        ("XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB", ["180"], ["180GB", "0", "1.5"]),
        ("TF_CPP_VMODULE", ["bfc_allocator=1,x=2"], ["bfc_allocator"]),
        ("NVTE_JAX_CUSTOM_CALLS", ["false", "GemmPrimitive=false"], ["GemmPrimitive"]),
        ("NVTE_JAX_CUSTOM_CALLS_RE", ["Gemm.*"], ["("]),
        ("JAX_PLATFORMS", ["cuda,cpu", ""], ["cuda cpu", "CUDA"]),
        ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", ["0", "1.5"], ["-1", "x", "1_0"]),
        ("JAX_COMPILATION_CACHE_DIR", ["gs://bucket/x", "/data"], ["", " "]),
        ("XLA_FLAGS", ["", "--xla_a=1 --xla_b=2"], ["--xla_a=1 x --xla_b=2", " x", "-xla_a"]),
    ],
)
def test_a_text_is_judged_by_what_its_reader_takes(
    name: str, good: list[str], bad: list[str]
) -> None:
    assert [load().check(name, text) for text in good] == [None] * len(good)
    assert all(load().check(name, text) for text in bad), name


def test_a_choice_that_came_later_needs_its_release() -> None:
    name = "XLA_PYTHON_CLIENT_ALLOCATOR"
    assert load().check(name, "vmm", "0.8.3") == "needs jaxlib 0.10.2"
    assert load().check(name, "vmm", "0.10.2") is None
    assert load().check(name, "ADDRESS", "0.10.2") == "needs jaxlib 0.11.2"
    assert load().check(name, "bfc", "0.8.3") is None


def test_a_family_covers_the_names_that_are_not_listed() -> None:
    catalogue = load()
    for name, owner in {
        "NCCL_NEW_THING": "nccl", "NVTE_NEW": "te", "JAX_NEW": "jax", "XLA_NEW": "xla",
    }.items():  # fmt: skip
        variable = catalogue.variable(name)
        assert variable is not None
        assert (variable.owner, variable.family) == (owner, True)
        assert not catalogue.has(name)
        assert catalogue.check(name, "anything") is None
    assert catalogue.variable("MY_OWN") is None
    assert catalogue.check("MY_OWN", "x") is None


def test_a_listed_name_wins_over_its_family() -> None:
    variable = load().variable("NCCL_DEBUG")
    assert variable is not None
    assert (variable.name, variable.family) == ("NCCL_DEBUG", False)


def test_a_misspelt_name_gets_the_nearest() -> None:
    assert load().nearest("NCCL_BUFSIZE")[0] == "NCCL_BUFFSIZE"
    assert load().nearest("XLA_CLIENT_MEMORY_FRACTION")[0] == FRACTION


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "WANDB_API_KEY", "MY_PASSWORD", "X_SECRET", "A_TOKEN"]
)
def test_a_secret_is_known_as_one(name: str) -> None:
    assert load().secret(name)


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "JAX_PLATFORMS", "TOKENS", "NCCL_NEW", "PATH"])
def test_other_variables_are_no_secrets(name: str) -> None:
    assert not load().secret(name)


def test_dead_names_point_to_the_living() -> None:
    catalogue = load()
    states = {
        name: (variable.status, variable.instead)
        for name in ("XLA_PYTHON_CLIENT_MEM_FRACTION", "TF_CPP_MAX_LOG_LEVEL", "JAX_NUM_PROCESSES",
                     "XLA_PJRT_GPU_BFC_ALLOW_GROWTH", "NVTE_WITH_NCCL_EP")
        if (variable := catalogue.variable(name))
    }  # fmt: skip
    assert states == {
        "XLA_PYTHON_CLIENT_MEM_FRACTION": ("deprecated", FRACTION),
        "TF_CPP_MAX_LOG_LEVEL": ("ignored", "TF_CPP_MAX_VLOG_LEVEL"),
        "JAX_NUM_PROCESSES": ("ignored", ""),
        "XLA_PJRT_GPU_BFC_ALLOW_GROWTH": ("absent", ""),
        "NVTE_WITH_NCCL_EP": ("build", ""),
    }


def test_a_switch_is_written_in_its_readers_words() -> None:
    catalogue = load()
    assert catalogue.text(PREALLOCATE, False) == "false"
    assert catalogue.text("NVTE_FUSED_ATTN", False) == "0"
    assert catalogue.text("NCCL_NVLS_ENABLE", True) == "1"
    assert catalogue.text(FRACTION, 0.88) == "0.88"
    assert catalogue.text("MY_OWN", True) == "true"
    assert catalogue.text("MY_OWN", 3) == "3"
    for variable in catalogue.variables.values():
        if variable.kind == "bool":
            assert catalogue.check(variable.name, variable.text(True)) is None
            assert catalogue.check(variable.name, variable.text(False)) is None


@given(st.sampled_from(load().names()), st.text(max_size=40))
def test_no_text_breaks_a_check(name: str, text: str) -> None:
    clause = load().check(name, text)
    assert clause is None or (clause and "\n" not in clause)


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\0b"])
def test_a_line_break_is_refused_everywhere(text: str) -> None:
    assert load().check("MY_OWN", text) == "cannot hold a line break or a NUL"


CLIENT = """
import os, sys
from jaxlib.xla_client import generate_pjrt_gpu_plugin_options as options
for line in sys.stdin.read().splitlines():
    name, _, text = line.partition("=")
    os.environ[name] = text
    try:
        print(repr(options()))
    except ValueError:
        print("ValueError")
    del os.environ[name]
"""


def test_the_client_of_this_jaxlib_agrees() -> None:
    """What the real client refuses is refused here; what it misreads is refused, too."""
    cases = [
        (FRACTION, "0.5", 0.5), (FRACTION, "abc", None), (FRACTION, "88", 88.0),
        (PREALLOCATE, "false", False), (PREALLOCATE, "off", True), (PREALLOCATE, "0", False),
        (PREALLOCATE, "FALSE", True), (PREALLOCATE, "True", True),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "Platform", "platform"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "malloc", None),
        ("XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "2", 2 << 20),
        ("XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "2MB", None),
        ("XLA_PYTHON_CLIENT_ABORT_COLLECTIVES_ON_FAILURE", "1", True),
        ("XLA_PYTHON_CLIENT_ABORT_COLLECTIVES_ON_FAILURE", "true", None),
    ]  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", CLIENT],
        input="\n".join(f"{name}={text}" for name, text, _ in cases),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answers = ran.stdout.splitlines()
    assert len(answers) == len(cases)
    for (name, text, value), answer in zip(cases, answers, strict=True):
        assert (repr(value) in answer) == (value is not None), (name, text, answer)
        assert (answer == "ValueError") == (value is None)
        misread = text in {"88", "off", "FALSE"}
        assert (load().check(name, text) is None) == (value is not None and not misread)
