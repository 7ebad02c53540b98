"""Rules on the process layout: how many processes, and which GPUs each of them takes."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.rules import processes_devices, processes_nodes, processes_ranks
from moectl.rules.launching import (
    PROCESS_PER_GPU,
    PROCESS_PER_NODE,
    SRUN,
    closed_container,
    environment_is_closed,
    mode,
    place,
    slurm_mode,
    spoken,
    whole,
)
from moectl.rules.processes_devices import LOCAL_IDS, VISIBLE, binding, counted
from moectl.rules.rule import Fault, rules
from moectl.workload import Workload

RULES = rules()

_JAX = "JAX 0.12.0.1 _src/clusters/slurm_cluster.py and cluster.py:45-92"
_MAXTEXT = "MaxText 0.2.5 utils/max_utils.py"
_SLURM = "srun(1) of Slurm 22.05.8"

# Either tells MaxText a process's GPUs where it is one process a node (max_utils.py:322).
_DEVICE_VARIABLES = (VISIBLE, "SLURM_STEP_GPUS")
_COORDINATOR = "JAX_COORDINATOR_IP"


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
    if slurm_mode(w) != PROCESS_PER_GPU or LOCAL_IDS in w.environment or w.alone:
        return  # what no srun starts, RUN209 tells
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
        name = "--ntasks" if _follows_from_total(w) else "--ntasks-per-node"
        yield Fault(
            name,
            f"{counted(per_node, 'process', 'processes')} a node for {gpus_per_node} GPUs a node: "
            f"hardware={PROCESS_PER_GPU} wants one process a GPU, so {outcome}",
            layout.processes_per_node.origin,
            _as_many_tasks(w, gpus_per_node),
        )
        return
    total, gpus = whole(layout.processes), whole(layout.gpus)
    if total is not None and gpus and layout.processes and total != gpus and _launched(w):
        nodes = whole(layout.nodes)
        even = nodes is not None and nodes > 0 and gpus % nodes == 0
        yield Fault(
            "--ntasks",
            f"{counted(total, 'process', 'processes')} for {gpus} GPUs"
            f"{place(layout.gpus.origin) if layout.gpus else ''}: "
            f"hardware={PROCESS_PER_GPU} wants one process a GPU",
            layout.processes.origin,
            _as_many_tasks(w, gpus // nodes) if even and nodes else f"--ntasks={gpus}",
        )


def _follows_from_total(w: Workload) -> bool:
    """Whether nobody says the processes a node, so that they follow from --ntasks."""
    return spoken(w, "--ntasks") is not None and spoken(w, "--ntasks-per-node") is None


def _as_many_tasks(w: Workload, each: int) -> str:
    """Return the options that start `each` tasks a node; an --ntasks that is said must follow."""
    nodes = whole(w.layout.nodes)
    per_node = f"--ntasks-per-node={each}"
    if spoken(w, "--ntasks") is None:
        return per_node
    if nodes is None:
        return f"{per_node}, and leave --ntasks out"
    total = f"--ntasks={nodes * each}"
    if _follows_from_total(w):
        return f"{total}, or {per_node} in its place"
    return f"{total} {per_node}, or leave --ntasks out"


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
    if slurm_mode(w) != PROCESS_PER_GPU or LOCAL_IDS in w.environment or per_node == 1:
        return
    option, certain = binding(w)
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
    if w.layout.gpus_per_process is not None or binding(w)[0] is not None:
        return
    visible = w.environment.get(VISIBLE)
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
    reason="With hardware=gpu MaxText takes a process's GPUs from CUDAVISIBLE_DEVICES, else "
    "from SLURM_STEP_GPUS; with neither, JAX finds Slurm and takes one GPU a process.",
    remedy="export CUDAVISIBLE_DEVICES with all GPUs of the node",
    source=f"{_MAXTEXT}:322-345; {_JAX}; public report AI-Hypercomputer/maxtext issue 3433",
    stage="silent",
)
def unnamed_gpus(w: Workload) -> Iterator[Fault]:
    """Find one process a node whose GPUs nobody names."""
    if mode(w) != PROCESS_PER_NODE or w.batch is None or not environment_is_closed(w.batch):
        return
    if _COORDINATOR not in w.environment or set(_DEVICE_VARIABLES) & set(w.environment):
        return
    if w.alone or closed_container(w) is not None:
        return  # JAX finds no task of Slurm, and takes every GPU it sees
    per_node, gpus = whole(w.layout.processes_per_node), whole(w.layout.gpus_per_node)
    if per_node != 1 or gpus is None or gpus < 2 or w.step is None:
        return
    ids = ",".join(map(str, range(gpus)))
    yield Fault(
        VISIBLE,
        f"nobody sets {VISIBLE}, so where Slurm does not set it either, each process takes 1 of "
        f"the {gpus} GPUs of its node and says nothing",
        w.step.origin,
        f"export {VISIBLE}={ids}",
    )


def _launched(w: Workload) -> bool:
    """Whether srun starts it, or nobody says what does."""
    return w.step is None or w.step.program == SRUN or w.batch is None


RULES.all.extend(processes_devices.RULES.all)
RULES.all.extend(processes_ranks.RULES.all)
RULES.all.extend(processes_nodes.RULES.all)
