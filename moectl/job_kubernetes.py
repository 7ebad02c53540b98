"""What a cluster profile says of Kubernetes, every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of every pod; exactly one of claim, host_path and bucket is said.

    Attributes:
        target: absolute path in the container.
        claim: name of a PersistentVolumeClaim.
        host_path: absolute path on the nodes.
        bucket: "KIND:NAME" of a bucket that a CSI driver mounts, e.g. "gcs:team-runs".
        read_only: whether it is mounted read-only.
    """

    target: str
    claim: str = ""
    host_path: str = ""
    bucket: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class InitContainer:
    """A container that ends before the processes start; it sees the same volumes."""

    name: str
    image: str
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """The site as Kubernetes needs it.

    Attributes:
        context: context of the kubeconfig; empty for the current one.
        namespace: namespace of the job; empty for the context's own.
        network: name of a ready network of the facts.
        gpu_resource: name of the GPUs as a resource.
        resources: further resources of a pod, name to quantity.
        shared_memory: quantity of /dev/shm.
        annotations, labels: of the pods.
        node_selector: labels that a node must have.
        tolerations: taints as kubectl writes them, KEY[=VALUE][:EFFECT].
        priority_class, service_account: names, or empty.
        image_pull_secrets: names of Secrets.
        secret: the Secret that holds the job's secrets under their own names, or empty.
        secret_keys: variable to (Secret, key), where they differ from that.
        volumes, init_containers: of every pod.
        termination_grace: seconds a pod gets to end, or None for the launch's own choice.
        compute_domain: whether a ComputeDomain is made; None where nodes share NVLink.
        queue: Kueue's local queue, or empty.
        workload_priority: Kueue's WorkloadPriorityClass, or empty.
        suspend: whether the JobSet is made suspended.
        domain_topology: node label of an NVLink domain in Kueue's topology, or empty.
        required_topology, preferred_topology: node label within which all nodes must or
            should lie, or empty.
        max_restarts: how often infrastructure failures start the job again.
        keep_seconds: seconds a finished job is kept, or None for ever.
    """

    context: str = ""
    namespace: str = ""
    network: str = "generic"
    gpu_resource: str = "nvidia.com/gpu"
    resources: Mapping[str, str] = field(default_factory=dict)
    shared_memory: str = "64Gi"
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[str, ...] = ()
    priority_class: str = ""
    service_account: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    secret: str = ""
    secret_keys: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[InitContainer, ...] = ()
    termination_grace: int | None = None
    compute_domain: bool | None = None
    queue: str = ""
    workload_priority: str = ""
    suspend: bool = False
    domain_topology: str = ""
    required_topology: str = ""
    preferred_topology: str = ""
    max_restarts: int = 3
    keep_seconds: int | None = 604800
