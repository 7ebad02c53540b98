"""Decides which node of the job carries which slice. Standard library only, Python 3.8 or newer.

A slice is the set of nodes that carries one ICI mesh, so its nodes must share an NVLink domain.
Where a slice is wider than a domain, the nodes of an expert group must.

    placement.py domain               on every node: prints what the node knows of its domain
    placement.py order ... FOLDER     in the batch script: FOLDER/domains to FOLDER/nodes

`order` puts the nodes of one domain next to each other, domains in the order in which they first
appear, so that the first node, where the batch script runs and JAX's coordinator listens, stays
the first. Nodes that FOLDER/excluded names (one a line), and nodes beyond the job's own, carry
nothing. It writes FOLDER/nodes ("NODE SLICE DOMAIN", in the order of the ranks), and
FOLDER/hostfile (one line a process, for srun) when those are not all nodes in Slurm's order.
Exit code 78: the domains do not make whole slices, or too few nodes are left.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

UNKNOWN = "-"
# How the scheduler is asked for whole units; pod_start.py has a scheduler of its own.
REMEDY = "Ask for --segment={unit} (cluster.segment: true)"
NVIDIA_SMI_SECONDS = 60


def fabric_domain(report: str) -> str:
    """Return "UUID.CLIQUE" from the text of `nvidia-smi -q`, or UNKNOWN.

    A GPU whose fabric is not up reports no UUID or one of zeros, and so does every GPU that has
    no NVLink beyond its node. GPUs of one node that disagree make the answer UNKNOWN.
    """
    uuids = re.findall(r"^\s*cluster\s*uuid\s*:\s*(\S+)", report, re.IGNORECASE | re.MULTILINE)
    cliques = re.findall(r"^\s*clique\s*id\s*:\s*(\S+)", report, re.IGNORECASE | re.MULTILINE)
    if len(uuids) != len(cliques):
        return UNKNOWN
    found = {(uuid, cliques[index]) for index, uuid in enumerate(uuids)}
    if len(found) != 1:
        return UNKNOWN
    uuid, clique = found.pop()
    if not re.search(r"[1-9a-f]", uuid.lower().replace("n/a", "")) or not clique.isdigit():
        return UNKNOWN
    return f"{uuid}.{clique}"


def block_domain(address: str, pattern: str) -> str:
    """Return the block of SLURM_TOPOLOGY_ADDR, or UNKNOWN.

    Only topology/block says "block" in the pattern; the switches of a tree are no NVLink domain.
    """
    kinds = pattern.split(".")[:-1]
    names = address.split(".", len(kinds))
    if not kinds or kinds[-1] != "block" or len(names) != len(kinds) + 1:
        return UNKNOWN
    return names[-2] or UNKNOWN


def nvidia_smi() -> str:
    """Return the text of `nvidia-smi -q`, or nothing."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "-q"],  # noqa: S607 - wherever the site has it
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=NVIDIA_SMI_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def word(text: str) -> str:
    """Return `text` as one word of a line."""
    return re.sub(r"\s+", "_", text.strip()) or UNKNOWN


def domain_line(environment: Mapping[str, str], report: str) -> str:
    """Return "INDEX NODE FABRIC BLOCK": the node's number in the job and what it knows."""
    block = block_domain(
        environment.get("SLURM_TOPOLOGY_ADDR", ""),
        environment.get("SLURM_TOPOLOGY_ADDR_PATTERN", ""),
    )
    node = environment.get("SLURMD_NODENAME", "")
    index = environment.get("SLURM_NODEID", "0")
    return " ".join([index, word(node), word(fabric_domain(report)), word(block)])


def read_domains(text: str) -> list[tuple[str, str, str]]:
    """Return (node, fabric, block) of every complete line, in the order of the node numbers."""
    rows = [line.split() for line in text.splitlines()]
    kept = [row for row in rows if len(row) == 4 and row[0].isdigit() and row[1] != UNKNOWN]
    kept.sort(key=lambda row: int(row[0]))
    return [(row[1], row[2], row[3]) for row in kept]


