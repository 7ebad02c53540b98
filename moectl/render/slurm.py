"""The batch script of Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moectl import placement
from moectl.job import Job
from moectl.render import container, limits, preflight, slurm_checks, templates, variables
from moectl.settings.bundle_names import MOUNTED

# Ports for JAX's coordinator: below the range Linux gives to outgoing connections (32768 up),
# above what services of a cluster commonly take.
FIRST_PORT = 20480
PORT_COUNT = 8192

_SEGMENT = (
    "The nodes of a slice come from one NVLink domain. Slurm 23.11 and newer, with",
    "topology/block; cluster.segment: false leaves it out.",
)


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
    spans_domain = placement.spans_domains(job)
    asked = placement.ask(job)
    return templates.render(
        "launch.sbatch.j2",
        {
            "title": f"{job.name}: {job.title}" if job.title else job.name,
            "gpus": job.gpus,
            "nodes": job.nodes,
            "spare": asked.spare,
            "per_node": job.processes_per_node,
            "hardware": job.hardware.title,
            "slices": job.mesh.slices,
            "gpus_per_slice": job.mesh.gpus_per_slice,
            "nodes_per_slice": job.nodes_per_slice,
            "nodes_per_domain": placement.domain_nodes(job),
            "nodes_per_group": placement.group_nodes(job),
            "nodes_together": placement.unit_nodes(job),
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
            "runtime": job.cluster.runtime,
            "container_names": variables.container_names(job),
            "image": container.image_argument(job),
            "reference": job.container.image.reference,
            "image_file": container.imported_file(job),
            "container_mounts": container.mount_option(job),
            "bundle_target": MOUNTED,
            "watchdog_python": "python3" if container.contained(job) else job.cluster.python,
            "watchdog": limits.watchdog(job),
            "long_run": limits.long_run(job),
            "requeue": limits.requeues(job),
            "steps": limits.steps(job),
            "preflight": job.cluster.preflight,
            "preflight_retry": preflight.retries(job),
            "preflight_seconds": preflight.seconds(job),
            "preflight_after": preflight.seconds_after(),
        },
    )


def directives(job: Job) -> Iterator[Directive]:
    """Yield the `#SBATCH` lines."""
    cluster = job.cluster
    yield _option("job-name", job.name)
    yield _option("output", f"{file_name(job.name)}-%j.log")
    asked = placement.ask(job)
    yield _option("nodes", asked.nodes, *_about(asked))
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
    if signal := limits.signal(job):
        yield _option(
            "signal",
            signal,
            "Every process is told before the time limit comes, and MaxText then saves and ends.",
        )
    yield from _requeue(job)
    for name in ("partition", "account", "qos", "reservation"):
        if text := getattr(cluster, name):
            yield _option(name, text)
    if asked.segment:
        yield _option("segment", asked.segment, *_SEGMENT)
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


def _requeue(job: Job) -> Iterator[Directive]:
    """Yield what Slurm does with a job after a node failed or it was preempted.

    Most sites requeue by default (JobRequeue=1), so that it is said either way.
    """
    said = {text.removeprefix("--").partition("=")[0] for text in job.cluster.directives}
    if not limits.long_run(job):
        if not said & {"requeue", "no-requeue"}:
            yield Directive(
                "--no-requeue", ("It saves nothing that another start could go on from.",)
            )
        return
    if limits.requeues(job) and not said & {"requeue", "no-requeue"}:
        yield Directive("--requeue", ("It goes on from its last checkpoint.",))
    elif not said & {"requeue", "no-requeue"}:
        yield Directive("--no-requeue")
    if "open-mode" not in said:
        yield _option("open-mode", "append")


def _about(asked: placement.Ask) -> Iterator[str]:
    """Yield what there is to say about the nodes asked for."""
    if asked.spare:
        yield f"{asked.spare} of these nodes are spare: placement.py picks those that run."
    if asked.note:
        yield f"{asked.note[0].upper()}{asked.note[1:]}."


def _option(name: str, value: str | int, *why: str) -> Directive:
    return Directive(f"--{name}={templates.sbatch(str(value))}", why)


def file_name(name: str) -> str:
    """Return a run's name as part of a file name: nothing Slurm or a shell would act on."""
    kept = "".join(
        char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in name
    )
    return kept.lstrip("-.")[:64] or "run"
