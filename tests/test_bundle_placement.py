"""Which node carries which slice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs import TEMPLATES, load

placement = load("placement")

FABRIC = """
GPU 00000008:01:00.0
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : {clique}
        ClusterUUID                       : {uuid}
        Health
            Bandwidth                     : Full
"""
UUID = "3a1f0c6e-0000-4f00-8000-00000000000a"


def test_the_domain_of_a_node_is_the_clique_of_its_gpus() -> None:
    report = FABRIC.format(clique=32766, uuid=UUID) * 4
    assert placement.fabric_domain(report) == f"{UUID}.32766"


@pytest.mark.parametrize(
    "report",
    [
        "",
        "no GPUs here",
        FABRIC.format(clique=0, uuid="00000000-0000-0000-0000-000000000000") * 8,
        FABRIC.format(clique="N/A", uuid="N/A"),
        FABRIC.format(clique=1, uuid=UUID) + FABRIC.format(clique=2, uuid=UUID),
        "    CliqueId : 1\n",
    ],
    ids=["nothing", "no section", "zeros", "not available", "two cliques", "half"],
)
def test_a_fabric_that_is_not_up_is_no_domain(report: str) -> None:
    assert placement.fabric_domain(report) == "-"


@pytest.mark.parametrize(
    ("address", "pattern", "domain"),
    [
        ("block0.gpu00", "block.node", "block0"),
        ("b1.b0.gpu00", "block.block.node", "b0"),
        ("rack7.gpu00.cluster.local", "block.node", "rack7"),
        ("spine.leaf1.gpu00", "switch.switch.node", "-"),
        ("gpu00", "node", "-"),
        ("", "", "-"),
        ("gpu00", "block.node", "-"),
    ],
)
def test_only_topology_blocks_are_domains(address: str, pattern: str, domain: str) -> None:
    assert placement.block_domain(address, pattern) == domain


def test_a_node_says_its_number_its_name_and_what_it_knows() -> None:
    environment = {
        "SLURM_NODEID": "3",
        "SLURMD_NODENAME": "gpu003",
        "SLURM_TOPOLOGY_ADDR": "block 0.gpu003",
        "SLURM_TOPOLOGY_ADDR_PATTERN": "block.node",
    }
    report = FABRIC.format(clique=1, uuid=UUID)
    assert placement.domain_line(environment, report) == f"3 gpu003 {UUID}.1 block_0"
    assert placement.domain_line({}, "") == "0 - - -"


def rows(*domains: str) -> list[tuple[str, str, str]]:
    return [(f"n{index}", "-", domain) for index, domain in enumerate(domains)]


def test_lines_of_nodes_are_read_by_node_number_and_torn_ones_left_out() -> None:
    text = "10 b - x\n2 a - x\nrubbish\n3 c -\n"
    assert placement.read_domains(text) == [("a", "-", "x"), ("b", "-", "x")]


def test_the_word_of_the_fabric_counts_more_than_that_of_the_scheduler() -> None:
    known = [("a", "f1", "b1"), ("b", "f2", "b1")]
    assert placement.known_domains(known) == ("NVLink cliques", [("a", "f1"), ("b", "f2")])
    partly = [("a", "f1", "b1"), ("b", "-", "b1")]
    assert placement.known_domains(partly) == ("topology blocks", [("a", "b1"), ("b", "b1")])
    unknown = [("a", "f1", "b1"), ("b", "-", "-")]
    assert placement.known_domains(unknown) == ("", [("a", "-"), ("b", "-")])


def test_domains_that_make_no_whole_slices_stop_the_job_with_the_arithmetic() -> None:
    with pytest.raises(ValueError, match="NVLink domains") as stopped:
        placement.placed(rows(*["x"] * 18, *["y"] * 14), 32, 16, 18, 4)
    said = str(stopped.value)
    assert "the 32 nodes lie in NVLink domains of 18 + 14" in said
    assert "18 = 1 x 16 + 2, 14 = 0 x 16 + 14" in said
    assert "--segment=16" in said
    assert "product of the ICI degrees 8 (2 nodes a slice)" in said


def test_nodes_of_a_domain_are_put_next_to_each_other() -> None:
    order, said = placement.placed(rows("x", "y", "x", "y"), 4, 2, 18, 4)
    assert [node for node, _ in order] == ["n0", "n2", "n1", "n3"]
    assert "ranks follow the domains" in said


@pytest.mark.parametrize(
    ("given_rows", "nodes", "per_slice", "said"),
    [
        (rows("-", "-"), 2, 2, "no NVLink domain can be seen"),
        (rows("x", "y")[:1], 2, 2, "1 of 2 nodes answered"),
        ([], 2, 2, "0 of 2 nodes answered"),
        (rows("x", "y"), 2, 2, "wider than an NVLink domain of 1"),
    ],
)
def test_node_order_holds_where_domains_cannot_decide(
    given_rows: list[tuple[str, str, str]], nodes: int, per_slice: int, said: str
) -> None:
    order, note = placement.placed(given_rows, nodes, per_slice, 1, 4)
    assert [node for node, _ in order] == [row[0] for row in given_rows]
    assert said in note
    assert "node order" in note


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=40), st.integers(1, 6))
def test_every_slice_lies_in_one_domain_or_the_job_stops(domains: list[str], size: int) -> None:
    given_rows = rows(*domains)
    counts = [domains.count(domain) for domain in dict.fromkeys(domains)]
    try:
        order, _ = placement.placed(given_rows, len(domains), size, 64, 4)
    except ValueError:
        assert any(count % size for count in counts)
        return
    assert all(count % size == 0 for count in counts)
    assert sorted(order) == sorted((row[0], row[2]) for row in given_rows)
    assert order[0] == (given_rows[0][0], given_rows[0][2])
    slices = [order[start : start + size] for start in range(0, len(order), size)]
    assert all(len({domain for _, domain in nodes}) == 1 for nodes in slices)
    places = {row[0]: index for index, row in enumerate(given_rows)}
    for nodes in slices:
        within = [places[node] for node, _ in nodes]
        assert within == sorted(within)


def order(folder: Path, nodes: int, per_slice: int) -> subprocess.CompletedProcess[str]:
    words = ["--nodes", nodes, "--gpus-per-node", 4]
    words += ["--nodes-per-slice", per_slice, "--nodes-per-domain", 18, folder]
    return subprocess.run(
        [sys.executable, "-I", TEMPLATES / "placement.py", "order", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_order_writes_the_plan_and_the_hosts_when_nodes_moved(tmp_path: Path) -> None:
    (tmp_path / "domains").write_text("0 a - x\n1 b - y\n2 c - x\n3 d - y\n")
    done = order(tmp_path, 4, 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "nodes").read_text() == "a 0 x\nc 0 x\nb 1 y\nd 1 y\n"
    hosts = (tmp_path / "hostfile").read_text().split()
    assert hosts == ["a"] * 4 + ["c"] * 4 + ["b"] * 4 + ["d"] * 4


def test_order_writes_no_hosts_when_nobody_moved(tmp_path: Path) -> None:
    (tmp_path / "domains").write_text("0 a - x\n1 b - x\n")
    assert order(tmp_path, 2, 2).returncode == 0
    assert (tmp_path / "nodes").read_text() == "a 0 x\nb 0 x\n"
    assert not (tmp_path / "hostfile").exists()


def test_order_plans_nothing_when_nodes_did_not_answer(tmp_path: Path) -> None:
    done = order(tmp_path, 2, 2)
    assert done.returncode == 0
    assert "0 of 2 nodes answered" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_order_stops_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "domains").write_text("0 a - x\n1 b - y\n")
    done = order(tmp_path, 2, 2)
    assert done.returncode == 78
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "domains"]


def test_domain_asks_nvidia_smi_and_survives_one_that_fails(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    for script, fabric in (
        (f"cat <<'X'\n{FABRIC.format(clique=5, uuid=UUID)}X", f"{UUID}.5"),
        ("exit 9", "-"),
        ("printf '\\377'", "-"),
    ):
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-I", TEMPLATES / "placement.py", "domain"],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURMD_NODENAME": "a"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, f"0 a {fabric} -\n")
