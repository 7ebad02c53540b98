"""What is made of a cluster that was looked at: which partition counts, which platform it is."""

from __future__ import annotations

from collections import Counter
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.launch.doctor import Folder, Node, Partition, Site


def chosen(site: Site) -> Partition | None:
    """Return the partition a job would go to: with GPUs, up, the default one, the largest."""
    usable = [partition for partition in site.partitions if partition.up]

    def rank(partition: Partition) -> tuple[bool, bool, int]:
        gpus = [node for node in nodes_of(site, partition) if node.gpus]
        return bool(gpus), partition.default, len(gpus)

    return max(usable, key=rank, default=None)


def nodes_of(site: Site, partition: Partition | None) -> list[Node]:
    """Return the nodes of a partition."""
    if partition is None:
        return []
    return [node for node in site.nodes if partition.name in node.partitions]


def usual(values: list[Any]) -> Any:
    """Return the most frequent value, None of none."""
    counted = Counter(value for value in values if value)
    return counted.most_common(1)[0][0] if counted else None


def platform_of(gpu_type: str) -> str:
    """Return the platform whose GPUs Slurm calls so, or an empty text."""
    rows = read("hardware.yaml")["platforms"]
    return next((name for name, row in rows.items() if row["gres_type"] == gpu_type.lower()), "")


def has_blocks(site: Site) -> bool:
    """Return whether the Slurm has topology/block."""
    return bool(site.blocks) or site.config.get("TopologyPlugin", "") == "topology/block"


def shared_folder(site: Site) -> Folder | None:
    """Return the first folder that takes files and whose file system is a shared one."""
    return next((f for f in site.folders if f.writable and f.shared), None)


def runtime(site: Site) -> str:
    """Return what starts containers: the value of `runtime` of a profile."""
    if "container-image" in site.pyxis:
        return "pyxis"
    return "apptainer" if "apptainer" in site.programs else "none"
