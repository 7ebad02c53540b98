"""The keys of the cluster profile that `moectl doctor` writes, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from moectl.actions.doctor_site import (
    chosen,
    has_blocks,
    nodes_of,
    platform_of,
    runtime,
    shared_folder,
    usual,
)
from moectl.facts.yaml_facts import read
from moectl.launch.doctor import Partition, Site

_OPEN = {"infinite", "n/a", "unlimited", ""}
HOUR = "01:00:00"


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the profile, its value, and where that comes from."""

    name: str
    value: Any
    why: str


def profile(site: Site) -> Iterator[Key]:
    """Yield the keys of the profile."""
    if not site.release or site.fault:
        why = "Slurm does not answer." if site.fault else "There is no Slurm here."
        yield Key("launcher", "slurm" if site.fault else "local", why)
        if not site.fault:
            yield Key("runtime", "none", "A local launch runs in this machine's environment.")
        return
    if name := site.config.get("ClusterName"):
        yield Key("name", name, "ClusterName of Slurm.")
    yield Key("launcher", "slurm", f"sbatch of Slurm {site.release} is here.")
    yield Key("slurm_release", ".".join(site.release.split(".")[:3]), "sinfo --version.")
    partition = chosen(site)
    if partition is not None:
        yield from _of_partition(site, partition)
    if site.accounts:
        others = f"; others: {', '.join(site.accounts[1:])}" if site.accounts[1:] else ""
        yield Key("account", site.accounts[0], f"Yours in Slurm's accounting{others}.")
    yield Key("block_topology", has_blocks(site), "scontrol show config, TopologyPlugin.")
    yield from _of_domain(site)
    yield Key("runtime", runtime(site), "What starts containers here.")
    if folder := shared_folder(site):
        yield Key("runs_folder", folder.path, f"${folder.variable} is on {folder.kind}.")


def _of_partition(site: Site, partition: Partition) -> Iterator[Key]:
    of_default = "the default one" if partition.default else "not the default one"
    yield Key("partition", partition.name, f"{partition.nodes} nodes; {of_default}.")
    limit = partition.time
    short = limit if limit not in _OPEN and _seconds(limit) < _seconds(HOUR) else HOUR
    yield Key("time", short, f"The partition allows {limit}.")
    nodes = nodes_of(site, partition)
    number, kind = usual([n.gpus for n in nodes]), usual([n.gpu_type for n in nodes])
    if number is None:
        yield Key("gpu_request", "none", "Slurm knows of no GPUs here.")
    elif "cons_tres" in site.config.get("SelectType", ""):
        yield Key("gpu_request", "gpus-per-node", f"{number} GPUs a node; select/cons_tres.")
    else:
        yield Key("gpu_request", "gres", f"{number} GPUs a node, without select/cons_tres.")
    if kind:
        yield Key("gres", f"gpu:{kind}", "Type of the GPUs in Slurm.")
    cpus = usual([node.cpus // node.gpus for node in nodes if node.gpus and node.cpus])
    if cpus:
        yield Key("cpus_per_task", cpus, "CPUs of a node over its GPUs.")
    architecture = usual([node.architecture for node in nodes])
    if architecture in {"aarch64", "x86_64"}:
        yield Key("node_architecture", architecture, "Arch of the nodes.")


def _of_domain(site: Site) -> Iterator[Key]:
    """Yield the nodes of a domain where blocks are smaller than the platform's."""
    kind = usual([node.gpu_type for node in nodes_of(site, chosen(site))])
    size = usual(list(site.blocks.values()))
    title = platform_of(kind or "")
    if not (title and size):
        return
    row = read("hardware.yaml")["platforms"][title]
    whole = row["domain_gpus"] // row["gpus_per_node"]
    if 1 <= size < whole:
        yield Key("nodes_per_domain", size, f"Nodes of a block; {title} has up to {whole}.")


def _seconds(text: str) -> int:
    """Return a time of Slurm, `[D-]HH:MM:SS`, `MM:SS` or `MM`, in seconds."""
    days, dash, rest = text.rpartition("-")
    parts = [int(part) if part.isdigit() else 0 for part in rest.split(":")]
    if dash:
        parts += [0] * (3 - len(parts))
    elif len(parts) == 1:
        parts = [0, *parts, 0]
    elif len(parts) == 2:
        parts = [0, *parts]
    seconds = parts[0] * 3600 + parts[1] * 60 + parts[2]
    return seconds + (int(days) * 86400 if days.isdigit() else 0)
