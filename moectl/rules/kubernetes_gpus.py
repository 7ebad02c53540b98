"""Rules on the GPUs of pods: how many a node has, where pods lie, how they are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moectl.errors import shown
from moectl.rules.kubernetes_read import (
    containers_of,
    facts,
    platform_asked,
    pods_of,
    scheduled_together,
    trains,
)
from moectl.rules.rule import Fault, rules
from moectl.settings.sources.manifest import is_template
from moectl.settings.sources.pods import (
    Pod,
    entries,
    gpus,
    mapping,
    number,
)
from moectl.workload import MARK, Manifest, Workload

RULES = rules()
_API: Final = "Kubernetes API reference v1.33"
_QUANTITY: Final = re.compile(r"[0-9]+")
_SHM: Final = "/dev/shm"  # noqa: S108 - a path in a container


@RULES.rule(
    "K8S141",
    "more GPUs than a node has",
    reason="A pod runs on one node; one that asks for more GPUs than any node has stays pending.",
    remedy="ask for the GPUs of one node, and for more pods",
    source="moectl hardware catalogue; awslabs/awsome-distributed-ai PR 876",
)
def gpus_of_a_node(w: Workload) -> Iterator[Fault]:
    """Find e.g. 8 GPUs a pod on GB200, whose nodes have 4."""
    for manifest, pod in pods_of(w):
        found = platform_asked(w, pod)
        counts = [(path, gpus(container)) for path, container in pod.containers]
        asked = [(path, count) for path, count in counts if isinstance(count, int)]
        if found is None or not asked:
            continue
        hardware, label = found
        total = sum(count for _, count in asked)
        if total > hardware.gpus_per_node:
            more = ""
            if isinstance(pod.count, int) and total % hardware.gpus_per_node == 0:
                wanted = pod.count * total // hardware.gpus_per_node
                more = f", and {wanted} pods for the same {pod.count * total} GPUs"
            resource = facts()["gpu_resource"]
            yield Fault(
                resource,
                f"the pod asks for {total} GPUs, and a node of {hardware.name} "
                f"({shown(label, 40)}) has {hardware.gpus_per_node}.",
                manifest.at(*asked[0][0], "resources", "limits", resource),
                f"{resource}: {hardware.gpus_per_node}{more}",
            )


@RULES.rule(
    "K8S142",
    "pods that may lie in several NVLink domains",
    reason="Without an affinity the scheduler spreads pods over racks, and what was to go over "
    "NVLink goes over the network.",
    remedy="add a pod affinity with topologyKey nvidia.com/gpu.clique, a ComputeDomain claim, or "
    "a Kueue topology",
    source="awslabs/awsome-distributed-ai PR 876; the GPU operator's label nvidia.com/gpu.clique",
    severity="warning",
    stage="silent",
)
def one_clique(w: Workload) -> Iterator[Fault]:
    """Find several pods on a rack-scale platform with nothing that keeps them together."""
    for manifest, pod in pods_of(w):
        found = platform_asked(w, pod)
        if found is None or not trains(pod) or is_template(manifest):
            continue
        hardware, _ = found
        several = isinstance(pod.count, int) and pod.count > 1
        if not several or hardware.nodes_per_domain < 2 or _kept_together(manifest, pod):
            continue
        yield Fault(
            "affinity",
            f"{pod.count} pods on {hardware.name}, whose NVLink domain spans "
            f"{hardware.nodes_per_domain} nodes, and nothing keeps them in one domain.",
            manifest.at(*pod.path, "spec"),
        )


def _kept_together(manifest: Manifest, pod: Pod) -> bool:
    clique = facts()["clique_label"]
    claims = entries(pod.spec.get("resourceClaims"))
    selector = mapping(pod.spec.get("nodeSelector"))
    text = str(pod.spec.get("affinity")) + str(pod.spec.get("topologySpreadConstraints"))
    return (
        clique in selector
        or clique in text
        or "topologyKey" in text
        or bool(claims)
        or scheduled_together(manifest)
    )


@RULES.rule(
    "K8S143",
    "GPU request the API refuses",
    reason="GPUs are extended resources: a whole number, given as limit, and a request that is "
    "given too must equal it.",
    remedy="say nvidia.com/gpu under limits, as a whole number",
    source=f"{_API}, extended resources",
    stage="reads",
)
def gpu_request(w: Workload) -> Iterator[Fault]:
    """Find requests without or beside limits, and fractions of a GPU."""
    resource = facts()["gpu_resource"]
    for manifest, _, path, container in containers_of(w):
        resources = mapping(container.get("resources"))
        limits = mapping(resources.get("limits"))
        requests = mapping(resources.get("requests"))
        limit, request = limits.get(resource), requests.get(resource)
        for key, said in (("limits", limit), ("requests", request)):
            text = str(said)
            if said is not None and MARK not in text and not _QUANTITY.fullmatch(text):
                where = manifest.at(*path, "resources", key, resource)
                yield Fault(resource, f"{shown(said, 40)} GPUs: a whole number is wanted.", where)
        where = manifest.at(*path, "resources", "requests", resource)
        if request is not None and limit is None and not is_template(manifest):
            yield Fault(resource, f"{request} GPUs are requested, and no limit is given.", where)
        numbers = (number(limit), number(request))
        if all(isinstance(n, int) for n in numbers) and numbers[0] != numbers[1]:
            message = f"{numbers[1]} GPUs are requested, and the limit is {numbers[0]}."
            yield Fault(resource, message, where, f"make both {numbers[0]}")


@RULES.rule(
    "K8S144",
    "little shared memory for several GPUs",
    reason="A container has 64 MiB at /dev/shm unless a memory volume is mounted there; NCCL and "
    "data loaders of several GPUs need more, and fail with a bus error or a crash.",
    remedy="mount an emptyDir with medium: Memory at /dev/shm",
    source="NCCL user guide, troubleshooting (shared memory); Kubernetes emptyDir",
    severity="warning",
)
def shared_memory(w: Workload) -> Iterator[Fault]:
    """Find containers with several GPUs and nothing mounted at /dev/shm."""
    resource = facts()["gpu_resource"]
    for manifest, pod, path, container in containers_of(w):
        count = gpus(container)
        if not isinstance(count, int) or count < 2 or is_template(manifest):
            continue
        mounts = [mapping(mount) for mount in entries(container.get("volumeMounts"))]
        shm = next((m for m in mounts if str(m.get("mountPath", "")).rstrip("/") == _SHM), None)
        if pod.spec.get("hostIPC") is True or (shm is not None and _is_memory(pod, shm)):
            continue
        what = (
            "nothing is mounted at /dev/shm"
            if shm is None
            else (f"the volume {shown(shm.get('name'), 40)} at /dev/shm is not in memory")
        )
        where = manifest.at(*path, "resources", "limits", resource)
        yield Fault("volumeMounts", f"{count} GPUs in one container, and {what}.", where)


def _is_memory(pod: Pod, mount: Mapping[str, Any]) -> bool:
    for volume in map(mapping, entries(pod.spec.get("volumes"))):
        if volume.get("name") == mount.get("name"):
            empty = volume.get("emptyDir")
            return "emptyDir" not in volume or mapping(empty).get("medium") == "Memory"
    return True  # the volume stands elsewhere
