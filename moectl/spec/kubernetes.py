"""The part of a cluster profile that only Kubernetes reads."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from moectl.spec.base import SpecModel

# A name of an object, and a label without a value: both may have dots and a prefix.
_NAME = r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$"
_LABEL = r"^([A-Za-z0-9]([A-Za-z0-9._/-]{0,315}[A-Za-z0-9])?)?$"


class KubernetesVolumeSpec(SpecModel):
    """A volume every pod gets: one of claim, host_path and bucket."""

    target: str = Field(description="Absolute path in the container.")
    claim: Annotated[str, Field(pattern=_NAME)] = Field(
        "", description="Name of a PersistentVolumeClaim."
    )
    host_path: str = Field("", description="Absolute path on the nodes.")
    bucket: str = Field("", description="Bucket as KIND:NAME, e.g. gcs:team-runs.")
    read_only: bool = Field(False, description="Mount read-only.")


class InitContainerSpec(SpecModel):
    """A container that ends before the processes start; it sees the same volumes."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")] = Field(
        description="Its name."
    )
    image: str = Field(description="Its image.")
    command: list[str] = Field(default_factory=list, description="Its command, word by word.")


class KubernetesSpec(SpecModel):
    """What a site's Kubernetes wants. Nothing is required."""

    context: str = Field("", description="Context of the kubeconfig; left out, the current one.")
    namespace: Annotated[str, Field(pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$")] = Field(
        "", description="Namespace of the jobs; left out, the context's own."
    )
    network: str = Field(
        "generic", description="Ready network: annotations, resources, mounts and variables."
    )
    gpu_resource: str = Field("nvidia.com/gpu", description="Name of the GPUs as a resource.")
    resources: list[str] = Field(
        default_factory=list, description="Further resources of a pod, each NAME=QUANTITY."
    )
    shared_memory: str = Field("64Gi", description="Size of /dev/shm, which is memory.")
    annotations: list[str] = Field(
        default_factory=list, description="Annotations of the pods, each KEY=VALUE."
    )
    labels: list[str] = Field(
        default_factory=list, description="Labels of the pods, each KEY=VALUE."
    )
    node_selector: list[str] = Field(
        default_factory=list, description="Labels that a node must have, each KEY=VALUE."
    )
    tolerations: list[str] = Field(
        default_factory=list,
        description="Taints the pods bear, as kubectl writes them: KEY[=VALUE][:EFFECT].",
    )
    priority_class: Annotated[str, Field(pattern=_NAME)] = Field(
        "", description="PriorityClass of the pods."
    )
    service_account: Annotated[str, Field(pattern=_NAME)] = Field(
        "", description="ServiceAccount of the pods."
    )
    image_pull_secrets: list[str] = Field(
        default_factory=list, description="Names of Secrets that images are pulled with."
    )
    secret: Annotated[str, Field(pattern=_NAME)] = Field(
        "", description="Name of the Secret that holds the run's secrets under their own names."
    )
    secret_keys: list[str] = Field(
        default_factory=list,
        description="Secrets that lie elsewhere, each VARIABLE=SECRET/KEY; never a value.",
    )
    volumes: list[KubernetesVolumeSpec] = Field(
        default_factory=list, description="Volumes every pod gets."
    )
    init_containers: list[InitContainerSpec] = Field(
        default_factory=list, description="Containers that end before the processes start."
    )
    termination_grace: Annotated[int, Field(ge=0, le=86400)] | None = Field(
        None, description="Seconds a pod gets to end; left out, enough for a last checkpoint."
    )
    compute_domain: bool | None = Field(
        None, description="Make a ComputeDomain; left out, where nodes share an NVLink domain."
    )
    queue: Annotated[str, Field(pattern=_NAME)] = Field("", description="Local queue of Kueue.")
    workload_priority: Annotated[str, Field(pattern=_NAME)] = Field(
        "", description="WorkloadPriorityClass of Kueue."
    )
    suspend: bool = Field(False, description="Create the JobSet suspended.")
    domain_topology: Annotated[str, Field(pattern=_LABEL)] = Field(
        "", description="Node label of an NVLink domain, a level of Kueue's topology."
    )
    required_topology: Annotated[str, Field(pattern=_LABEL)] = Field(
        "", description="Node label within which Kueue must place all nodes."
    )
    preferred_topology: Annotated[str, Field(pattern=_LABEL)] = Field(
        "", description="Node label within which Kueue should place all nodes."
    )
    max_restarts: Annotated[int, Field(ge=0, le=1000)] = Field(
        3, description="How often a failure of the infrastructure starts the job again."
    )
    keep_seconds: Annotated[int, Field(ge=0)] | None = Field(
        604800, description="Seconds a finished job is kept; null is for ever."
    )
