"""What the pods are told beside their environment: pod.json and the programs of the ConfigMap."""

from __future__ import annotations

import json
from typing import Any

from moectl import placement
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.kubernetes_names import REPLICATED_JOB
from moectl.render import container, limits, programs, templates, variables
from moectl.render.config import arguments, config_yml
from moectl.settings.bundle_names import CONFIG, LOCK, MOUNTED

START = "pod_start.py"
_MEET = "pod_meet.py"
PLAN = "pod.json"
# Where the ConfigMap lies in the container.
FILES = "/etc/moectl"
_AS_KNOWN = (
    "join_port", "coordinator_port", "join_seconds", "end_seconds", "victim_seconds", "exits",
    "config_rows", "memory_rows",
)  # fmt: skip
_HOST = f"{{jobset}}-{REPLICATED_JOB}-0-{{index}}.{{jobset}}"


def facts() -> dict[str, Any]:
    """Return what is known of launching on Kubernetes."""
    return read("kubernetes_launch.yaml")


def network(job: Job) -> dict[str, Any]:
    """Return the ready network of a job."""
    found: dict[str, Any] = facts()["networks"][job.cluster.kubernetes.network]
    return found


def shared(job: Job, path: str) -> bool:
    """Return whether a folder outlives the pods: a volume or a mount of the job holds it."""
    volumes = job.cluster.kubernetes.volumes
    mounts = [mount.target for mount in job.container.mounts]
    targets = [volume.target for volume in volumes] + mounts
    return any(path == target or path.startswith(f"{target.rstrip('/')}/") for target in targets)


def work(job: Job) -> str:
    """Return the working folder of a pod: of the site's runs where the pods see it."""
    runs = job.cluster.runs_folder.rstrip("/")
    return f"{runs}/{{jobset}}" if runs and shared(job, runs) else MOUNTED


def plan(job: Job) -> dict[str, Any]:
    """Return what pod.json holds."""
    known = facts()
    per_node = job.processes_per_node
    library_path = network(job).get("library_path")
    return {
        "nodes": job.nodes,
        "per_node": per_node,
        "gpus_per_slice": job.mesh.gpus_per_slice,
        "spans": placement.spans_domains(job) and placement.unit_nodes(job) > 1,
        "nodes_per_slice": job.nodes_per_slice,
        "nodes_per_domain": placement.domain_nodes(job),
        "nodes_per_group": placement.group_nodes(job),
        "host": _HOST,
        "work": work(job),
        **{name: known[name] for name in _AS_KNOWN},
        "arguments": arguments(job),
        "python_path": _python_path(job),
        "library_path": [library_path] if library_path else [],
        "debug": job.debug,
        "dump": "" if variables.DUMP_FLAG in job.xla_flags else variables.DUMP_FLAG,
        "image": image(job),
        "secrets": list(job.secrets),
        "watchdog": [word for word in limits.watchdog(job) if not word.startswith("--ranks=")],
    }


def image(job: Job) -> str:
    """Return the image as Kubernetes reads it."""
    found = job.container.image
    return f"{found.reference}@{found.digest}" if found.digest else found.reference


def files(job: Job, lock: str) -> dict[str, str]:
    """Return the files of the ConfigMap, name to text."""
    return {
        CONFIG: config_yml(job),
        PLAN: json.dumps(plan(job), indent=1) + "\n",
        START: templates.source(START),
        _MEET: templates.source(_MEET),
        programs.PLACEMENT: templates.source(programs.PLACEMENT),
        programs.WATCHDOG: programs.watchdog(),
        programs.AS_RUN: templates.source(programs.AS_RUN),
        LOCK: lock,
    }


def _python_path(job: Job) -> list[str]:
    """Return what stands first on PYTHONPATH: the packages of the checkouts, as mounted."""
    found = []
    for checkout in job.container.checkouts:
        root = container.checkout_target(checkout.package)
        folder = container.PACKAGE_FOLDERS.get(checkout.package, "")
        found.append(f"{root}/{folder}" if folder else root)
    return found
