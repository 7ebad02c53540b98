"""What `moectl doctor` found, and what is missing, with cause and remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from moectl.actions.doctor_site import (
    chosen,
    has_blocks,
    nodes_of,
    platform_of,
    shared_folder,
    usual,
)
from moectl.launch.doctor import UNKNOWN, Site
from moectl.placement import SEGMENT_SINCE, has_segments

State: TypeAlias = Literal["found", "absent", "missing"]
# The options of pyxis that a launch script uses (NVIDIA/pyxis 0.20 args.c).
PYXIS = frozenset(
    {"container-image", "container-mounts", "container-workdir", "container-env"}
    | {"no-container-mount-home", "no-container-entrypoint"}
)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what.
        state: found; absent, which a launch can do without; missing, which it cannot.
        said: what was seen, or why it is not there.
        remedy: what to do; empty when nothing is needed.
    """

    name: str
    state: State
    said: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the JSON form."""
        return {
            "name": self.name,
            "state": self.state,
            "said": self.said,
            **({"remedy": self.remedy} if self.remedy else {}),
        }


def checks(site: Site) -> Iterator[Check]:
    """Yield what was found, cluster first, then this machine."""
    if not site.release:
        yield Check(
            "Slurm",
            "absent",
            "Slurm's programs are not on this machine, so a launch runs here",
            "run `moectl doctor` on a login node of the cluster",
        )
    elif site.fault:
        yield Check(
            "Slurm",
            "missing",
            f"its programs are here (release {site.release}), but {site.fault}",
            "a login node has its configuration in /etc/slurm or $SLURM_CONF, or finds it by DNS"
            if site.release == UNKNOWN
            else "`scontrol ping` asks the controller again; if it stays silent, ask the site",
        )
    else:
        name = site.config.get("ClusterName", "")
        yield Check("Slurm", "found", f"{site.release}{f', cluster {name}' if name else ''}")
        yield from _partitions(site)
        yield from _gpus(site)
        yield _segments(site)
        yield from _accounts(site)
    yield from _containers(site)
    yield _shared_folder(site)
    yield _credentials(site)
    yield from _architectures(site)


def _partitions(site: Site) -> Iterator[Check]:
    for partition in site.partitions:
        gpus = Counter(node.gpus for node in nodes_of(site, partition) if node.gpus)
        listed = ", ".join(f"{count} with {number} GPUs" for number, count in sorted(gpus.items()))
        said = (
            f"{partition.name}{' (default)' if partition.default else ''}: "
            f"{partition.nodes} node{'' if partition.nodes == 1 else 's'}"
            f"{f' ({listed})' if listed else ''}, at most {partition.time}"
        )
        if partition.up:
            yield Check("partition", "found", said)
        else:
            yield Check("partition", "absent", f"{said}; it is down")
    if chosen(site) is None:
        yield Check(
            "partition",
            "missing",
            "no partition is up that you may see",
            "ask the site for access; `sinfo --all` shows the hidden ones",
        )


def _gpus(site: Site) -> Iterator[Check]:
    nodes = nodes_of(site, chosen(site))
    if not nodes:
        return
    number, kind = usual([n.gpus for n in nodes]), usual([n.gpu_type for n in nodes])
    if number is None:
        yield Check(
            "GPUs",
            "missing",
            "Slurm knows of no GPUs in this partition (no gres), so a job cannot ask for them",
            "choose a partition with GPUs; or gpu_request: none where nodes are given whole",
        )
        return
    title = platform_of(kind or "")
    named = f" of type {kind}" if kind else ", without a type"
    says = f"; that is hardware {title}" if title else "; name the platform with --hardware"
    yield Check("GPUs", "found", f"{number} a node{named}{says}")


def _segments(site: Site) -> Check:
    if not has_segments(site.release):
        since = ".".join(map(str, SEGMENT_SINCE))
        return Check(
            "block topology",
            "absent",
            f"Slurm {site.release} has no --segment, which came with {since}, so it may scatter "
            "a slice",
            "the job checks NVLink domains itself before it trains, and stops if they do not fit",
        )
    if not has_blocks(site):
        plugin = site.config.get("TopologyPlugin") or "none"
        return Check(
            "block topology",
            "absent",
            f"the topology is {plugin}, not topology/block, so --segment has no meaning",
            "on NVL72 ask the site for topology/block; elsewhere nothing is needed",
        )
    sizes = sorted(Counter(site.blocks.values()).items())
    listed = ", ".join(f"{count} of {size} nodes" for size, count in sizes)
    return Check("block topology", "found", f"--segment; blocks: {listed or 'none listed'}")


def _accounts(site: Site) -> Iterator[Check]:
    enforced = "associations" in site.config.get("AccountingStorageEnforce", "")
    if site.accounts:
        yield Check("account", "found", ", ".join(site.accounts))
    elif enforced:
        yield Check(
            "account",
            "missing",
            "you have no account, and this Slurm refuses jobs without one",
            "ask the site for one; `sacctmgr show assoc user=$USER` shows yours",
        )
    if site.accounting:
        yield Check(
            "accounting",
            "absent",
            f"sacct tells nothing: {_short(site.accounting)}",
            "a job that ended is known only while Slurm remembers it (MinJobAge, "
            f"{site.config.get('MinJobAge', 'unknown')}); its logs and record stay",
        )
    else:
        yield Check("accounting", "found", "sacct answers")


def _short(fault: str) -> str:
    """Return a refusal on one line."""
    return ": ".join(line.strip() for line in fault.splitlines()[:2])


def _containers(site: Site) -> Iterator[Check]:
    lacks = sorted(PYXIS - site.pyxis)
    if site.release and not site.fault:
        if "container-image" not in site.pyxis:
            instead = "apptainer" if "apptainer" in site.programs else "none"
            yield Check(
                "pyxis",
                "absent",
                "srun has no --container-image",
                f"ask the site for pyxis; the profile says runtime: {instead}",
            )
        elif lacks:
            yield Check(
                "pyxis",
                "missing",
                f"this pyxis has no {', '.join(f'--{name}' for name in lacks)}",
                "ask the site for a newer pyxis, or use runtime: apptainer",
            )
        else:
            yield Check("pyxis", "found", "srun has every option that is used")
    enroot = "enroot" in site.programs
    yield Check(
        "enroot",
        "found" if enroot else "absent",
        "on this machine" if enroot else "not on this machine",
        "" if enroot else "`moectl image pull` then says how to pull on a compute node",
    )
    if "apptainer" in site.programs:
        yield Check("apptainer", "found", "on this machine")


def _shared_folder(site: Site) -> Check:
    found = shared_folder(site)
    if found is not None:
        return Check("shared folder", "found", f"{found.path} ({found.kind}), writable")
    seen = "; ".join(
        f"{f.path} is {'writable' if f.writable else 'not writable'} and on {f.kind or 'unknown'}"
        for f in site.folders
    )
    return Check(
        "shared folder",
        "missing" if site.release else "absent",
        f"no folder is known to be shared: {seen or 'none is there'}",
        "set runs_folder to one that every node sees",
    )


def _credentials(site: Site) -> Check:
    if site.credentials:
        return Check("registry credentials", "found", ", ".join(site.credentials))
    return Check(
        "registry credentials",
        "absent",
        "none are kept for enroot, docker or apptainer",
        "nothing is needed for public images; a private registry wants a line in "
        "~/.config/enroot/.credentials",
    )


def _architectures(site: Site) -> Iterator[Check]:
    of_nodes = usual([node.architecture for node in nodes_of(site, chosen(site))])
    if of_nodes is None or of_nodes == site.architecture:
        known = f"{site.architecture}, {'as the nodes are' if of_nodes else 'nodes unknown'}"
        yield Check("architecture", "found", known)
        return
    yield Check(
        "architecture",
        "found",
        f"the nodes are {of_nodes}, this machine is {site.architecture}",
        f"`moectl image pull` takes {of_nodes} from the profile; what you build here is not "
        "for the nodes",
    )
