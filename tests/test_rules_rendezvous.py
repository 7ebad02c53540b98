"""Rules on how processes find each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from moectl.rules import rendezvous, start_up
from moectl.values import Origin, Value
from moectl.workload import UNKNOWN, Layout, Manifest, Text, Workload
from tests.support.scripts import TRAIN, config, found, script, seen

RULES = rendezvous.RULES
PER_GPU = f"{TRAIN} b.yml hardware=gpu_multiprocess"
PER_NODE = f"{TRAIN} b.yml hardware=gpu"
LISTED = "gpu[001-004]"


def _gpu(host: str, more: str = "JAX_COORDINATOR_PORT=$P NNODES=4", srun: str = "srun -N4") -> str:
    return f"export JAX_COORDINATOR_IP={host} {more}\n{srun} bash -c 'NODE_RANK=$R {PER_NODE}'\n"


def _each(address: str, srun: str = "srun -N 4 --exclusive") -> str:
    return f"export JAX_COORDINATOR_ADDRESS={address}\n{srun} {PER_GPU}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[
            (_gpu(host), [("NET101", "error", 1)])
            for host in ("127.0.0.1", "127.1.2.3", "localhost", "LOCALHOST", "::1", "0.0.0.0")  # noqa: S104
        ],
        (_gpu("127.0.0.1", srun="srun -N1"), []),
        (_gpu("127.0.0.1", more="JAX_COORDINATOR_PORT=$P", srun="srun"), []),
        (_gpu("127.0.0.1", srun="srun"), [("NET101", "error", 1)]),  # NNODES tells
        (_gpu("127"), []),
        (_gpu("localhost.example.org"), []),
        (_gpu("node001"), []),
        (_gpu("$HEAD"), []),
        (_each("localhost:12345"), [("NET101", "error", 1)]),
        (_each("127.0.0.1:12345"), [("NET101", "error", 1)]),
        (_each("[::1]:12345"), [("NET101", "error", 1)]),
        (_each("node1:12345"), []),
        (_each("$HEAD:12345"), []),
    ],
)
def test_a_loopback_coordinator_is_an_error_where_nodes_are_several(
    text: str, expected: list[tuple[str, str, int]]
) -> None:
    assert seen(RULES, script(text)) == expected


@pytest.mark.parametrize(
    ("port", "directives", "expected"),
    [
        ("80", "-N 1 --exclusive", [("NET102", "warning", 3)]),
        ("1023", "-N 1 --exclusive", [("NET102", "warning", 3)]),
        ("1024", "-N 1 --exclusive", []),
        ("99999", "-N 1 --exclusive", [("NET102", "error", 3)]),
        ("0", "-N 1 --exclusive", [("NET102", "error", 3)]),
        ("http", "-N 1 --exclusive", [("NET102", "error", 3)]),
        ("-1", "-N 1 --exclusive", [("NET102", "error", 3)]),
        ("12345", "-N 1", [("NET102", "warning", 3)]),
        ("61500", "-N 1", [("NET102", "warning", 3)]),
        ("61500", "-N 1 --exclusive", []),
        ("12345", "-N 1 --gpus-per-node=8", []),
        ("12345", "-N 1 --gpus-per-node=1", [("NET102", "warning", 3)]),
        ("$((20000 + SLURM_JOB_ID % 1000))", "-N 1", []),
    ],
)
def test_ports(port: str, directives: str, expected: list[tuple[str, str, int]]) -> None:
    text = f"#!/bin/bash\n#SBATCH {directives}\nexport JAX_COORDINATOR_PORT={port}\nsrun "
    assert seen(RULES, script(text + PER_GPU)) == expected
    assert seen(RULES, script(text + PER_NODE)) == expected
    assert seen(RULES, script(text + "hostname")) == []


def test_the_port_of_an_address_counts_before_the_port_alone() -> None:
    text = f"export JAX_COORDINATOR_PORT=80 JAX_COORDINATOR_ADDRESS=n1:99999\nsrun {PER_GPU}\n"
    assert seen(RULES, script(text)) == [("NET102", "error", 1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_gpu("node1:1234"), [("NET103", "error", 1)]),
        (_gpu("http://node1"), [("NET103", "error", 1)]),
        (_gpu(f"'{LISTED}'"), [("NET103", "error", 1)]),
        (_gpu("node1,node2"), [("NET103", "error", 1)]),
        (_gpu("''"), [("NET103", "error", 1)]),
        (_gpu("fd00::7"), []),
        (_gpu("node1", more="NNODES=4"), [("NET103", "error", 1)]),
        (f". ./env\n{_gpu('node1', more='NNODES=4')}", []),
        (_each("node1"), [("NET103", "error", 1)]),
        (_each("grpc://node1:1234"), [("NET103", "error", 1)]),
    ],
)
def test_addresses(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert seen(RULES, script(text)) == expected


def test_variables_of_the_other_way_are_noted() -> None:
    text = f"export NNODES=2 NODE_RANK=0 JAX_NUM_PROCESSES=4\nsrun {PER_GPU}\n"
    fields = [(f.severity, f.field) for f in found(RULES, script(text))]
    assert fields == [("note", "NNODES"), ("note", "NODE_RANK"), ("note", "JAX_NUM_PROCESSES")]
    assert found(RULES, script(f"export NNODES=2\nsrun {TRAIN} b.yml hardware=cpu\n")) == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"jax_distributed_initialization_timeout": 30}, [("NET105", "warning", 3)]),
        ({"jax_distributed_initialization_timeout": 0}, [("NET105", "error", 3)]),
        ({"jax_distributed_initialization_timeout": 300}, []),
        ({"heartbeat_reporting_interval_in_seconds": 5}, []),
        ({"jax_distributed_initialization_timeout": UNKNOWN}, []),
    ],
)
def test_timeouts(said: dict[str, Any], expected: list[tuple[str, str, int]]) -> None:
    assert seen(start_up.RULES, config(hardware="gpu", **said)) == expected
    one_node = seen(start_up.RULES, config(1, hardware="gpu", **said))
    assert one_node == [row for row in expected if row[1] == "error"]


CUT = [
    "HEAD=$(echo $SLURM_JOB_NODELIST | cut -d, -f1)",
    "HEAD=$(echo ${SLURM_NODELIST} | awk -F, '{print $1}')",
    'HEAD=`echo "$SLURM_STEP_NODELIST" | tr , " " | head -n1`',
    "HEAD=${SLURM_JOB_NODELIST%%,*}",
    "HEAD=${SLURM_NODELIST:0:9}",
    "HOSTS=(${SLURM_JOB_NODELIST//,/ })",
    'IFS=, read -r HEAD REST <<< "$SLURM_JOB_NODELIST"',
    "cut -d, -f1 <<<$SLURM_JOB_NODELIST",
    "L=$SLURM_JOB_NODELIST; HEAD=$(echo $L | cut -d, -f1)",
    'L="${SLURM_NODELIST}"\nHEAD=${L%%,*}',
    "export JAX_COORDINATOR_IP=$SLURM_JOB_NODELIST JAX_COORDINATOR_PORT=1234",
    "MASTER_ADDR=$SLURM_NODELIST",
]


@pytest.mark.parametrize("line", CUT)
def test_a_host_list_cut_by_hand_is_an_error(line: str) -> None:
    text = f"#!/bin/bash\n{line}\nsrun hostname\n"
    last = 1 + len(line.splitlines())
    assert seen(RULES, script(text)) == [("NET106", "error", last)]
    assert seen(RULES, script(text.replace("#!/bin/bash\n", "#!/bin/bash\n#SBATCH -N 1\n"))) == []


@pytest.mark.parametrize(
    "line",
    [
        'HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "nodes=$(scontrol show hostnames $SLURM_JOB_NODELIST)\nHEAD=$(echo $nodes | cut -d' ' -f1)",
        "# HEAD=${SLURM_JOB_NODELIST%%,*}",
        'echo "nodes: $SLURM_JOB_NODELIST"',
        "echo $SLURM_JOB_NODELIST | wc -w",
        "L=${SLURM_JOB_NODELIST:-none}",
        'srun -w "$SLURM_JOB_NODELIST" hostname | sort | head',
        "echo $SLURM_JOB_NUM_NODES | cut -c1",
    ],
)
def test_a_host_list_left_to_slurm_is_fine(line: str) -> None:
    assert seen(RULES, script(f"#!/bin/bash\n{line}\n")) == []


def test_a_pattern_that_knows_of_brackets_is_a_warning() -> None:
    text = "HEAD=$(echo $SLURM_NODELIST | sed 's/\\[\\([0-9]*\\).*/\\1/')\n"
    assert seen(RULES, script(text)) == [("NET106", "warning", 1)]


def test_a_written_host_list_is_expanded_in_a_note() -> None:
    (note,) = found(RULES, script(f"#!/bin/bash\n#SBATCH -w {LISTED},login1\nsrun true\n"))
    assert (note.code, note.severity) == ("NET107", "note")
    assert note.message == f"{LISTED},login1 is 5 hosts: gpu001, gpu002, gpu003, gpu004, login1"


def test_a_written_host_list_that_is_none_is_an_error() -> None:
    text = "#!/bin/bash\n#SBATCH --nodelist=gpu[004-001]\nsrun true\n"
    assert seen(RULES, script(text)) == [("NET107", "error", 2)]


def _variables(**said: str) -> Workload:
    """A file of variables alone, each on a line of its own."""
    return Workload(
        kind="variables",
        origin=Origin("variables", "nccl $HOME.env", 1, 1),
        maxtext="0.2.5",
        jaxlib="0.12.0.1",
        environment={
            name: Text.of(text, Origin("variables", "nccl $HOME.env", line, 1))
            for line, (name, text) in enumerate(said.items(), start=1)
        },
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"JAX_COORDINATOR_IP": "127.0.0.1", "NNODES": "4"}, [("NET101", "error", 1)]),
        ({"JAX_COORDINATOR_IP": "127.0.0.1", "NNODES": "1"}, []),
        ({"JAX_COORDINATOR_IP": "localhost"}, [("NET101", "warning", 1)]),
        ({"JAX_COORDINATOR_IP": "node1", "NNODES": "4"}, []),
        ({"JAX_COORDINATOR_ADDRESS": "localhost:1234"}, [("NET101", "warning", 1)]),
        ({"JAX_COORDINATOR_ADDRESS": "node1:70000"}, [("NET102", "error", 1)]),
        ({"JAX_COORDINATOR_ADDRESS": "node1"}, [("NET103", "error", 1)]),
        ({"JAX_COORDINATOR_PORT": "22"}, [("NET102", "warning", 1)]),
        ({"JAX_COORDINATOR_PORT": "70000"}, [("NET102", "error", 1)]),
        ({"JAX_COORDINATOR_PORT": "12345"}, []),
        ({"NNODES": "4"}, []),
    ],
)
def test_a_file_of_variables_is_judged_by_what_it_says(
    said: dict[str, str], expected: list[tuple[str, str, int]]
) -> None:
    assert seen(RULES, _variables(**said)) == expected


def test_a_loopback_with_an_unknown_number_of_nodes_is_a_warning_in_a_batch_script() -> None:
    text = "#!/bin/bash\n#SBATCH --ntasks-per-node=8 --exclusive\n" + _each("localhost:1", "srun")
    assert ("NET101", "warning", 3) in seen(RULES, script(text))
    assert seen(RULES, script(text.replace("#SBATCH", "#"))) == [("NET102", "warning", 3)]


def test_the_hint_keeps_the_port_of_an_address() -> None:
    (only,) = found(RULES, script(_each("localhost:12345")))
    assert only.hint.endswith('| head -n 1):12345"')
    assert only.hint.startswith("JAX_COORDINATOR_ADDRESS=")


def test_a_pod_is_not_told_to_ask_slurm() -> None:
    pod = replace(
        _variables(JAX_COORDINATOR_IP="127.0.0.1", JAX_COORDINATOR_PORT="12345"),
        kind="manifest",
        is_maxtext=True,
        effective={"hardware": "gpu"},
        layout=Layout(nodes=Value(4, Origin("manifest"))),
        manifest=Manifest({}, {}),
    )
    (only,) = found(RULES, pod)
    assert only.code == "NET101"
    assert "scontrol" not in only.hint
    assert "service" in only.hint