def known_domains(rows: list[tuple[str, str, str]]) -> tuple[str, list[tuple[str, str]]]:
    """Return (what the domains are, [(node, domain)]): the fabric's word, else the scheduler's.

    Either counts only when every node says it; otherwise all are UNKNOWN.
    """
    for column, title in ((1, "NVLink cliques"), (2, "topology blocks")):
        if rows and all(row[column] != UNKNOWN for row in rows):
            return title, [(row[0], row[column]) for row in rows]
    return "", [(row[0], UNKNOWN) for row in rows]


def plural(count: int, noun: str) -> str:
    """Return "1 node" or "2 nodes"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def grouped(nodes: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return [(domain, [node])], domains in the order of their first node."""
    groups: dict[str, list[str]] = {}
    for node, domain in nodes:
        groups.setdefault(domain, []).append(node)
    return list(groups.items())


def sentence(
    groups: list[tuple[str, list[str]]], title: str, unit: int, what: str, gpus_per_node: int
) -> str:
    """Return the arithmetic of domains that do not make whole units, and ways out.

    Args:
        groups: what `grouped` gave.
        title: what the domains are.
        unit: nodes that must share a domain.
        what: what they carry, e.g. "a slice".
        gpus_per_node: GPUs of a node.
    """
    sizes = [len(nodes) for _, nodes in groups]
    leftover = ", ".join(
        f"{size} = {size // unit} x {unit} + {size % unit}"
        for size in dict.fromkeys(sizes)
        if size % unit
    )
    fitting = functools.reduce(math.gcd, sizes)
    parts = " + ".join(str(size) for size in sizes[:24]) + (" + ..." if len(sizes) > 24 else "")
    return (
        f"the {sum(sizes)} nodes lie in NVLink domains of {parts} ({title}), and {what} takes "
        f"{unit} nodes of one domain: {leftover}. {REMEDY.format(unit=unit)}, or exclude nodes, "
        f"or make the product of the ICI degrees "
        f"{fitting * gpus_per_node} ({plural(fitting, 'node')} a slice)."
    )


