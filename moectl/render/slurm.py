"""The batch script of Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moectl.job import Job
from moectl.render import container, slurm_checks, templates, variables
from moectl.settings.bundle_names import MOUNTED

# Ports for JAX's coordinator: below the range Linux gives to outgoing connections (32768 up),
# above what services of a cluster commonly take.
FIRST_PORT = 20480
PORT_COUNT = 8192


@dataclass(frozen=True, slots=True)
class Directive:
    """One `#SBATCH` line, and why it is there when that is not plain."""

    text: str
    why: tuple[str, ...] = ()


def launch_script(job: Job) -> str:
    """Return the batch script: `sbatch` runs the job from it and from its bundle alone.

    Raises:
        UsageError: the job holds what a script cannot say; everything of it at once.
    """
    slurm_checks.require(job)
    flags = variables.flag_tokens(job) or [(variables.NO_FLAGS, "a flag that changes nothing")]
    spans_domain = spans_domains(job)
    return templates.render(
        "launch.sbatch.j2",
        {
            "title": f"{job.name}: {job.title}" if job.title else job.name,
            "gpus": job.gpus,
            "nodes": job.nodes,
            "per_node": job.processes_per_node,
            "hardware": job.hardware.title,
            "slices": job.mesh.slices,
            "gpus_per_slice": job.mesh.gpus_per_slice,
            "nodes_per_slice": job.nodes_per_slice,
            "nodes_per_domain": domain_nodes(job),
            "spans_domain": spans_domain,
            "one_node_reason": (
                "A slice needs no second node"
                if spans_domain
                else "No NVLink domain spans two nodes here"
            ),
            "directives": list(directives(job)),
            "secrets": job.secrets,
            "debug": job.debug,
            "folders": container.own_folders(job),
            "first_port": FIRST_PORT,
            "port_count": PORT_COUNT,
            "variables": [
                (name, value, origin) for name, (value, origin) in variables.declared(job).items()
            ],
            "flags": [{"token": token, "origin": origin} for token, origin in flags],
            "contained": container.contained(job),
            "container_names": variables.container_names(job),
            "image": container.pyxis_image(job.container.image),
            "container_mounts": container.mount_option(job),
            "bundle_target": MOUNTED,
        },
    )


def domain_nodes(job: Job) -> int:
    """Return the nodes of one NVLink domain, the spare ones included."""
    return max(1, job.hardware.domain_gpus // job.hardware.gpus_per_node)


def spans_domains(job: Job) -> bool:
    """Return whether it matters which nodes share an NVLink domain."""
    return job.nodes > 1 and domain_nodes(job) > 1


def directives(job: Job) -> Iterator[Directive]:
    """Yield the `#SBATCH` lines."""
    cluster = job.cluster
    yield _option("job-name", job.name)
    yield _option("output", f"{_file_name(job.name)}-%j.log")
    yield _option("nodes", job.nodes)
    yield _option("ntasks-per-node", job.processes_per_node)
    if cluster.cpus_per_task:
        yield _option("cpus-per-task", cluster.cpus_per_task)
    if cluster.gpu_request == "gpus-per-node":
        yield _option("gpus-per-node", job.processes_per_node)
    elif cluster.gpu_request == "gres":
        yield _option("gres", f"{cluster.gres}:{job.processes_per_node}")
    if cluster.exclusive:
        yield Directive("--exclusive")
    if cluster.memory:
        yield _option("mem", cluster.memory)
    yield _option("time", cluster.time)
    for name in ("partition", "account", "qos", "reservation"):
        if text := getattr(cluster, name):
            yield _option(name, text)
    if cluster.segment and spans_domains(job) and 1 < job.nodes_per_slice <= domain_nodes(job):
        yield _option(
            "segment",
            job.nodes_per_slice,
            "The nodes of a slice come from one NVLink domain. Slurm 23.11 and newer, with",
            "topology/block; cluster.segment: false leaves it out.",
        )
    for text in cluster.directives:
        name, equals, value = text.removeprefix("--").partition("=")
        yield _option(name, value) if equals else Directive(text)
    yield _option(
        "export",
        "ALL",
        "This script drops what it does not need, first of all. NIL would be stricter, but Slurm",
        "22.05 takes it for the name of a variable, and newer ones leave out HOME and the PATH to",
        "srun; a list of names makes Slurm ask a login shell and hold the job when that is slow.",
    )


def _option(name: str, value: str | int, *why: str) -> Directive:
    return Directive(f"--{name}={templates.sbatch(str(value))}", why)


def _file_name(name: str) -> str:
    """Return a run's name as part of a file name: nothing Slurm or a shell would act on."""
    kept = "".join(
        char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in name
    )
    return kept.lstrip("-.")[:64] or "run"
