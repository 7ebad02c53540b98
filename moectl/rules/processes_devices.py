"""Rules on the GPUs of a process: which it is shown, which it takes, and how many."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.rules.launching import (
    PROCESS_PER_GPU,
    PROCESS_PER_NODE,
    known,
    mode,
    option_text,
    slurm_mode,
    spoken,
    whole,
)
from moectl.rules.rule import Fault, rules
from moectl.workload import Option, Text, Workload

RULES = rules()

_JAX = "JAX 0.12.0.1 _src/clusters/slurm_cluster.py and cluster.py:45-92"
_MAXTEXT = "MaxText 0.2.5 utils/max_utils.py"

LOCAL_IDS = "JAX_LOCAL_DEVICE_IDS"
VISIBLE = "CUDA_VISIBLE_DEVICES"

# --gpu-bind types that give every task GPUs of its own, so that each counts from 0 again.
_BINDS_EACH = ("single", "per_task", "map_gpu", "mask_gpu")
_BINDS_NEAR = ("closest",)
_BINDS_ALL = ("none",)
# Without --gpu-bind these bind the GPUs of each task to it.
_IMPLY_BINDING = ("--gpus-per-task", "--tres-per-task")


def binding(w: Workload) -> tuple[Option | None, bool]:
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


def counted(number: int, one: str, several: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else several}"


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
    ids = _ids(w.environment.get(LOCAL_IDS))
    if mode(w) == PROCESS_PER_GPU:
        if ids is not None and len(ids) > 1:
            yield Fault(
                LOCAL_IDS,
                f"te_moe_block wants one GPU a process, and {LOCAL_IDS} gives each {len(ids)}",
                w.where(LOCAL_IDS),
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
    if visible := _ids(w.environment.get(VISIBLE)):
        return len(visible)
    if (bound := whole(w.layout.gpus_per_process)) is not None:
        return bound
    if VISIBLE in w.environment or whole(w.layout.processes_per_node) not in {None, 1}:
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
    text = known(w.environment.get(LOCAL_IDS))
    if slurm_mode(w) != PROCESS_PER_GPU or not text:
        return
    origin = w.where(LOCAL_IDS)
    ids = _ids(w.environment.get(LOCAL_IDS))
    per_node, gpus = whole(w.layout.processes_per_node), whole(w.layout.gpus_per_node)
    if ids is None:
        yield Fault(LOCAL_IDS, f"{text!r} is no list of numbers such as 0,1,2,3", origin)
    elif len(set(ids)) < len(ids):
        yield Fault(LOCAL_IDS, f"{text} names a GPU twice", origin)
    elif per_node is not None and per_node > 1 and binding(w)[0] is None:
        yield Fault(
            LOCAL_IDS,
            f"each of the {per_node} processes of a node takes {_gpus_named(ids)}, the same ones",
            origin,
        )
    elif per_node == 1 and gpus is not None and len(ids) < gpus:
        yield Fault(
            LOCAL_IDS,
            f"one process a node takes {_gpus_named(ids)}, so {gpus - len(ids)} of {gpus} GPUs "
            "stay idle",
            origin,
            f"{LOCAL_IDS}={','.join(map(str, range(gpus)))}",
        )


@RULES.rule(
    "RUN212",
    "GPUs hidden from processes",
    reason="A GPU that CUDAVISIBLE_DEVICES leaves out does not exist for the process, and the "
    "rest are numbered from 0.",
    remedy="leave CUDAVISIBLE_DEVICES to Slurm, or name all GPUs of the node",
    source=f"CUDA C++ programming guide, environment variables; {_JAX}; {_MAXTEXT}:318-347",
)
def hidden_gpus(w: Workload) -> Iterator[Fault]:
    """Compare CUDAVISIBLE_DEVICES with the processes and GPUs of a node."""
    found = w.environment.get(VISIBLE)
    per_node, gpus = whole(w.layout.processes_per_node), whole(w.layout.gpus_per_node)
    way = slurm_mode(w)
    if found is None or not way or per_node is None:
        return
    if not found.known:
        raw = "".join(piece.raw for piece in found.pieces)
        ranked = way == PROCESS_PER_GPU and LOCAL_IDS not in w.environment
        if ranked and per_node > 1 and "SLURM_LOCALID" in raw:
            yield Fault(
                VISIBLE,
                "every process sees one GPU and numbers it 0, but JAX asks for the number of "
                f"its local rank, up to {per_node - 1}",
                found.origin,
            )
        return
    visible = len([part for part in found.text.split(",") if part.strip()])
    if way == PROCESS_PER_GPU and visible < per_node and LOCAL_IDS not in w.environment:
        yield Fault(
            VISIBLE,
            f"{found.text!r} shows {counted(visible, 'GPU', 'GPUs')} to each of the {per_node} "
            "processes of a node, and each wants the one of its local rank",
            found.origin,
        )
    elif way == PROCESS_PER_NODE and per_node == 1 and gpus is not None and visible < gpus:
        yield Fault(
            VISIBLE,
            f"{found.text!r} shows {counted(visible, 'GPU', 'GPUs')} of {gpus} to the one process "
            "of a node; the rest stay idle",
            found.origin,
            f"{VISIBLE}={','.join(map(str, range(gpus)))}",
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