def picked(
    groups: list[tuple[str, list[str]]], title: str, units: int, unit: int, what: str
) -> list[tuple[str, str]]:
    """Return the (node, domain) that carry `units` whole units; the other nodes are spare.

    Domains and the nodes of each are taken in their order, so the first node stays the first
    whenever its domain has a whole unit.

    Raises:
        ValueError: the domains have too few whole units; with the arithmetic.
    """
    chosen: list[tuple[str, str]] = []
    for domain, members in groups:
        take = min(len(members) // unit, units - len(chosen) // unit) * unit
        chosen += [(node, domain) for node in members[:take]]
    if len(chosen) < units * unit:
        sizes = " + ".join(str(len(members)) for _, members in groups[:24])
        raise ValueError(
            f"{units} x {unit} nodes of one NVLink domain each are wanted ({what} takes {unit}), "
            f"and the nodes that are left lie in domains of {sizes} ({title}), which makes "
            f"{len(chosen) // unit}. {REMEDY.format(unit=unit)} or for more "
            "spare nodes (cluster.spare_nodes)."
        )
    return chosen


def placed(
    rows: list[tuple[str, str, str]],
    nodes: int,
    nodes_per_slice: int,
    nodes_per_domain: int,
    gpus_per_node: int,
    nodes_per_group: int = 1,
    spare: int = 0,
    excluded: frozenset[str] = frozenset(),
) -> tuple[list[tuple[str, str]], str]:
    """Decide the order of the nodes.

    Args:
        rows: what `read_domains` gave.
        nodes: nodes that run the job.
        nodes_per_slice: nodes that carry one ICI mesh.
        nodes_per_domain: nodes that one NVLink domain of this hardware has.
        gpus_per_node: GPUs of a node.
        nodes_per_group: whole nodes of whole expert groups, for a slice wider than a domain.
        spare: nodes of the allocation beyond `nodes`.
        excluded: nodes that must carry nothing.

    Returns:
        ([(node, domain)] in the order of the ranks, what to say about it).

    Raises:
        ValueError: the domains do not make whole slices, or too few nodes are left; with the
            arithmetic.
    """
    fit = [row for row in rows if row[0] not in excluded]
    title, known = known_domains(fit)
    if len(fit) < nodes:
        if spare or len(fit) < len(rows):
            raise ValueError(
                f"{len(fit)} of {nodes + spare} nodes answered and are not excluded, and the job "
                f"takes {nodes}"
            )
        return known, f"{len(rows)} of {nodes} nodes answered, so slices follow node order"
    left = f", {plural(len(fit) - nodes, 'node')} spare" if len(fit) > nodes else ""
    if not title:
        return known[:nodes], f"no NVLink domain can be seen, so slices follow node order{left}"
    unit, what = nodes_per_slice, "a slice"
    if nodes_per_slice > nodes_per_domain:
        unit, what = nodes_per_group, "an expert group"
        if not 1 < nodes_per_group <= nodes_per_domain:
            return known[:nodes], (
                f"a slice of {nodes_per_slice} nodes is wider than an NVLink domain of "
                f"{nodes_per_domain}, so slices follow node order{left}"
            )
    groups = grouped(known)
    if len(fit) == nodes and any(len(members) % unit for _, members in groups):
        raise ValueError(sentence(groups, title, unit, what, gpus_per_node))
    order = picked(groups, title, nodes // unit, unit, what)
    names = {node for node, _ in order}
    same = order == [(node, domain) for node, domain in known if node in names]
    moved = "" if same else ", and ranks follow the domains instead of node order"
    return order, (
        f"{nodes} nodes in {plural(len(grouped(order)), 'NVLink domain')} ({title}), "
        f"{plural(nodes // nodes_per_slice, 'slice')}{moved}{left}"
    )


def text_of(path: Path) -> str:
    """Return the text of a file, or nothing."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def order(options: argparse.Namespace) -> int:
    """Read FOLDER/domains, write FOLDER/nodes and maybe FOLDER/hostfile; return the exit code."""
    folder = Path(options.folder)
    rows = read_domains(text_of(folder / "domains"))
    try:
        nodes, said = placed(
            rows,
            options.nodes,
            options.nodes_per_slice,
            options.nodes_per_domain,
            options.gpus_per_node,
            options.nodes_per_group,
            options.spare,
            frozenset(text_of(folder / "excluded").split()),
        )
    except ValueError as error:
        sys.stderr.write(f"moectl: {error}\n")
        return 78
    sys.stdout.write(f"moectl: {said}\n")
    if len(nodes) == options.nodes:
        lines = [
            f"{node} {index // options.nodes_per_slice} {domain}\n"
            for index, (node, domain) in enumerate(nodes)
        ]
        (folder / "nodes").write_text("".join(lines), encoding="utf-8")
    names = [node for node, _ in nodes]
    if options.spare or names != [row[0] for row in rows]:
        hosts = "".join(f"{name}\n" * options.gpus_per_node for name in names)
        (folder / "hostfile").write_text(hosts, encoding="utf-8")
    return 0


def main(arguments: list[str]) -> int:
    """Run one of the two commands; return the exit code."""
    parser = argparse.ArgumentParser(description="Decide which node carries which slice.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("domain")
    ordering = commands.add_parser("order")
    for name in ("--nodes", "--gpus-per-node", "--nodes-per-slice", "--nodes-per-domain"):
        ordering.add_argument(name, type=int, required=True)
    ordering.add_argument("--nodes-per-group", type=int, default=1)
    ordering.add_argument("--spare", type=int, default=0)
    ordering.add_argument("folder")
    options = parser.parse_args(arguments)
    if options.command == "order":
        return order(options)
    sys.stdout.write(domain_line(os.environ, nvidia_smi()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
