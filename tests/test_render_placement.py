"""What is asked of Slurm for slices, domains and spare nodes, and what the programs make of it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl import placement
from moectl.actions.plan import Wishes, plan
from moectl.errors import UsageError
from moectl.job import Degree, Job, Mesh
from moectl.mesh import MeshRequest, solve
from moectl.render.slurm import launch_script
from tests.support import jobs
from tests.support.components import require
from tests.support.programs import load

program = load("placement")


def on(job: Job, **changes: Any) -> Job:
    return replace(job, cluster=replace(job.cluster, **changes))


def wide(nodes: int, expert: int, fsdp: int, **changes: Any) -> Job:
    """Return a job of one slice over `nodes` nodes of a rack."""
    mesh = Mesh({"fsdp": Degree(fsdp), "expert": Degree(expert)}, 1, nodes * 4)
    return on(jobs.job(jobs.GB200, nodes, slice_gpus=nodes * 4, mesh=mesh), **changes)


def directives(job: Job) -> list[str]:
    lines = launch_script(job).splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]


def planned(preset: str, gpus: int, *sets: str) -> Job:
    options = {"gpus": (gpus, "--gpus"), "hardware": ("gb200-nvl72", "--hardware")}
    return plan(preset, Wishes(options=options, sets=sets))


@pytest.mark.parametrize(
    ("preset", "nodes", "sets", "segments"),
    [
        ("kimi-k2-1t", 24, [], 12),  # of at most 16: 12 + 12
        ("kimi-k2-1t", 24, ["cluster.usable_nodes=18"], 12),
        ("mixtral-8x22b", 36, [], 12),
        ("qwen3-30b-a3b", 36, [], 4),  # its weights cannot be cut by 3; data takes the slices
        ("kimi-k2-1t", 32, [], 16),
        ("kimi-k2-1t", 32, ["cluster.usable_nodes=9"], 8),
        ("kimi-k2-1t", 32, ["cluster.nodes_per_domain=9"], 8),
        ("kimi-k2-1t", 32, ["cluster.nodes_per_domain=9", "cluster.usable_nodes=4"], 4),
    ],
)
def test_slices_are_equal_parts_that_a_domain_has_room_for(
    preset: str, nodes: int, sets: list[str], segments: int
) -> None:
    job = planned(preset, nodes * 4, *sets)
    assert f"--segment={segments}" in directives(job)
    assert job.nodes_per_slice == segments
    assert job.mesh.slices * segments == nodes
    assert prod(degree.ici for degree in job.mesh.degrees.values()) == segments * 4
    assert job.mesh.degrees["expert"].ici <= segments * 4


@pytest.mark.parametrize(
    "said",
    [
        ["cluster.usable_nodes=19"],
        ["cluster.nodes_per_domain=19"],
        ["cluster.nodes_per_domain=9", "cluster.usable_nodes=10"],
    ],
)
def test_more_nodes_than_a_domain_has_are_refused(said: list[str]) -> None:
    with pytest.raises(UsageError, match=r"an NVLink domain of .* has (18|9) nodes"):
        planned("kimi-k2-1t", 96, *said)


@given(
    nodes=st.integers(2, 128),
    usable=st.integers(1, 18),
    expert=st.sampled_from([1, 2, 4, 8, 16, 32]),
)
def test_no_slice_is_wider_than_the_usable_nodes_and_all_are_equal(
    nodes: int, usable: int, expert: int
) -> None:
    ici, dcn = solve(
        MeshRequest(
            gpus=nodes * 4,
            gpus_per_node=4,
            domain_gpus=usable * 4,
            ici={"fsdp": 8, "expert": expert},
            dcn={"fsdp": 2},
            experts=256,
        )
    )
    size = prod(ici.values())
    assert size % 4 == 0
    assert size <= usable * 4
    assert size * prod(dcn.values()) == nodes * 4
    assert size % ici.get("expert", 1) == 0  # an expert group lies inside a slice


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"slurm_release": "22.05.8"}, "Slurm 22.05.8 is older than 23.11"),
        ({"slurm_release": "23.02"}, "Slurm 23.02 is older than 23.11"),
        ({"block_topology": False}, "has no topology/block"),
        ({"slurm_release": "24.11.5", "block_topology": False}, "has no topology/block"),
    ],
)
def test_a_slurm_without_segments_is_not_asked_for_one_and_told(
    changes: dict[str, Any], note: str
) -> None:
    job = on(jobs.deepseek(), **changes)
    assert not [line for line in directives(job) if "segment" in line]
    assert note in placement.ask(job).note
    assert f"# --segment=16 is left out: {placement.ask(job).note.partition(': ')[2]}." in (
        launch_script(job)
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"slurm_release": "23.11"},
        {"slurm_release": "24.11.5", "block_topology": True},
        {"slurm_release": "26.05"},
    ],
)
def test_a_segment_is_asked_for_where_the_slurm_has_it(changes: dict[str, Any]) -> None:
    job = on(jobs.deepseek(), **changes)
    assert "--segment=16" in directives(job)
    assert placement.ask(job).note == ""


@pytest.mark.parametrize(
    ("spare", "nodes", "segment", "note"),
    [
        (0, 32, 16, ""),
        (2, 34, 17, ""),
        (1, 34, 17, "2 spare nodes instead of 1, 1 in each segment"),
        (4, 36, 18, ""),
        (5, 37, None, "16 nodes and 3 spare are more than the 18 nodes of an NVLink domain"),
    ],
)
def test_every_segment_gets_the_same_number_of_spare_nodes(
    spare: int, nodes: int, segment: int | None, note: str
) -> None:
    job = on(jobs.deepseek(), spare_nodes=spare)
    asked = placement.ask(job)
    assert (asked.nodes, asked.segment) == (nodes, segment)
    assert asked.spare == nodes - 32
    assert note in asked.note
    assert f"--nodes={nodes}" in directives(job)


def test_spare_nodes_are_asked_for_where_domains_do_not_matter() -> None:
    job = on(jobs.hgx(), spare_nodes=3)
    assert placement.ask(job) == placement.Ask(7, 3, None)
    script = launch_script(job)
    assert "# 3 of these nodes are spare: placement.py picks those that run." in script
    assert "srun --ntasks=7 --ntasks-per-node=1" in script
    assert "  --ntasks=32 --ntasks-per-node=8 \\\n" in script
    assert "--spare 3" in script


@given(
    slices=st.integers(1, 8),
    per_slice=st.integers(1, 18),
    spare=st.integers(0, 20),
)
def test_what_is_asked_for_is_whole_segments(slices: int, per_slice: int, spare: int) -> None:
    job = on(jobs.job(jobs.GB200, slices * per_slice, slice_gpus=per_slice * 4), spare_nodes=spare)
    asked = placement.ask(job)
    assert asked.nodes == job.nodes + asked.spare
    assert asked.spare >= spare
    if asked.segment:
        assert asked.nodes == slices * asked.segment
        assert per_slice <= asked.segment <= 18


@pytest.mark.parametrize(
    ("expert", "fsdp", "nodes", "group", "segment"),
    [
        (64, 2, 32, 16, 16),
        (8, 16, 32, 2, 2),
        (4, 32, 32, 1, None),  # a group is one node
        (1, 128, 32, 1, None),
        (128, 1, 32, 32, None),  # no domain has room for it
        (6, 24, 36, 3, 3),  # two groups on three nodes
    ],
)
def test_in_a_slice_wider_than_a_domain_the_expert_groups_stay_together(
    expert: int, fsdp: int, nodes: int, group: int, segment: int | None
) -> None:
    job = wide(nodes, expert, fsdp)
    assert placement.group_nodes(job) == group
    assert placement.ask(job).segment == segment
    assert (f"--nodes-per-group {group}" in launch_script(job)) == (segment is not None)


def rows(domains: list[str]) -> list[tuple[str, str, str]]:
    return [(f"n{index}", "-", domain) for index, domain in enumerate(domains)]


DOMAINS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=48)


@given(DOMAINS, st.integers(1, 6), st.integers(1, 8), st.sets(st.integers(0, 47), max_size=4))
def test_spare_nodes_leave_whole_slices_in_every_domain_or_the_job_stops(
    domains: list[str], size: int, slices: int, bad: set[int]
) -> None:
    nodes = size * slices
    excluded = frozenset(f"n{index}" for index in bad)
    fit = [row for row in rows(domains) if row[0] not in excluded]
    capacity = sum(
        [row[2] for row in fit].count(domain) // size for domain in {row[2] for row in fit}
    )
    try:
        order, said = program.placed(
            rows(domains), nodes, size, 18, 4, spare=len(domains) - nodes, excluded=excluded
        )
    except ValueError:
        assert capacity < slices or len(fit) == nodes
        return
    assert len(order) == nodes
    assert len({node for node, _ in order}) == nodes
    assert not excluded & {node for node, _ in order}
    for start in range(0, nodes, size):
        assert len({domain for _, domain in order[start : start + size]}) == 1
    where = dict(order)
    assert all(row[2] == where[row[0]] for row in fit if row[0] in where)
    first = fit[0][2]
    if [row[2] for row in fit].count(first) >= size:
        assert order[0][0] == fit[0][0]  # the batch script and the coordinator stay together
    if len(fit) > nodes:
        assert f"{len(fit) - nodes} node" in said


@given(st.permutations(["a"] * 18 + ["b"] * 18))
def test_whole_racks_carry_16_of_18_in_any_order(domains: list[str]) -> None:
    order, said = program.placed(rows(domains), 32, 16, 18, 4, spare=4)
    assert [len({domain for _, domain in order[start : start + 16]}) for start in (0, 16)] == [1, 1]
    assert "32 nodes in 2 NVLink domains (topology blocks), 2 slices" in said
    assert said.endswith(", 4 nodes spare")


def test_too_few_nodes_stop_the_job_with_the_arithmetic() -> None:
    domains = rows(["a"] * 17 + ["b"] * 17)
    with pytest.raises(ValueError, match="31 of 34 nodes answered and are not excluded") as stop:
        program.placed(domains[:31], 32, 16, 18, 4, spare=2)
    assert "the job takes 32" in str(stop.value)
    bad = frozenset(f"n{index}" for index in range(2))
    with pytest.raises(ValueError, match=r"domains of 15 \+ 18 .* which makes 1") as stop:
        program.placed(rows(["a"] * 17 + ["b"] * 18), 32, 16, 18, 4, spare=3, excluded=bad)
    assert "2 x 16 nodes of one NVLink domain" in str(stop.value)


def test_the_first_nodes_run_where_no_domain_can_be_seen() -> None:
    order, said = program.placed(rows(["-"] * 5), 4, 2, 18, 4, spare=1)
    assert [node for node, _ in order] == ["n0", "n1", "n2", "n3"]
    assert "no NVLink domain can be seen" in said
    assert "1 node spare" in said


def test_groups_of_a_wide_slice_stay_in_their_domains() -> None:
    order, said = program.placed(rows(list("abababab")), 8, 8, 4, 4, nodes_per_group=2)
    assert [domain for _, domain in order] == list("aaaabbbb")
    assert "1 slice" in said
    with pytest.raises(ValueError, match="an expert group takes 2 nodes of one domain"):
        program.placed(rows(list("abbbbbbb")), 8, 8, 4, 4, nodes_per_group=2)


def test_srun_is_given_the_hosts_even_when_no_spare_node_answered(tmp_path: Path) -> None:
    (tmp_path / "domains").write_text("0 a - x\n1 b - x\n")
    words = ["order", "--nodes", "2", "--gpus-per-node", "4", "--nodes-per-slice", "2"]
    words += ["--nodes-per-domain", "18", "--spare", "1", str(tmp_path)]
    assert program.main(words) == 0
    assert (tmp_path / "hostfile").read_text().split() == ["a"] * 4 + ["b"] * 4


def test_excluded_nodes_are_read_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "domains").write_text("0 a - x\n1 b - x\n2 c - x\n")
    (tmp_path / "excluded").write_text("a\n")
    words = ["order", "--nodes", "2", "--gpus-per-node", "4", "--nodes-per-slice", "2"]
    words += ["--nodes-per-domain", "18", "--spare", "1", str(tmp_path)]
    assert program.main(words) == 0
    assert (tmp_path / "nodes").read_text() == "b 0 x\nc 0 x\n"
    assert (tmp_path / "hostfile").read_text().split() == ["b"] * 4 + ["c"] * 4


SCRIPTS = {
    "spare": on(jobs.deepseek(), spare_nodes=4),
    "spare, no domains": on(jobs.hgx(), spare_nodes=1),
    "wide": wide(32, 64, 2),
    "old": on(jobs.deepseek(), slurm_release="22.05.8", spare_nodes=1),
    "imported image": on(jobs.deepseek(), image_folder="/img/it's (é)", architecture="aarch64"),
    "apptainer": on(jobs.hgx(), runtime="apptainer"),
    "apptainer, imported": on(
        jobs.deepseek(), runtime="apptainer", image_folder="/i m g", architecture="aarch64"
    ),
}


@pytest.mark.parametrize("job", SCRIPTS.values(), ids=SCRIPTS)
def test_the_scripts_parse_and_shellcheck_has_nothing_to_say(job: Job, tmp_path: Path) -> None:
    path = tmp_path / "launch.sbatch"
    path.write_text(launch_script(job))
    for words in (["bash", "-n"], ["sh", "-n"], [require("shellcheck")]):
        done = subprocess.run([*words, path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
