"""Rules on the nodes and GPUs that processes get: placement, the platform, a dead task."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.resolve.platforms import platform_asked
from moectl.rules.launching import SRUN, whole
from moectl.rules.rule import Fault, rules
from moectl.workload import Workload

RULES = rules()


@RULES.rule(
    "RUN214",
    "one dead task",
    reason="When one task dies, the others wait for it in a collective until the job's time is "
    "up, unless Slurm ends them.",
    remedy="srun --kill-on-bad-exit=1",
    source="srun(1) of Slurm 22.05.8, --kill-on-bad-exit; KillOnBadExit of slurm.conf is 0 unless "
    "the site sets it",
    severity="note",
    stage="advice",
)
def dead_task(w: Workload) -> Iterator[Fault]:
    """Find several tasks that outlive a dead one."""
    processes = whole(w.layout.processes)
    if not w.is_maxtext or w.step is None or w.step.program != SRUN or not processes:
        return
    if processes < 2 or w.step.option("--kill-on-bad-exit") is not None:
        return
    if "SLURM_KILL_BAD_EXIT" in w.environment:
        return
    yield Fault(
        "--kill-on-bad-exit",
        f"when one of the {processes} tasks dies, the others hang, unless the site ends them",
        w.step.origin,
    )


@RULES.rule(
    "RUN215",
    "nodes of an NVLink domain",
    reason="Nodes share NVLink only inside a domain; without --segment Slurm may take them from "
    "any, so that a slice crosses the network.",
    remedy="#SBATCH --segment=<nodes a slice> (Slurm 24.05 and newer, with topology/block)",
    source="sbatch(1) of Slurm 24.11, --segment; moectl's catalogue of GPU platforms",
    severity="warning",
    stage="advice",
)
def segment(w: Workload) -> Iterator[Fault]:
    """Find an allocation whose nodes may lie in any NVLink domain."""
    nodes = whole(w.layout.nodes)
    hardware = w.hardware
    if hardware is None or nodes is None or nodes < 2 or w.batch is None:
        return
    if not w.batch.scheduled or hardware.domain_gpus <= hardware.gpus_per_node:
        return
    if w.batch.directive("--segment", "--switches", "--nodelist", "--reservation") is not None:
        return
    usable = hardware.nodes_per_domain
    assert w.layout.nodes is not None  # noqa: S101 - it gave the number
    yield Fault(
        "--segment",
        f"{nodes} nodes of {hardware.name} are asked for without --segment, so they may lie in "
        f"any NVLink domains (not seen here: no such cluster); {usable} usable nodes make one",
        w.layout.nodes.origin,
        f"--segment={min(nodes, usable)}",
        severity="warning" if nodes > usable else "note",
    )


@RULES.rule(
    "RUN216",
    "GPUs a node has",
    reason="Slurm never starts a job that asks a node for more GPUs than it has.",
    remedy="ask for the GPUs one node has, and for more nodes",
    source="moectl's catalogue of GPU platforms, with sources in facts/data/hardware.yaml",
)
def gpus_of_a_node(w: Workload) -> Iterator[Fault]:
    """Compare the GPUs asked of a node with those the platform has."""
    asked = whole(w.layout.gpus_per_node)
    if asked is None or w.layout.gpus_per_node is None or w.manifest is not None:
        return  # of a pod K8S141 says it
    hardware = platform_asked(w.batch, w.step, w.manifest) or w.hardware
    if hardware is None or asked <= hardware.gpus_per_node:
        return
    nodes = whole(w.layout.nodes)
    total = nodes * asked if nodes is not None else None
    even = total is not None and total % hardware.gpus_per_node == 0
    yield Fault(
        "--gpus-per-node",
        f"{asked} GPUs a node, but a node of {hardware.name} has {hardware.gpus_per_node}",
        w.layout.gpus_per_node.origin,
        f"--nodes={total // hardware.gpus_per_node} --gpus-per-node={hardware.gpus_per_node}"
        if even and total
        else f"--gpus-per-node={hardware.gpus_per_node}",
    )
