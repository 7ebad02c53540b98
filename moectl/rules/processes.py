"""Rules on the process layout: how many processes, and which GPUs each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.rules import processes_nodes, processes_ranks
from moectl.rules.launching import (
    PROCESS_PER_GPU,
    PROCESS_PER_NODE,
    SRUN,
    environment_is_closed,
    known,
    mode,
    option_text,
    place,
    slurm_mode,
    spoken,
    whole,
)
from moectl.rules.rule import Fault, rules
from moectl.workload import Option, Text, Workload

RULES = rules()

_JAX = "JAX 0.12.0.1 _src/clusters/slurm_cluster.py and cluster.py:45-92"
_MAXTEXT = "MaxText 0.2.5 utils/max_utils.py"
_SLURM = "srun(1) of Slurm 22.05.8"

_LOCAL_IDS = "JAX_LOCAL_DEVICE_IDS"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
# Either tells MaxText a process's GPUs where it is one process a node (max_utils.py:322).
_DEVICE_VARIABLES = (_VISIBLE, "SLURM_STEP_GPUS")
_COORDINATOR = "JAX_COORDINATOR_IP"

# --gpu-bind types that give every task GPUs of its own, so that each counts from 0 again.
_BINDS_EACH = ("single", "per_task", "map_gpu", "mask_gpu")
_BINDS_NEAR = ("closest",)
_BINDS_ALL = ("none",)
# Without --gpu-bind these bind the GPUs of each task to it.
_IMPLY_BINDING = ("--gpus-per-task", "--tres-per-task")


@RULES.rule(
    "RUN201",
    "one process a GPU",
    reason="With hardware=gpu_multiprocess every process takes the one GPU of its local rank, so "
    "GPUs without a process stay idle, and a process without a GPU dies.",
    remedy="ask for as many tasks a node as GPUs a node",
    source=f"{_JAX}; {_MAXTEXT}:285; public report jax-ml/jax issue 16788",
)
def one_process_a_gpu(w: Workload) -> Iterator[Fault]:
    """Compare processes and GPUs, by node where both are known, else in all."""
    if slurm_mode(w) != PROCESS_PER_GPU or _LOCAL_IDS in w.environment:
        return
    layout = w.layout
    per_node, gpus_per_node = whole(layout.processes_per_node), whole(layout.gpus_per_node)
    if per_node is not None and gpus_per_node and layout.processes_per_node:
        if per_node == gpus_per_node:
            return
        outcome = (
            f"{gpus_per_node - per_node} of {gpus_per_node} GPUs of every node stay idle"
            if per_node < gpus_per_node
            else f"local rank {gpus_per_node} and above find no GPU"
        )
        yield Fault(
            "--ntasks-per-node",
            f"{_count(per_node, 'process', 'processes')} a node for {gpus_per_node} GPUs a node: "
            f"hardware={PROCESS_PER_GPU} wants one process a GPU, so {outcome}",
            layout.processes_per_node.origin,
            f"--ntasks-per-node={gpus_per_node}",
        )
        return
    total, gpus = whole(layout.processes), whole(layout.gpus)
    if total is not None and gpus and layout.processes and total != gpus and _launched(w):
        nodes = whole(layout.nodes)
        even = nodes is not None and nodes > 0 and gpus % nodes == 0
        yield Fault(
            "--ntasks",
            f"{_count(total, 'process', 'processes')} for {gpus} GPUs"
            f"{place(layout.gpus.origin) if layout.gpus else ''}: "
            f"hardware={PROCESS_PER_GPU} wants one process a GPU",
            layout.processes.origin,
            f"--ntasks-per-node={gpus // nodes} --gpus-per-node={gpus // nodes}"
            if even and nodes
            else f"--ntasks={gpus}",
        )


@RULES.rule(
    "RUN202",
    "GPUs bound to tasks",
    reason="With one GPU visible, a process numbers it 0, but JAX asks for the number of its "
    "local rank: every process but the first of a node dies of an invalid device ordinal.",
    remedy="let every task see the GPUs of its node: --gpus-per-node and --ntasks-per-node, "
    "without --gpus-per-task and --gpu-bind",
    source=f"{_JAX}; {_SLURM}, --gpus-per-task and --gpu-bind; public report jax-ml/jax "
    "issue 23452",
)
def bound_gpus(w: Workload) -> Iterator[Fault]:
    """Find options that hide the GPUs of other tasks from a process."""
    per_node = whole(w.layout.processes_per_node)
    if slurm_mode(w) != PROCESS_PER_GPU or _LOCAL_IDS in w.environment or per_node == 1:
        return
    option, certain = _binding(w)
    if option is None:
        return
    total, nodes = whole(w.layout.processes), whole(w.layout.nodes)
    if per_node is None and total is not None and total in {1, nodes}:
        return
    several = per_node is not None or (
        total is not None and nodes is not None and nodes > 0 and total > nodes
    )
    tasks = f"{per_node} tasks" if per_node is not None else "several tasks"
    yield Fault(
        option.name,
        f"{option.raw} hides the GPUs of the other tasks from each of the {tasks} of a node; JAX "
        "asks for the GPU of its local rank (0, 1, ...), and a process that sees one GPU has "
        "only number 0",
        option.origin,
        f"--gpus-per-node={per_node} --ntasks-per-node={per_node}" if per_node else "",
        severity="error" if several and certain else "warning",
    )


def _binding(w: Workload) -> tuple[Option | None, bool]:
    """Return the option that binds GPUs to tasks, and whether it certainly does."""
    bind = spoken(w, "--gpu-bind")
    text = (option_text(bind) or "").removeprefix("verbose,")
    kind = text.partition(":")[0]
    if bind is not None and option_text(bind) is None:
        return None, False
    if kind in _BINDS_ALL:
        return None, False
    if kind in _BINDS_EACH:
        return bind, True
    if kind in _BINDS_NEAR:
        return bind, False
    implied = spoken(w, *_IMPLY_BINDING)
    return (implied, True) if whole(w.layout.gpus_per_process) == 1 else (None, False)


@RULES.rule(
    "RUN203",
    "several processes on the same GPUs",
    reason="With hardware=gpu every process takes all GPUs it sees, so two processes of a node "
    "claim the same ones.",
    remedy="hardware=gpu_multiprocess for one process a GPU, or --ntasks-per-node=1",
    source=f"{_MAXTEXT}:318-347",
)
def shared_gpus(w: Workload) -> Iterator[Fault]:
    """Find several processes a node where each takes the whole node."""
    per_node = whole(w.layout.processes_per_node)
    if slurm_mode(w) != PROCESS_PER_NODE or per_node is None or per_node < 2:
        return
    if w.layout.gpus_per_process is not None or _binding(w)[0] is not None:
        return
    visible = w.environment.get(_VISIBLE)
    if visible is not None and not visible.known:
        return
    assert w.layout.processes_per_node is not None  # noqa: S101 - it gave the number
    yield Fault(
        "--ntasks-per-node",
        f"{per_node} processes a node, and with hardware={PROCESS_PER_NODE} each takes every GPU "
        "it sees: they claim the same ones",
        w.layout.processes_per_node.origin,
        f"hardware={PROCESS_PER_GPU}, or --ntasks-per-node=1",
    )


@RULES.rule(
    "RUN204",
    "GPUs of a process not named",
    reason="With hardware=gpu MaxText takes a process's GPUs from CUDA_VISIBLE_DEVICES, else "
    "from SLURM_STEP_GPUS; with neither, JAX finds Slurm and takes one GPU a process.",
    remedy="export CUDA_VISIBLE_DEVICES with all GPUs of the node",
    source=f"{_MAXTEXT}:322-345; {_JAX}; public report AI-Hypercomputer/maxtext issue 3433",
    stage="silent",
)
def unnamed_gpus(w: Workload) -> Iterator[Fault]:
    """Find one process a node whose GPUs nobody names."""
    if mode(w) != PROCESS_PER_NODE or w.batch is None or not environment_is_closed(w.batch):
        return
    if _COORDINATOR not in w.environment or set(_DEVICE_VARIABLES) & set(w.environment):
        return
    per_node, gpus = whole(w.layout.processes_per_node), whole(w.layout.gpus_per_node)
    if per_node != 1 or gpus is None or gpus < 2 or w.step is None:
        return
    ids = ",".join(map(str, range(gpus)))
    yield Fault(
        _VISIBLE,
        f"nobody sets {_VISIBLE}, so where Slurm does not set it either, each process takes 1 of "
        f"the {gpus} GPUs of its node and says nothing",
        w.step.origin,
        f"export {_VISIBLE}={ids}",
    )


@RULES.rule(
    "RUN210",
    "one device a process for the TE MoEBlock",
    reason="Transformer Engine's expert-parallel block wants exactly one GPU in each process, "
    "and says so only after start-up.",
    remedy="hardware=gpu_multiprocess with as many tasks a node as GPUs",
    source=f"{_MAXTEXT}:1289-1293",
)
def block_devices(w: Workload) -> Iterator[Fault]:
    """Find several devices a process where the MoEBlock is on."""
    if w.value("te_moe_block") is not True or not mode(w):
        return
    ids = _ids(w.environment.get(_LOCAL_IDS))
    if mode(w) == PROCESS_PER_GPU:
        if ids is not None and len(ids) > 1:
            yield Fault(
                _LOCAL_IDS,
                f"te_moe_block wants one GPU a process, and {_LOCAL_IDS} gives each {len(ids)}",
                w.where(_LOCAL_IDS),
                "one task a GPU, and no JAX_LOCAL_DEVICE_IDS",
            )
        return
    devices = _devices_a_process(w)
    if devices is not None and devices > 1:
        yield Fault(
            "hardware",
            f"te_moe_block wants one GPU a process, and with hardware={PROCESS_PER_NODE} each "
            f"process takes {devices}",
            w.where("hardware"),
            f"hardware={PROCESS_PER_GPU} with --ntasks-per-node={devices}",
        )


def _devices_a_process(w: Workload) -> int | None:
    """Return the GPUs of a process that takes all it sees."""
    if visible := _ids(w.environment.get(_VISIBLE)):
        return len(visible)
    if (bound := whole(w.layout.gpus_per_process)) is not None:
        return bound
    if _VISIBLE in w.environment or whole(w.layout.processes_per_node) not in {None, 1}:
        return None
    return whole(w.layout.gpus_per_node) if w.layout.processes_per_node is not None else None


@RULES.rule(
    "RUN211",
    "local device numbers",
    reason="JAX_LOCAL_DEVICE_IDS holds for every process alike: the GPUs a process takes, in "
    "place of the one of its local rank.",
    remedy="leave JAX_LOCAL_DEVICE_IDS out, or start one task a node and name all its GPUs",
    source="JAX 0.12.0.1 _src/distributed.py:113-116",
)
def local_ids(w: Workload) -> Iterator[Fault]:
    """Compare JAX_LOCAL_DEVICE_IDS with the processes and GPUs of a node."""
    text = known(w.environment.get(_LOCAL_IDS))
    if slurm_mode(w) != PROCESS_PER_GPU or not text:
        return
    origin = w.where(_LOCAL_IDS)
    ids = _ids(w.environment.get(_LOCAL_IDS))
    per_node, gpus = whole(w.layout.processes_per_node), whole(w.layout.gpus_per_node)
    if ids is None:
        yield Fault(_LOCAL_IDS, f"{text!r} is no list of numbers such as 0,1,2,3", origin)
    elif len(set(ids)) < len(ids):
        yield Fault(_LOCAL_IDS, f"{text} names a GPU twice", origin)
    elif per_node is not None and per_node > 1 and _binding(w)[0] is None:
        yield Fault(
            _LOCAL_IDS,
            f"each of the {per_node} processes of a node takes {_gpus_named(ids)}, the same ones",
            origin,
        )
    elif per_node == 1 and gpus is not None and len(ids) < gpus:
        yield Fault(
            _LOCAL_IDS,
            f"one process a node takes {_gpus_named(ids)}, so {gpus - len(ids)} of {gpus} GPUs "
            "stay idle",
            origin,
            f"{_LOCAL_IDS}={','.join(map(str, range(gpus)))}",
        )


@RULES.rule(
    "RUN212",
    "GPUs hidden from processes",
    reason="A GPU that CUDA_VISIBLE_DEVICES leaves out does not exist for the process, and the "
    "rest are numbered from 0.",
    remedy="leave CUDA_VISIBLE_DEVICES to Slurm, or name all GPUs of the node",
    source=f"CUDA C++ programming guide, environment variables; {_JAX}; {_MAXTEXT}:318-347",
)
def hidden_gpus(w: Workload) -> Iterator[Fault]:
    """Compare CUDA_VISIBLE_DEVICES with the processes and GPUs of a node."""
    found = w.environment.get(_VISIBLE)
    per_node, gpus = whole(w.layout.processes_per_node), whole(w.layout.gpus_per_node)
    way = slurm_mode(w)
    if found is None or not way or per_node is None:
        return
    if not found.known:
        raw = "".join(piece.raw for piece in found.pieces)
        ranked = way == PROCESS_PER_GPU and _LOCAL_IDS not in w.environment
        if ranked and per_node > 1 and "SLURM_LOCALID" in raw:
            yield Fault(
                _VISIBLE,
                "every process sees one GPU and numbers it 0, but JAX asks for the number of "
                f"its local rank, up to {per_node - 1}",
                found.origin,
            )
        return
    visible = len([part for part in found.text.split(",") if part.strip()])
    if way == PROCESS_PER_GPU and visible < per_node and _LOCAL_IDS not in w.environment:
        yield Fault(
            _VISIBLE,
            f"{found.text!r} shows {_count(visible, 'GPU', 'GPUs')} to each of the {per_node} "
            "processes of a node, and each wants the one of its local rank",
            found.origin,
        )
    elif way == PROCESS_PER_NODE and per_node == 1 and gpus is not None and visible < gpus:
        yield Fault(
            _VISIBLE,
            f"{found.text!r} shows {_count(visible, 'GPU', 'GPUs')} of {gpus} to the one process "
            "of a node; the rest stay idle",
            found.origin,
            f"{_VISIBLE}={','.join(map(str, range(gpus)))}",
        )


def _ids(text: Text | None) -> list[int] | None:
    """Return the numbers of a list such as "0,1,2"; None when it is something else."""
    found = known(text)
    if not found:
        return None
    parts = [part.strip() for part in found.split(",")]
    good = all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts)
    return [int(part) for part in parts] if good else None


def _gpus_named(ids: list[int]) -> str:
    return f"GPU{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _launched(w: Workload) -> bool:
    """Whether srun starts it, or nobody says what does."""
    return w.step is None or w.step.program == SRUN or w.batch is None


RULES.all.extend(processes_ranks.RULES.all)
RULES.all.extend(processes_nodes.RULES.all)
