"""Rules about environment variables: each fires at its place, and silent where it is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.actions.validate import validate
from moectl.facts.environment import load
from moectl.findings import Finding
from moectl.rules import environment
from moectl.values import Hardware, Origin, Value
from moectl.workload import MARK, UNKNOWN, Layout, Text, Workload

PLACE = Origin("script", "train.sh", 4, 8)
FRACTION = "XLA_CLIENT_MEM_FRACTION"
OLD_FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
INTERFACE = "NCCL_SOCKET_IFNAME"
# NVIDIA/JAX-Toolbox docs/frameworks/maxtext/deepseek-v3-moe, and variables of its CI and of
# MaxText's launch scripts.
USUAL = {
    OLD_FRACTION: "0.88", "CUDA_DEVICE_MAX_CONNECTIONS": "16",
    "XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE": "false", "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": "180",
    "NCCL_DEBUG": "info", "NCCL_BUFFSIZE": "16777216", "NCCL_CUMEM_ENABLE": "0",
    "NCCL_SOCKET_IFNAME": "eth0,enp", "NCCL_CROSS_NIC": "0", "NCCL_ALGO": "Ring,Tree",
    "NCCL_PROTO": "Simple", "NCCL_NET_GDR_LEVEL": "PIX", "NCCL_FASTRAK_IFNAME": "enp6s0,enp7s0",
    "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1", "NCCL_VERSION": "2.28.9", "NCCL_TOPO_FILE": "/x/t.xml",
    "TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_MAX_LOG_LEVEL": "1", "NVTE_FUSED_ATTN": "1",
    "JAX_COMPILATION_CACHE_DIR": "/cache", "JAX_COORDINATOR_ADDRESS": "node1:1234",
    "LD_LIBRARY_PATH": "/usr/local/lib", "CUDA_VISIBLE_DEVICES": "0,1,2,3", "MAX_TOKEN": "4096",
    "XLA_FLAGS_EXTRA": "--xla_a=1", "HF_HOME": "/data/hf", "JAX_PLATFORMS": "cuda",
}  # fmt: skip


def workload(
    variables: Mapping[str, str], *, kind: str = "script", keys: Any = None, **rest: Any
) -> Workload:
    return Workload(
        kind=kind,
        origin=PLACE,
        maxtext="0.2.5",
        jaxlib=rest.pop("jaxlib", "0.12.0.1"),
        environment={name: Text.of(text, PLACE) for name, text in variables.items()},
        is_maxtext=keys is not None,
        effective=keys or {},
        **rest,
    )


def nodes(count: Any) -> Layout:
    return Layout(nodes=Value(count, PLACE))


def rack(domain: int = 72) -> Hardware:
    return Hardware("x", "x", "blackwell", "10.0", 4, domain, domain, None, None, "x")


def found(w: Workload) -> list[Finding]:
    return [finding for rule in environment.RULES.all for finding in rule.findings(w)]


def worse(w: Workload) -> dict[str, str]:
    return {f.code: f.severity for f in found(w) if f.severity != "note"}


def one(w: Workload, code: str) -> Finding:
    (finding,) = [finding for finding in found(w) if finding.code == code]
    return finding


@pytest.mark.parametrize("kind", ["script", "variables", "manifest", "run file"])
def test_what_people_set_stays_clean(kind: str) -> None:
    assert worse(workload(USUAL, kind=kind)) == {}


@pytest.mark.parametrize(
    ("name", "text", "code", "severity"),
    [
        ("JAX_ENABLE_PGLE", "maybe", "ENV107", "error"),
        ("JAX_PGLE_PROFILING_RUNS", "three", "ENV107", "error"),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "malloc", "ENV107", "error"),
        ("XLA_PYTHON_CLIENT_USE_TFRT_GPU_CLIENT", "true", "ENV107", "error"),
        ("NCCL_DEBUG", "VERBOSE", "ENV107", "warning"),
        ("NCCL_P2P_LEVEL", "nvl", "ENV107", "warning"),
        ("NCCL_IB_TIMEOUT", "40", "ENV107", "warning"),
        ("NVTE_JAX_ENFORCE_V2_GROUPED_GEMM", "yes", "ENV107", "error"),
        ("XLA_PJRT_GPU_BFC_ALLOW_GROWTH", "true", "ENV104", "warning"),
        ("NCCL_SOKET_IFNAME", "eth0", "ENV105", "warning"),
        ("XLA_PYTHON_CLIENT_MEM_FRACTIONS", "0.9", "ENV105", "warning"),
        ("JAX_COMPILATION_CACHE_DIRS", "/x", "ENV105", "warning"),
        ("NVTE_FUSED_ATN", "1", "ENV105", "warning"),
        ("NCCL_IB_DISABLED", "1", "ENV105", "warning"),
        ("HF_TOKEN", "hf_abcdefghijklmnop", "ENV106", "warning"),
        ("WANDB_API_KEY", "0123456789abcdef", "ENV106", "warning"),
        (INTERFACE, "lo", "ENV110", "warning"),
        (INTERFACE, "=lo", "ENV110", "warning"),
        ("NCCL_IB_DISABLE", "1", "ENV112", "warning"),
        ("NCCL_IB_SL", "1", "ENV113", "warning"),
        (FRACTION, "0.98", "ENV114", "warning"),
        (OLD_FRACTION, "1", "ENV114", "warning"),
        (FRACTION, "88", "ENV129", "error"),
        (OLD_FRACTION, "0.9.", "ENV129", "error"),
        (FRACTION, "0", "ENV129", "error"),
        (FRACTION, "-0.5", "ENV129", "error"),
        ("XLA_PYTHON_CLIENT_PREALLOCATE", "no", "ENV130", "warning"),
        ("XLA_PYTHON_CLIENT_PREALLOCATE", "FALSE", "ENV130", "warning"),
        ("NCCL_BUFFSIZE", "1MiB", "ENV144", "warning"),
        ("NCCL_NVLS_ENABLE", "on", "ENV144", "warning"),
        ("NCCL_NCHANNELS_PER_NET_PEER", "2x", "ENV144", "warning"),
    ],
)
def test_a_wrong_text_is_found_where_it_stands(
    name: str, text: str, code: str, severity: str
) -> None:
    w = workload({name: text})
    finding = one(w, code)
    assert (finding.severity, finding.field) == (severity, name)
    assert (finding.file, finding.line, finding.column) == ("train.sh", 4, 8)
    assert finding.hint
    assert worse(w) == {code: severity}
    assert worse(workload({name: MARK})).keys() <= {"ENV104", "ENV105"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("JAX_ENABLE_PGLE", "True"), ("JAX_ENABLE_PGLE", ""),
        ("XLA_PYTHON_CLIENT_ALLOCATOR", "BFC"),
        ("XLA_PYTHON_CLIENT_PREALLOCATE", "false"), (FRACTION, "0.95"), (FRACTION, ".8"),
        ("NCCL_BUFFSIZE", "0x100000"), ("NCCL_NVLS_ENABLE", "0"), (INTERFACE, "^lo,docker0"),
        (INTERFACE, "lo,eth0"), (INTERFACE, "local0"), ("NCCL_IB_SL", "0"),
        ("NCCL_IB_DISABLE", "0"), ("HF_TOKEN", "<your token>"), ("HF_TOKEN", ""),
        ("MY_TOKEN", "/run/secrets/token"), ("XLA_FLAGS2", "x"), ("NCCL_TESTS_DEVICE", "0"),
        ("JAX_MY_OWN", "1"), ("NCCL_FASTRAK_NUM_FLOWS", "2"), ("NOTHING_KNOWN", "1"),
    ],
)  # fmt: skip
def test_a_right_text_stays_clean(name: str, text: str) -> None:
    assert worse(workload({name: text})) == {}


def test_a_secret_is_not_repeated() -> None:
    finding = one(workload({"HF_TOKEN": "hf_abcdefghijklmnop"}), "ENV106")
    assert "hf_abcdef" not in str(finding)
    assert "19 characters" in finding.message


def test_a_fraction_in_percent_is_written_as_a_share() -> None:
    assert one(workload({FRACTION: "88"}), "ENV129").hint == "write 0.88"
    assert "at most 1" in one(workload({FRACTION: "1.5"}), "ENV129").hint


@pytest.mark.parametrize("text", ["true", "1"])
def test_unified_memory_lets_the_fraction_exceed_one(text: str) -> None:
    assert worse(workload({FRACTION: "4", "TF_FORCE_UNIFIED_MEMORY": text})) == {}


def test_unified_memory_that_is_off_does_not() -> None:
    off = {FRACTION: "4", "TF_FORCE_UNIFIED_MEMORY": "false"}
    assert worse(workload(off)) == {"ENV129": "error"}


def test_both_names_of_the_fraction_are_an_error() -> None:
    w = workload({FRACTION: "0.8", OLD_FRACTION: "0.8"})
    assert worse(w) == {"ENV128": "error"}
    assert worse(workload({FRACTION: MARK, OLD_FRACTION: "0.8"})) == {"ENV128": "error"}


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        (OLD_FRACTION, FRACTION),
        ("TF_CPP_MAX_LOG_LEVEL", "TF_CPP_MAX_VLOG_LEVEL"),
        ("NVTE_JAX_CUSTOM_CALLS_RE", "NVTE_JAX_CUSTOM_CALLS"),
    ],
)
def test_a_dead_name_is_a_note_with_the_living_one(name: str, instead: str) -> None:
    (finding,) = found(workload({name: "0.5" if name == OLD_FRACTION else "1"}))
    assert (finding.severity, finding.hint) == ("note", f"use {instead}")


@pytest.mark.parametrize(
    ("count", "severity"), [(4, "error"), (1, None), (UNKNOWN, "warning"), (2, "error")]
)
def test_the_loopback_is_as_bad_as_the_nodes_are_many(count: Any, severity: str | None) -> None:
    said = worse(workload({INTERFACE: "lo"}, layout=nodes(count)))
    assert said.get("ENV110") == severity


def test_an_exact_interface_is_a_note() -> None:
    finding = one(workload({INTERFACE: "=enp90s0np0"}), "ENV111")
    assert finding.severity == "note"
    assert "enp90s0np0" in finding.message
    assert found(workload({INTERFACE: "enp90s0np0"})) == []


@pytest.mark.parametrize("name", ["NCCL_IB_DISABLE", "NCCL_IB_SL"])
def test_one_node_needs_no_fabric(name: str) -> None:
    assert worse(workload({name: "1"}, layout=nodes(1))) == {}
    assert len(worse(workload({name: "1"}, layout=nodes(2)))) == 1


def test_a_network_plugin_takes_the_place_of_infiniband() -> None:
    assert worse(workload({"NCCL_IB_DISABLE": "1", "NCCL_NET": "FasTrak"})) == {}
    assert worse(workload({"NCCL_IB_DISABLE": "1", "FI_PROVIDER": "efa"})) == {}


MNNVL = {"hardware": rack(), "layout": nodes(4)}


@pytest.mark.parametrize(
    ("code", "severity", "variables", "rest"),
    [
        ("ENV119", "error", {"NCCL_CUMEM_ENABLE": "0"}, {
            **MNNVL, "keys": {"ici_expert_parallelism": 16}}),
        ("ENV119", "warning", {"NCCL_MNNVL_ENABLE": "0"}, MNNVL),
        ("ENV119", "warning", {"NCCL_P2P_LEVEL": "LOC"}, MNNVL),
        ("ENV122", "warning", {"NCCL_NVLS_ENABLE": "1", FRACTION: "0.93"}, {}),
        ("ENV140", "error", {"NVTE_JAX_ENFORCE_V2_GROUPED_GEMM": "1"}, {"keys": {
            "te_moe_block": True, "te_gmm_quantization": "te_mxfp8", "base_emb_dim": 2048,
            "base_moe_mlp_dim": 1500}}),
        ("ENV141", "error", {"NVTE_WITH_NCCL_EP": "0"}, {"keys": {"te_moe_block": True}}),
        ("ENV143", "warning", {"NCCL_CTA_POLICY": "EFFICIENCY", "NCCL_ALGO": "Ring"}, {}),
        ("ENV143", "warning", {"NCCL_CTA_POLICY": "ZERO|EFFICIENCY"}, MNNVL),
    ],
)  # fmt: skip
def test_a_combination_is_found(
    code: str, severity: str, variables: dict[str, str], rest: dict[str, Any]
) -> None:
    finding = one(workload(variables, **rest), code)
    assert finding.severity == severity
    assert "{" not in finding.message
    assert code not in worse(workload({}, **rest))


@pytest.mark.parametrize(
    ("variables", "rest"),
    [
        ({"NCCL_CUMEM_ENABLE": "0"}, {"hardware": rack(8), "layout": nodes(4)}),
        ({"NCCL_CUMEM_ENABLE": "0"}, {"hardware": rack(), "layout": nodes(1)}),
        ({"NCCL_NVLS_ENABLE": "1", FRACTION: "0.88"}, {}),
        ({"NCCL_CTA_POLICY": "EFFICIENCY"}, {"hardware": rack(8), "layout": nodes(4)}),
        ({"NVTE_JAX_ENFORCE_V2_GROUPED_GEMM": "1"}, {"keys": {
            "te_moe_block": True, "te_gmm_quantization": "te_mxfp8", "base_emb_dim": 7168,
            "base_moe_mlp_dim": 2048}}),
    ],
)  # fmt: skip
def test_a_right_combination_stays_clean(variables: dict[str, str], rest: dict[str, Any]) -> None:
    assert worse(workload(variables, **rest)) == {}


def test_every_name_of_the_tables_exists_and_is_no_slip() -> None:
    catalogue = load()
    names = [*catalogue.names(), "NCCL_IB_ADAPTIVE_ROUTING", "JAX_DEBUG_NANS", "NVTE_DEBUG"]
    assert [name for name in names if not catalogue.exists(name)] == []
    assert [name for name in names if catalogue.misspelt(name)] == []
    assert not catalogue.exists("NCCL_NO_SUCH_NAME")


@given(st.dictionaries(st.sampled_from([*load().names(), "NCCL_X", "é"]), st.text(max_size=9)))
def test_no_text_breaks_a_rule(variables: dict[str, str]) -> None:
    for finding in found(workload(variables)):
        assert finding.message
        assert finding.line == 4


@pytest.mark.parametrize(
    ("count", "severity"),
    [("4", "error"), ("1", None), ("", "warning"), ("many", "warning"), ("$N", "warning")],
)
def test_a_file_of_variables_counts_its_nodes_itself(count: str, severity: str | None) -> None:
    w = workload({INTERFACE: "lo", "NNODES": count}, kind="variables")
    assert worse(w).get("ENV110") == severity


def test_a_name_that_the_file_itself_reads_is_no_slip(tmp_path: Path) -> None:
    def said(text: str) -> set[str]:
        (tmp_path / "job.sh").write_text(text)
        return {finding.code for finding in validate([str(tmp_path / "job.sh")]).findings}

    slip = "export JAX_COORDINATOR_HOST=a\nsrun true\n"
    assert "ENV105" in said(slip)
    reads = "export JAX_COORDINATOR_ADDRESS=${JAX_COORDINATOR_HOST}:1\n"
    assert "ENV105" not in said(slip + reads)
