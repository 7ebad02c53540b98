"""The layout a script asks for, as Slurm would have it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moectl.settings.layout import count, gpu_count, gres_gpus, is_heterogeneous, script_layout
from moectl.settings.shell import read_script
from moectl.workload import UNKNOWN, Layout
from tests.support.scripts import HOSTILE

NAMES = (
    "nodes", "processes", "processes_per_node", "gpus", "gpus_per_node", "gpus_per_process",
    "cpus_per_process",
)  # fmt: skip


def _layout(directives: str, command: str = "srun hostname") -> Layout:
    text = "#!/bin/bash\n" + (f"#SBATCH {directives}\n" if directives else "") + command + "\n"
    batch = read_script(text, "job.sh")
    step = next((s for s in batch.steps if s.program in {"srun", "python3", "mpirun"}), None)
    return script_layout(batch, step)


def _values(layout: Layout) -> dict[str, object]:
    said = {name: getattr(layout, name) for name in NAMES}
    return {name: value.value for name, value in said.items() if value is not None}


def _shape(nodes: object, processes: object, each: object) -> dict[str, object]:
    return {"nodes": nodes, "processes": processes, "processes_per_node": each}


@pytest.mark.parametrize(
    ("directives", "command", "expected"),
    [
        ("-N 2 --ntasks-per-node=4", "srun x", _shape(2, 8, 4)),
        ("--nodes=2-2 --tasks-per-node 4", "srun x", _shape(2, 8, 4)),
        ("-N2 -n8", "srun x", _shape(2, 8, 4)),
        ("-N 3 -n 8", "srun x", _shape(3, 8, UNKNOWN)),
        ("-n 8", "srun x", {"processes": 8}),
        ("-N 4", "srun x", _shape(4, 4, 1)),
        ("", "srun -N4 x", _shape(4, 4, 1)),
        ("", "srun -N 1k x", _shape(1024, 1024, 1)),
        ("-N 2 --ntasks-per-node=4", "srun -n 2 x", _shape(2, 2, UNKNOWN)),
        ("-N 2 --ntasks-per-node=4", "srun --ntasks-per-node=1 x", _shape(2, 2, 1)),
        # Slurm keeps the job's tasks and cannot place them
        ("-N 2 --ntasks-per-node=4", "srun -N 1 x", _shape(1, UNKNOWN, UNKNOWN)),
        ("-N 2 --ntasks-per-node=4", "srun -N 2 x", _shape(2, 8, 4)),
        ("-N 2 --ntasks-per-node=4", "srun -N 1 -n 1 x", _shape(1, 1, UNKNOWN)),
        # an upper limit, because --ntasks is said
        ("-N 2 -n 4 --ntasks-per-node=4", "srun x", _shape(2, 4, UNKNOWN)),
        ("--ntasks-per-node=4", "srun x", {"processes_per_node": 4}),
        ("--nodes=2-4 --ntasks-per-node=4", "srun x", _shape(UNKNOWN, UNKNOWN, 4)),
        ("-N 2", "srun --ntasks=$TASKS x", _shape(2, UNKNOWN, UNKNOWN)),
        ("-N 2", "srun $OPTIONS --label x", dict.fromkeys(NAMES, UNKNOWN)),
        ("-N 2 --ntasks-per-socket=2", "srun x", {"nodes": 2, "processes": UNKNOWN,
                                                  "processes_per_node": UNKNOWN}),
        ("-N 2", "python3 x.py", _shape(1, 1, 1)),
        ("-N 1", "python3 x.py", _shape(1, 1, 1)),
        ("-N 2 -n 16", "mpirun -n 4 x", {"nodes": 2}),
        ("", "python3 x.py", {}),
        ("-N two", "srun x", _shape(UNKNOWN, UNKNOWN, 1)),
    ],
)  # fmt: skip
def test_nodes_and_tasks(directives: str, command: str, expected: dict[str, object]) -> None:
    assert _values(_layout(directives, command)) == expected


@pytest.mark.parametrize(
    ("directives", "total", "per_node", "per_task"),
    [
        ("-N 2 --gpus-per-node=4", 8, 4, None),
        ("-N 2 --gpus-per-node=gb200:4", 8, 4, None),
        ("-N 2 --gres=gpu:4", 8, 4, None),
        ("-N 2 --gres=gpu:h100:4,nvme:1", 8, 4, None),
        ("-N 2 --gres=nvme:1", None, None, None),
        ("-N 2 --gres=gpu", 2, 1, None),
        ("-N 2 --gpus=4", 4, None, None),
        ("-N 1 --gpus=4", 4, 4, None),
        ("--gpus=h100:3,a100:2", 5, None, None),
        ("-N 2 --ntasks-per-node=4 --gpus-per-task=2", 16, 8, 2),
        ("-n 8 --gpus-per-task=1", 8, None, 1),
        ("--ntasks-per-node=2 --gpus-per-task=1", None, 2, 1),
        ("-N 2 --gpus-per-socket=2", UNKNOWN, UNKNOWN, None),
        ("-N 2 --tres-per-task=gres/gpu:1 -n 8", 8, 4, 1),
        ("-N 2", None, None, None),
        ("-N 2 --gres=gpu:0", 0, 0, None),
    ],
)
def test_gpus(directives: str, total: object, per_node: object, per_task: object) -> None:
    found = _values(_layout(directives))
    assert [found.get(n) for n in ("gpus", "gpus_per_node", "gpus_per_process")] == [
        total, per_node, per_task,
    ]  # fmt: skip


def test_what_srun_asks_of_gpus_replaces_what_the_script_asks() -> None:
    found = _values(_layout("-N 2 --gpus-per-node=8", "srun --gres=gpu:2 x"))
    assert (found["gpus_per_node"], found["gpus"]) == (2, 4)


def test_tasks_follow_gpus_where_srun_is_told_so() -> None:
    assert _values(_layout("--gpus=8 --gpus-per-task=2"))["processes"] == 4
    assert _values(_layout("--gpus=8 --ntasks-per-gpu=2"))["processes"] == 16


def test_every_value_knows_the_line_that_said_it() -> None:
    text = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --ntasks-per-node=4\n#SBATCH -c 8\nsrun x\n"
    batch = read_script(text, "job.sh")
    found = script_layout(batch, batch.steps[0])
    said = [found.nodes, found.processes, found.cpus_per_process]
    assert [value.origin.line for value in said if value] == [2, 3, 4]


def test_an_allocation_without_a_step_has_its_directives_alone() -> None:
    batch = read_script("#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=4\n", "job.sh")
    assert _values(script_layout(batch, None)) == _shape(2, 8, 4)


@pytest.mark.parametrize("word", ["hetjob", "packjob"])
def test_several_allocations_are_told_by_nobody(word: str) -> None:
    text = f"#!/bin/bash\n#SBATCH -N 1\n#SBATCH {word}\n#SBATCH -N 4\nsrun x\n"
    batch = read_script(text, "job.sh")
    assert is_heterogeneous(batch)
    assert _values(script_layout(batch, batch.steps[0])) == dict.fromkeys(NAMES, UNKNOWN)


def test_a_step_of_one_of_several_allocations_is_not_told() -> None:
    found = _values(_layout("-N 2", "srun --het-group=1 x"))
    assert found == dict.fromkeys(NAMES, UNKNOWN)


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("1k", 1024), ("2M", 2 * 1024**2), ("3-3", 3), ("2-4", None), ("", None),
     ("-1", None), ("2.5", None), ("\uff11", None), ("9" * 40, None), (None, None)],
)  # fmt: skip
def test_a_count_is_read_as_slurm_does(text: str | None, number: int | None) -> None:
    assert count(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("h100:8", 8), ("h100", 1), ("h100:4,a100:2", 6), ("8,4", None), ("a:b:4", None),
     ("h100:x", None), ("", None), (None, None)],
)  # fmt: skip
def test_a_gpu_count_is_read_as_slurm_does(text: str | None, number: int | None) -> None:
    assert gpu_count(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [("gpu:8", 8), ("gpu", 1), ("gpu:h100", 1), ("gpu:h100:8", 8), ("gres:gpu:8", 8),
     ("gpu:a:2,gpu:b:2", 4), ("nvme:3", None), ("none", None), ("gpu:a:b", None), (None, None)],
)  # fmt: skip
def test_the_gpus_of_a_gres_list(text: str | None, number: int | None) -> None:
    assert gres_gpus(text) == number


@given(st.integers(1, 500), st.integers(1, 16), st.integers(1, 16))
def test_products_and_shares_agree(nodes: int, tasks: int, gpus: int) -> None:
    by_node = _values(_layout(f"-N {nodes} --ntasks-per-node={tasks} --gpus-per-node={gpus}"))
    assert (by_node["processes"], by_node["gpus"]) == (nodes * tasks, nodes * gpus)
    in_all = _values(_layout(f"-N {nodes} -n {nodes * tasks} --gpus-per-node={gpus}"))
    assert in_all == by_node


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_script_has_a_layout_all_the_same(text: str) -> None:
    batch = read_script(text, "x")
    for step in (None, *batch.steps):
        assert isinstance(script_layout(batch, step), Layout)


@pytest.mark.parametrize(
    "text",
    ["-nodes=2", "---nodes=2", "--N 2", "-N=2", "\u2013nodes=2", "\u2014nodes=2", "-nodes 2"],
)
def test_a_malformed_option_counts_as_what_is_meant(text: str) -> None:
    batch = read_script(f"#!/bin/bash\n#SBATCH {text}\n#SBATCH --ntasks-per-node=4\nsrun x\n", "j")
    found = script_layout(batch, batch.steps[0])
    assert found.nodes is not None
    assert found.nodes.value == 2
    assert found.processes is not None
    assert found.processes.value == 8


@pytest.mark.parametrize("text", ["--nodes-2", "--nods=2", "-x=2", "nodes=2", "--=2", "-"])
def test_what_is_no_option_counts_as_none(text: str) -> None:
    batch = read_script(f"#!/bin/bash\n#SBATCH {text}\nsrun x\n", "j")
    assert script_layout(batch, batch.steps[0]).nodes is None
