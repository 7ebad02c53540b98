"""Rules on the process layout."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moectl.actions.plan import Wishes
from moectl.actions.render import render
from moectl.facts.hardware import platform
from moectl.rules import containers, processes, rendezvous, slurm, storage
from moectl.values import Origin, Value
from moectl.workload import UNKNOWN, Layout, Manifest, Text, Workload
from tests.support.clean_scripts import CLEAN
from tests.support.scripts import HOSTILE, config, found, script, seen

RULES = processes.RULES
TRAIN = "python3 -m maxtext.trainers.pre_train.train base.yml run_name=r"
PER_GPU = f"{TRAIN} hardware=gpu_multiprocess"
PER_NODE = f"{TRAIN} hardware=gpu"
TOLD = (
    "export JAX_COORDINATOR_IP=node001 JAX_COORDINATOR_PORT=2222 NNODES=2 "
    "CUDA_VISIBLE_DEVICES=0,1,2,3\n"
)
RANKED = f"srun bash -c 'NODE_RANK=$SLURM_PROCID {PER_NODE}'\n"


def _job(directives: str, command: str) -> str:
    return f"#!/bin/bash\n#SBATCH {directives}\n{command}\n"


@pytest.mark.parametrize(
    ("directives", "command", "expected"),
    [
        # one process a GPU
        ("-N 2 --ntasks-per-node=1 --gpus=4", f"srun {PER_GPU}", [("RUN201", "error", 2)]),
        ("-N 2 --tasks-per-node 1 --gpus-per-node 8", f"srun {PER_GPU}", [("RUN201", "error", 2)]),
        ("-N 2 --gres=gpu:8", f"srun {PER_GPU}", [("RUN201", "error", 2)]),
        ("-N 2 -n 8 --gres=gpu:8", f"srun {PER_GPU}", [("RUN201", "error", 2)]),
        ("-N 1 --ntasks-per-node=8 --gpus-per-node=4", f"srun {PER_GPU}",
         [("RUN201", "error", 2)]),
        ("-N 2 --gpus-per-node=8", f"srun -n 4 {PER_GPU}", [("RUN201", "error", 3)]),
        ("-N 2 --ntasks-per-node=8 --gpus-per-node=8", f"srun {PER_GPU}", []),
        ("-N 2 --ntasks-per-node=8 --gpus=16", f"srun {PER_GPU}", []),
        ("-N 2 --ntasks-per-node=1 --gpus-per-node=8", f"srun {TRAIN}", []),
        ("-N 2 --ntasks-per-node=1 --gpus-per-node=8",
         f"srun {PER_GPU} skip_jax_distributed_system=true", []),
        ("-N 2 --ntasks-per-node=$T --gpus-per-node=8", f"srun {PER_GPU}", []),
        # binding hides GPUs
        ("--ntasks-per-node=2 --gpus-per-task=1", f"srun {PER_GPU}", [("RUN202", "error", 2)]),
        ("-N 2 -n 16 --gpus-per-task=1", f"srun {PER_GPU}", [("RUN202", "error", 2)]),
        ("-n 16 --gpus-per-task=1", f"srun {PER_GPU}", [("RUN202", "warning", 2)]),
        ("-N 2 --ntasks-per-node=4 --gpus-per-node=4", f"srun --gpu-bind=single:1 {PER_GPU}",
         [("RUN202", "error", 3)]),
        ("-N 2 --ntasks-per-node=4 --gpus-per-node=4",
         f"srun --gpu-bind=verbose,map_gpu:0,1,2,3 {PER_GPU}", [("RUN202", "error", 3)]),
        ("-N 2 --ntasks-per-node=4 --gpus-per-node=4", f"srun --gpu-bind=closest {PER_GPU}",
         [("RUN202", "warning", 3)]),
        ("-N 2 --ntasks-per-node=4 --gpus-per-task=1", f"srun --gpu-bind=none {PER_GPU}", []),
        ("-N 2 --ntasks-per-node=1 --gpus-per-task=1", f"srun {PER_GPU}", []),
        ("-N 2 --ntasks-per-node=4 --gpus-per-task=1",
         f"export JAX_LOCAL_DEVICE_IDS=0\nsrun {PER_GPU}", []),
        ("-N 2 --ntasks-per-node=4 --gpus-per-task=1", f"srun --gpu-bind=$B {PER_GPU}", []),
        # several processes that each take the node
        ("-N 2 --ntasks-per-node=4 --gpus-per-node=4",
         f"{TOLD.replace('NNODES=2', 'NNODES=8')}{RANKED}", [("RUN203", "error", 2)]),
        # JAX_LOCAL_DEVICE_IDS
        ("-N 2 --ntasks-per-node=1 --gpus-per-node=4",
         f"export JAX_LOCAL_DEVICE_IDS=0,1,2,3\nsrun {PER_GPU}", []),
        ("-N 2 --ntasks-per-node=1 --gpus-per-node=4",
         f"export JAX_LOCAL_DEVICE_IDS=0,1\nsrun {PER_GPU}", [("RUN211", "error", 3)]),
        ("-N 2 --ntasks-per-node=4 --gpus-per-node=4",
         f"export JAX_LOCAL_DEVICE_IDS=0\nsrun {PER_GPU}", [("RUN211", "error", 3)]),
        ("-N 1", f"export JAX_LOCAL_DEVICE_IDS=all\nsrun {PER_GPU}", [("RUN211", "error", 3)]),
        ("-N 1", f"export JAX_LOCAL_DEVICE_IDS=0,0\nsrun {PER_GPU}", [("RUN211", "error", 3)]),
        # CUDA_VISIBLE_DEVICES
        ("-N 2 --ntasks-per-node=4 --gpus-per-node=4",
         f"export CUDA_VISIBLE_DEVICES=0\nsrun {PER_GPU}", [("RUN212", "error", 3)]),
        ("-N 2 --ntasks-per-node=4 --gpus-per-node=4",
         f"srun bash -c 'CUDA_VISIBLE_DEVICES=$SLURM_LOCALID {PER_GPU}'",
         [("RUN212", "error", 3)]),
        ("-N 2 --ntasks-per-node=4 --gpus-per-node=4",
         f"export CUDA_VISIBLE_DEVICES=0,1,2,3\nsrun {PER_GPU}", []),
        ("-N 2 --ntasks-per-node=1 --gpus-per-node=8", f"{TOLD}{RANKED}",
         [("RUN212", "error", 3)]),
        # not in srun
        ("-N 2 --ntasks-per-node=8 --gpus-per-node=8", PER_GPU, [("RUN209", "error", 3)]),
        ("-N 2 --ntasks-per-node=8 --gpus-per-node=8", f"mpirun -n 16 {PER_GPU}", []),
    ],
)  # fmt: skip
def test_processes_and_gpus(
    directives: str, command: str, expected: list[tuple[str, str, int]]
) -> None:
    assert seen(RULES, script(_job(directives, command))) == expected


ONE_A_NODE = "-N 2 --ntasks-per-node=1 --gpus-per-node=4"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (TOLD + RANKED, []),
        # the GPUs of the one process
        (TOLD.replace(" CUDA_VISIBLE_DEVICES=0,1,2,3", "") + RANKED, [("RUN204", "error", 4)]),
        (f"source env.sh\n{TOLD.replace(' CUDA_VISIBLE_DEVICES=0,1,2,3', '')}{RANKED}", []),
        # the number of processes
        (TOLD.replace("NNODES=2", "NNODES=4") + RANKED, [("RUN205", "error", 3)]),
        (TOLD.replace("NNODES=2", "NNODES=two") + RANKED, [("RUN205", "error", 3)]),
        (TOLD.replace("NNODES=2 ", "") + RANKED, [("RUN205", "error", 3)]),
        (TOLD.replace("NNODES=2", "NNODES=$SLURM_NNODES") + RANKED, []),
        # the rank
        (f"{TOLD}srun {PER_NODE}", [("RUN206", "error", 3)]),
        (f"{TOLD}export NODE_RANK=0\nsrun {PER_NODE}", [("RUN206", "error", 4)]),
        (f"{TOLD}export NODE_RANK=$SLURM_NODEID\nsrun {PER_NODE}", [("RUN206", "error", 4)]),
        (f'{TOLD}srun bash -c "NODE_RANK=$SLURM_PROCID {PER_NODE}"', [("RUN206", "error", 4)]),
        (f'{TOLD}srun bash -c "NODE_RANK=\\$SLURM_PROCID {PER_NODE}"', []),
        (f"{TOLD}srun bash -c 'export NODE_RANK=$SLURM_NODEID; {PER_NODE}'", []),
        # nobody connects them
        (f"srun {PER_NODE}", [("RUN207", "error", 3)]),
        (f". /etc/cluster.env\nsrun {PER_NODE}", []),
        (f"srun -N 1 -n 1 {PER_NODE}", []),
    ],
)
def test_one_process_a_node(command: str, expected: list[tuple[str, str, int]]) -> None:
    assert seen(RULES, script(_job(ONE_A_NODE, command))) == expected


def test_a_script_that_is_no_batch_job_may_get_its_coordinator_from_the_shell() -> None:
    assert seen(RULES, script(f"srun -N 8 {PER_NODE}")) == [("RUN207", "warning", 1)]


def test_slurm_variables_set_by_hand_are_no_task_of_srun() -> None:
    text = f"# an ssh session\nexport SLURM_JOB_ID=12345\n{PER_GPU}\n"
    assert seen(RULES, script(text)) == [("RUN209", "warning", 2)]
    assert seen(RULES, script(f"SLURM_PROCID=0 SLURM_JOB_ID=7 {PER_GPU}")) == [
        ("RUN209", "warning", 1)
    ]
    names = ("JOB_ID", "STEP_NODELIST", "NTASKS", "PROCID", "LOCALID")
    complete = "export " + " ".join(f"SLURM_{name}=1" for name in names)
    assert seen(RULES, script(f"{complete}\n{PER_GPU}")) == []


def test_the_moe_block_wants_one_device_a_process() -> None:
    text = _job(ONE_A_NODE, f"{TOLD}{RANKED}")
    (fault,) = [f for f in found(RULES, script(text, te_moe_block=True)) if f.severity == "error"]
    assert (fault.code, fault.line) == ("RUN210", 4)
    assert "each process takes 4" in fault.message
    assert seen(RULES, script(text)) == []
    one_each = _job("-N 2 --ntasks-per-node=4 --gpus-per-node=4", f"srun {PER_GPU}")
    assert seen(RULES, script(one_each, te_moe_block=True)) == []
    ids = _job(ONE_A_NODE, f"export JAX_LOCAL_DEVICE_IDS=0,1,2,3\nsrun {PER_GPU}")
    assert seen(RULES, script(ids, te_moe_block=True)) == [("RUN210", "error", 3)]


def test_all_processes_in_one_slice_do_not_make_the_slices_of_the_mesh() -> None:
    def text(index: str) -> str:
        return _job(
            "-N 2 --ntasks-per-node=4 --gpus-per-node=4",
            f"export JAX_PARTITION_INDEX={index}\nsrun {PER_GPU} dcn_data_parallelism=2",
        )

    assert seen(RULES, script(text("0"))) == [("RUN213", "error", 3)]
    assert seen(RULES, script(text("first"))) == [("RUN213", "error", 3)]
    assert seen(RULES, script(text("$SLURM_NODEID"))) == []
    assert seen(RULES, script(text("0"), dcn_data_parallelism=1)) == []
    assert seen(RULES, script(text("0"), dcn_data_parallelism=UNKNOWN)) == []


def test_a_dead_task_is_a_note_unless_srun_ends_the_others() -> None:
    shape = "-N 2 --ntasks-per-node=4 --gpus-per-node=4"
    codes = [f.code for f in found(RULES, script(_job(shape, f"srun {PER_GPU}")))]
    assert codes == ["RUN214"]
    assert found(RULES, script(_job(shape, f"srun -K1 {PER_GPU}"))) == []
    told = f"export SLURM_KILL_BAD_EXIT=1\nsrun {PER_GPU}"
    assert found(RULES, script(_job(shape, told))) == []


def test_nodes_of_nvl72_are_asked_for_by_segment() -> None:
    gb200 = platform("gb200-nvl72")

    def severities(nodes: int, more: str = "") -> list[str]:
        text = _job(f"-N {nodes} --ntasks-per-node=4 --gpus-per-node=4 {more}", f"srun {PER_GPU}")
        w = script(text, hardware=gb200)
        return [f.severity for f in found(RULES, w) if f.code == "RUN215"]

    assert severities(32) == ["warning"]
    assert severities(16) == ["note"]
    assert severities(1) == []
    assert severities(32, "--segment=16") == []
    text = _job("-N 32 --ntasks-per-node=8 --gpus-per-node=8", f"srun {PER_GPU}")
    assert "RUN215" not in [f.code for f in found(RULES, script(text, hardware=platform("h100")))]


@pytest.mark.parametrize("request_", ["--gpus-per-node=8", "--gres=gpu:8"])
def test_a_node_has_no_more_gpus_than_its_platform(request_: str) -> None:
    text = _job(f"-N 2 --ntasks-per-node=8 {request_}", f"srun {PER_GPU}")
    w = script(text, hardware=platform("gb300"))
    (fault,) = [f for f in found(RULES, w) if f.severity == "error"]
    assert (fault.code, fault.hint) == ("RUN216", "--nodes=4 --gpus-per-node=4")
    assert seen(RULES, script(text, hardware=platform("h200"))) == []


def test_the_type_of_a_gpu_request_tells_the_platform() -> None:
    text = _job("-N 2 --ntasks-per-node=8 --gpus-per-node=gb200:8", f"srun {PER_GPU}")
    assert seen(RULES, script(text)) == [("RUN216", "error", 2)]
    unknown = _job("-N 2 --ntasks-per-node=8 --gres=gpu:x9000:8", f"srun {PER_GPU}")
    assert seen(RULES, script(unknown)) == []


def test_what_the_command_line_says_of_the_layout_is_judged_as_well() -> None:
    layout = Layout(
        processes_per_node=Value(1, Origin("file", "f", 4)),
        gpus_per_node=Value(8, Origin("--gpus-per-node")),
    )
    assert seen(RULES, script(f"srun {PER_GPU}", layout=layout)) == [("RUN201", "error", 4)]


def test_a_config_alone_says_nothing_of_processes() -> None:
    for hardware in ("gpu", "gpu_multiprocess", UNKNOWN):
        assert found(RULES, config(hardware=hardware, te_moe_block=True)) == []


def test_pods_have_no_local_ranks() -> None:
    layout = Layout(
        processes_per_node=Value(1, Origin("job.yaml")), gpus_per_node=Value(8, Origin("job.yaml"))
    )
    w = config(hardware="gpu_multiprocess")
    assert seen(RULES, replace(w, layout=layout)) == [("RUN201", "error", None)]
    assert seen(RULES, replace(w, layout=layout, manifest=Manifest({}, {}))) == []


ALL = (processes, rendezvous, slurm, containers, storage)


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_script_has_no_finding_above_a_note(name: str) -> None:
    w = script(CLEAN[name])
    assert w.is_maxtext
    assert [finding for module in ALL for finding in seen(module.RULES, w)] == []


@pytest.mark.parametrize("preset", ["deepseek3-671b", "mixtral-8x7b", "gpt-oss-20b"])
def test_our_own_launch_script_is_clean(preset: str) -> None:
    rendered = render(preset, Wishes())
    w = script(rendered.files["launch.sbatch"])
    assert w.layout.gpus is not None
    assert w.layout.gpus.value == rendered.job.gpus
    assert [finding for module in ALL for finding in seen(module.RULES, w)] == []


@pytest.mark.parametrize("text", HOSTILE)
def test_no_rule_fails_on_a_hostile_script(text: str) -> None:
    w = script(text)
    for module in ALL:
        for finding in found(module.RULES, w):
            assert finding.message
            assert "\0" not in finding.message + finding.hint


_WORDS = (
    "#SBATCH", "#sbatch", "--nodes=2", "-N", "4", "-n8", "--ntasks-per-node=8", "-mem=0", "--N",
    "--gpus-per-node=8", "--gres=gpu:h100:8", "--gpus-per-task=1", "--gpu-bind=single:1", "hetjob",
    "--export=A=$B", "--container-image=nvcr.io/x/y", "--container-mounts=a:b,$C:", "--exclusive",
    "srun", "srun $X", "enroot import", "docker run", "export", "NNODES=2",
    "NODE_RANK=$SLURM_PROCID",
    "JAX_COORDINATOR_IP=localhost", "JAX_COORDINATOR_PORT=99999", "CUDA_VISIBLE_DEVICES=0,x",
    "JAX_LOCAL_DEVICE_IDS=0,0", "JAX_PARTITION_INDEX=0", "bash -c '", "'", '"', "\\\n", "\n", "\n",
    "echo $SLURM_NODELIST | cut", TRAIN, "hardware=gpu", "hardware=gpu_multiprocess", "=", "~",
    "base_output_directory=/tmp/x", "te_moe_block=true", "$(", ")", "\u2013", "--",
)  # fmt: skip


@given(st.lists(st.sampled_from(_WORDS), max_size=30).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_no_rule_fails_on_any_mixture_of_words(text: str) -> None:
    w = script(text)
    for module in ALL:
        for finding in found(module.RULES, w):
            assert finding.message
            assert "\0" not in finding.message + finding.hint + finding.field


@pytest.mark.parametrize(
    ("directives", "hint"),
    [
        ("-N 4 -n 16 --gpus-per-node=8", "--ntasks=32, or --ntasks-per-node=8 in its place"),
        ("-N 4 --ntasks-per-node=4 --gpus-per-node=8", "--ntasks-per-node=8"),
        (
            "-N 4 -n 16 --ntasks-per-node=4 --gpus-per-node=8",
            "--ntasks=32 --ntasks-per-node=8, or leave --ntasks out",
        ),
        ("-N 4 --gpus-per-node=8", "--ntasks-per-node=8"),
        ("-n 16 --gpus=32", "--ntasks=32"),
    ],
)
def test_the_hint_for_tasks_fits_what_is_said(directives: str, hint: str) -> None:
    text = f"#!/bin/bash\n#SBATCH {directives}\nsrun {TRAIN} b.yml hardware=gpu_multiprocess\n"
    got = [finding for finding in found(RULES, script(text)) if finding.code == "RUN201"]
    assert [finding.hint for finding in got] == [hint]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"SLURM_JOB_ID": "123", "SLURM_NTASKS": "8"}, [("RUN209", "warning", 1)]),
        ({"SLURM_JOB_ID": ""}, [("RUN209", "warning", 1)]),
        ({"NNODES": "4", "SLURM_PROCID": "0"}, [("RUN209", "warning", 2)]),
        ({"SLURM_CONF": "/etc/slurm.conf", "NCCL_DEBUG": "INFO"}, []),
    ],
)
def test_variables_of_a_task_in_a_file_of_variables(
    said: dict[str, str], expected: list[tuple[str, str, int]]
) -> None:
    w = Workload(
        kind="variables",
        origin=Origin("variables", "x.env", 1, 1),
        maxtext="0.2.5",
        jaxlib="0.12.0.1",
        environment={
            name: Text.of(text, Origin("variables", "x.env", line, 1))
            for line, (name, text) in enumerate(said.items(), start=1)
        },
    )
    assert seen(RULES, w) == expected
