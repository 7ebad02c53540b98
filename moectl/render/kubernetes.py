"""The manifest of a job: ConfigMap, ComputeDomain and JobSet in one file."""

from __future__ import annotations

from typing import Any

from moectl.job import Job
from moectl.kubernetes_names import REPLICATED_JOB, channel_name, object_name
from moectl.render import kubernetes_checks, kubernetes_pod, limits, manifest_yaml
from moectl.render.kubernetes_plan import facts, files

MANAGED = {"app.kubernetes.io/managed-by": "moectl"}


def manifest(job: Job, lock: str) -> str:
    """Return the manifest; `kubectl apply -f` of it runs the job.

    Args:
        job: the job.
        lock: text of its lock file, which the pods see too.

    Raises:
        UsageError: the job holds what a manifest cannot say; everything of it at once.
    """
    kubernetes_checks.require(job)
    found = documents(job, lock)
    kubernetes_checks.require_objects(found)
    return manifest_yaml.text(list(zip(_comments(job, found), found, strict=True)))


def documents(job: Job, lock: str) -> list[dict[str, Any]]:
    """Return the objects, in the order in which they are made."""
    name = object_name(job.name)
    found = [_config_map(job, name, lock)]
    if kubernetes_pod.wants_domain(job):
        found.append(_compute_domain(job, name))
    return [*found, _jobset(job, name)]


def _comments(job: Job, found: list[dict[str, Any]]) -> list[str]:
    title = f"{job.name}: {job.title}" if job.title else job.name
    head = "".join(char if char.isprintable() else "?" for char in title)
    nodes = f"{job.nodes} node{'s' if job.nodes > 1 else ''}"
    told = {
        "ConfigMap": f"{head}\n{job.gpus} GPUs, one process each; {nodes} of "
        f"{job.hardware.title}; {job.mesh.slices} slice{'s' if job.mesh.slices > 1 else ''} of "
        f"{job.mesh.gpus_per_slice} GPUs.\n\nWritten by moectl: change the run file and render "
        "again, or the lock file no longer says\nwhat runs. kubectl apply -f jobset.yaml runs it.",
        "ComputeDomain": "The memory of GPUs on other nodes of an NVLink domain is seen through "
        "it: one domain a job.",
        "JobSet": "One pod a node. What the configuration or the memory makes fail is not started "
        "again; the rest is.",
    }
    return [told[document["kind"]] for document in found]


def _metadata(job: Job, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    if job.cluster.kubernetes.namespace:
        found["namespace"] = job.cluster.kubernetes.namespace
    return {**found, "labels": dict(MANAGED)}


def _config_map(job: Job, name: str, lock: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(job, name),
        "data": files(job, lock),
    }


def _compute_domain(job: Job, name: str) -> dict[str, Any]:
    # numNodes holds drivers before 25.8 back until all nodes are there; newer ones only show it.
    return {
        "apiVersion": facts()["versions"]["compute_domain"],
        "kind": "ComputeDomain",
        "metadata": _metadata(job, name),
        "spec": {
            "numNodes": job.nodes,
            "channel": {"resourceClaimTemplate": {"name": channel_name(name)}},
        },
    }


def _jobset(job: Job, name: str) -> dict[str, Any]:
    site, known = job.cluster.kubernetes, facts()
    metadata = _metadata(job, name)
    if site.queue:
        metadata["labels"][known["queue_label"]] = site.queue
    if site.workload_priority:
        metadata["labels"][known["priority_label"]] = site.workload_priority
    spec: dict[str, Any] = {"suspend": True} if site.suspend else {}
    spec |= {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "successPolicy": {"operator": "All"},
        "failurePolicy": {
            "maxRestarts": site.max_restarts,
            "rules": [
                {
                    "name": "never_again",
                    "action": "FailJobSet",
                    "onJobFailureReasons": ["PodFailurePolicy"],
                },
                {
                    "name": "time_limit",
                    "action": "FailJobSet",
                    "onJobFailureReasons": ["DeadlineExceeded"],
                },
            ],
        },
    }
    if site.keep_seconds is not None:
        spec["ttlSecondsAfterFinished"] = site.keep_seconds
    spec["replicatedJobs"] = [
        {"name": REPLICATED_JOB, "replicas": 1, "template": {"spec": _job(job, name)}}
    ]
    return {
        "apiVersion": known["versions"]["jobset"],
        "kind": "JobSet",
        "metadata": metadata,
        "spec": spec,
    }


def _job(job: Job, name: str) -> dict[str, Any]:
    deadline = limits.seconds(job.cluster.time)
    found: dict[str, Any] = {
        "parallelism": job.nodes,
        "completions": job.nodes,
        "completionMode": "Indexed",
        # One pod that is made anew finds nobody: all are, by the JobSet.
        "backoffLimit": 0,
        **({"activeDeadlineSeconds": deadline} if deadline else {}),
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "Count",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                },
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "containerName": kubernetes_pod.CONTAINER,
                        "operator": "In",
                        "values": facts()["never_again"],
                    },
                },
            ]
        },
    }
    return {**found, "template": kubernetes_pod.template(job, name)}
