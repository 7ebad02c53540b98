"""Which nodes are asked of the scheduler, and which of them must share an NVLink domain.

A slice carries one ICI mesh, so its nodes share a domain. Where a slice is wider than any
domain, it is the expert groups that must not straddle one: their all-to-all is the traffic that
NVLink is there for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, lcm, prod

from moectl.job import Job

EXPERT = "expert"
# sbatch has --segment from this release on (SchedMD/slurm NEWS of 23.11, with topology/block).
SEGMENT_SINCE = (23, 11)


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of the scheduler.

    Attributes:
        nodes: nodes in all, the spare ones included.
        spare: nodes of these beyond the job's own.
        segment: nodes of one segment (`--segment`), or None to leave it out.
        note: why the segment or a spare node is otherwise than the profile says; or empty.
    """

    nodes: int
    spare: int
    segment: int | None
    note: str = ""


def domain_nodes(job: Job) -> int:
    """Return the nodes of one NVLink domain, those that stay unused included."""
    physical = max(1, job.hardware.domain_gpus // job.hardware.gpus_per_node)
    return job.cluster.nodes_per_domain or physical


def spans_domains(job: Job) -> bool:
    """Return whether it matters which nodes share an NVLink domain."""
    return job.nodes > 1 and domain_nodes(job) > 1


def group_nodes(job: Job) -> int:
    """Return the fewest whole nodes that hold whole expert groups.

    Devices lie in the mesh row by row (MaxText 0.2.5 utils/maxtext_utils.py, through JAX's
    mesh_utils, which reshapes the list of GPUs), so an expert group lies in `degree x stride`
    consecutive ranks, `stride` being the product of the ICI degrees after it.
    """
    axes = list(job.mesh.degrees)
    if EXPERT not in axes:
        return 1
    block = prod(job.mesh.degrees[axis].ici for axis in axes[axes.index(EXPERT) :])
    if job.mesh.degrees[EXPERT].ici == 1:
        return 1
    return lcm(block, job.processes_per_node) // job.processes_per_node


def unit_nodes(job: Job) -> int:
    """Return the nodes that must share a domain: a slice, or an expert group of a wider one."""
    if job.nodes_per_slice <= domain_nodes(job):
        return max(1, job.nodes_per_slice)
    group = group_nodes(job)
    return group if group <= domain_nodes(job) else 1


def ask(job: Job) -> Ask:
    """Return what is asked of the scheduler.

    The nodes of a job must be whole segments (24.11 refuses others), so with `--segment` every
    segment gets the same number of spare nodes. Where a domain has no room for them, `--segment`
    is left out and the placement program picks whole slices from what comes.
    """
    cluster, unit = job.cluster, unit_nodes(job)
    plain = Ask(job.nodes + cluster.spare_nodes, cluster.spare_nodes, None)
    if not (cluster.segment and spans_domains(job) and unit > 1):
        return plain
    if why := _no_segments(job):
        return Ask(plain.nodes, plain.spare, None, f"--segment={unit} is left out: {why}")
    segments = job.nodes // unit
    spare = ceil(cluster.spare_nodes / segments)
    if unit + spare > domain_nodes(job):
        note = (
            f"--segment is left out: {unit} nodes and {spare} spare are more than the "
            f"{domain_nodes(job)} nodes of an NVLink domain"
        )
        return Ask(plain.nodes, plain.spare, None, note)
    total = spare * segments
    note = ""
    if total != cluster.spare_nodes:
        note = f"{total} spare nodes instead of {cluster.spare_nodes}, {spare} in each segment"
    return Ask(job.nodes + total, total, unit + spare, note)


def has_segments(release: str) -> bool | None:
    """Return whether a release of Slurm has --segment; None if the release is not known.

    It does not stand in `sbatch --help` of 24.11, so asking sbatch is no way to tell.

    Args:
        release: e.g. "24.11.5".
    """
    parts = release.split(".")[:2]
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    return tuple(map(int, parts)) >= SEGMENT_SINCE


def _no_segments(job: Job) -> str:
    """Return why this Slurm has no segments, or an empty text."""
    cluster = job.cluster
    if has_segments(cluster.slurm_release) is False:
        since = ".".join(map(str, SEGMENT_SINCE))
        return f"Slurm {cluster.slurm_release} is older than {since}"
    if cluster.block_topology is False:
        return "the Slurm of this site has no topology/block"
    return ""
