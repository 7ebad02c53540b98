"""The pod of a node: one container that starts one process a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moectl import placement
from moectl.job import Job
from moectl.job_kubernetes import Volume
from moectl.kubernetes_names import channel_name
from moectl.render import container, limits, variables
from moectl.render.kubernetes_plan import FILES, START, facts, image, network, work
from moectl.settings.bundle_names import MOUNTED

CONTAINER = "train"
_CLAIM = "compute-domain-channel"


def wants_domain(job: Job) -> bool:
    """Return whether a ComputeDomain is made for a job."""
    said = job.cluster.kubernetes.compute_domain
    return placement.spans_domains(job) if said is None else said


def template(job: Job, name: str) -> dict[str, Any]:
    """Return the pod template of a job whose objects have a name."""
    site, ready = job.cluster.kubernetes, network(job)
    mounts, volumes = _volumes(job, name)
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace(job),
        # Variables of Services would be keys of MaxText where a Service is called m-something.
        "enableServiceLinks": False,
    }
    if site.service_account:
        spec["serviceAccountName"] = site.service_account
    if site.priority_class:
        spec["priorityClassName"] = site.priority_class
    if site.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret} for secret in site.image_pull_secrets]
    if selector := {**ready.get("node_selector", {}), **site.node_selector}:
        spec["nodeSelector"] = selector
    if taints := list(dict.fromkeys((*ready.get("tolerations", ()), *site.tolerations))):
        spec["tolerations"] = [_toleration(text) for text in taints]
    if affinity := _together(job, name):
        spec["affinity"] = affinity
    if wants_domain(job):
        spec["resourceClaims"] = [{"name": _CLAIM, "resourceClaimTemplateName": channel_name(name)}]
    if site.init_containers:
        spec["initContainers"] = [
            {
                "name": each.name,
                "image": each.image,
                **({"command": [_literal(word) for word in each.command]} if each.command else {}),
                "volumeMounts": mounts,
            }
            for each in site.init_containers
        ]
    spec["containers"] = [_container(job, mounts)]
    spec["volumes"] = volumes
    return {"metadata": _metadata(job), "spec": spec}


def _together(job: Job, name: str) -> dict[str, Any]:
    """Return what keeps all pods in one NVLink domain where no Kueue places slices.

    A job of several slices cannot be said this way; its pods find out when they start.
    """
    site = job.cluster.kubernetes
    one = placement.spans_domains(job) and placement.unit_nodes(job) == job.nodes
    if not (site.domain_topology and one) or site.queue:
        return {}
    term = {
        "labelSelector": {"matchLabels": {facts()["jobset_label"]: name}},
        "topologyKey": site.domain_topology,
    }
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def grace(job: Job) -> int:
    """Return the seconds a pod gets to end: enough for a last checkpoint, where it saves one."""
    said = job.cluster.kubernetes.termination_grace
    if said is not None:
        return said
    seconds: int = facts()["grace"]["saves" if limits.saves(job) else "plain"]
    return seconds


def _metadata(job: Job) -> dict[str, Any]:
    site, ready, known = job.cluster.kubernetes, network(job), facts()
    annotations = dict(ready.get("annotations", {}))
    for volume in site.volumes:
        kind = volume.bucket.partition(":")[0]
        annotations |= known["buckets"].get(kind, {}).get("annotations", {})
    if site.required_topology:
        annotations[known["required_topology"]] = site.required_topology
    if site.preferred_topology:
        annotations[known["preferred_topology"]] = site.preferred_topology
    together = placement.unit_nodes(job)
    if site.queue and site.domain_topology and placement.spans_domains(job) and together > 1:
        annotations[known["slice_topology"]] = site.domain_topology
        annotations[known["slice_size"]] = str(together)
    annotations |= site.annotations
    found: dict[str, Any] = {}
    if site.labels:
        found["labels"] = dict(site.labels)
    if annotations:
        found["annotations"] = annotations
    return found


def _container(job: Job, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    site = job.cluster.kubernetes
    limits_of = {
        site.gpu_resource: str(job.processes_per_node),
        **network(job).get("resources", {}),
        **site.resources,
    }
    resources: dict[str, Any] = {"limits": limits_of}
    if wants_domain(job):
        resources["claims"] = [{"name": _CLAIM}]
    return {
        "name": CONTAINER,
        "image": image(job),
        "command": ["python3", f"{FILES}/{START}"],
        "env": list(_environment(job)),
        "resources": resources,
        # RDMA pins memory.
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "volumeMounts": mounts,
    }


def _environment(job: Job) -> Iterator[dict[str, Any]]:
    """Yield the variables: the network's, the job's, the secrets by reference, and who this is."""
    site, known = job.cluster.kubernetes, facts()
    values = {**network(job).get("environment", {}), **variables.environment(job)}
    for name, value in values.items():
        yield {"name": name, "value": _literal(value)}
    for name in job.secrets:
        secret, key = site.secret_keys.get(name, (site.secret, name))
        reference = {"name": secret, "key": key}
        yield {"name": name, "valueFrom": {"secretKeyRef": reference}}
    for name, path in (
        ("MOECTL_JOBSET", f"metadata.labels['{known['jobset_label']}']"),
        ("MOECTL_RESTART", f"metadata.labels['{known['restart_label']}']"),
        ("MOECTL_NODE", "spec.nodeName"),
    ):
        yield {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _literal(text: str) -> str:
    """Return a text of which Kubernetes expands nothing: `$(NAME)` it would, `$$` is one `$`."""
    return text.replace("$", "$$")


def _toleration(text: str) -> dict[str, str]:
    """Return a taint as kubectl writes it, KEY[=VALUE][:EFFECT], as a toleration."""
    taint, _, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    found = {"key": key, "operator": "Equal" if equals else "Exists"}
    if equals:
        found["value"] = value
    return {**found, "effect": effect} if effect else found


def _volumes(job: Job, name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the mounts of the container and the volumes of the pod."""
    found: list[tuple[str, bool, dict[str, Any]]] = [
        (FILES, True, {"name": "files", "configMap": {"name": name}}),
    ]
    if work(job) == MOUNTED:
        found.append((MOUNTED, False, {"name": "work", "emptyDir": {}}))
    shared_memory = {"medium": "Memory", "sizeLimit": job.cluster.kubernetes.shared_memory}
    found.append(("/dev/shm", False, {"name": "shared-memory", "emptyDir": shared_memory}))  # noqa: S108 - a path in the container
    for index, (target, path) in enumerate(network(job).get("host_paths", {}).items()):
        found.append((target, True, {"name": f"network-{index}", **_host(path)}))
    for index, volume in enumerate(job.cluster.kubernetes.volumes):
        source = {"name": f"volume-{index}", **_source(volume)}
        found.append((volume.target, volume.read_only, source))
    for index, mount in enumerate(job.container.mounts):
        found.append(
            (mount.target, mount.read_only, {"name": f"mount-{index}", **_host(mount.source)})
        )
    for checkout in job.container.checkouts:
        target = container.checkout_target(checkout.package)
        source = {"name": f"checkout-{checkout.package}", **_host(checkout.path)}
        found.append((target, True, source))
    mounts = [
        {
            "name": source["name"],
            "mountPath": target,
            **({"readOnly": True} if read_only else {}),
        }
        for target, read_only, source in found
    ]
    return mounts, [source for _, _, source in found]


def _host(path: str) -> dict[str, Any]:
    return {"hostPath": {"path": path}}


def _source(volume: Volume) -> dict[str, Any]:
    if volume.claim:
        return {"persistentVolumeClaim": {"claimName": volume.claim}}
    if volume.host_path:
        return _host(volume.host_path)
    kind, _, bucket = volume.bucket.partition(":")
    row = facts()["buckets"][kind]
    return {"csi": {"driver": row["driver"], "volumeAttributes": {row["attribute"]: bucket}}}
