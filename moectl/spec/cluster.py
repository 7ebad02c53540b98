"""The cluster profile: what a site's scheduler wants."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from moectl.spec.base import SpecModel
from moectl.spec.kubernetes import KubernetesSpec


class ClusterMountSpec(SpecModel):
    """A bind mount every job of the site gets."""

    source: str = Field(description="Absolute path on the nodes.")
    target: str = Field(description="Absolute path in the container.")
    read_only: bool = Field(False, description="Mount read-only.")


class ClusterSpec(SpecModel):
    """A site. Nothing is required; what is left out is left out of the script."""

    name: str = Field("", description="Name of the site.")
    launcher: Literal["slurm", "local", "kubernetes"] | None = Field(
        None,
        description="What `moectl launch` uses; left out, Slurm where sbatch is found, else local.",
    )
    partition: str = Field("", description="Slurm partition.")
    account: str = Field("", description="Slurm account.")
    qos: str = Field("", description="Slurm quality of service.")
    reservation: str = Field("", description="Slurm reservation.")
    time: Annotated[
        str, Field(pattern=r"^(\d+|\d+:\d{1,2}(:\d{1,2})?|\d+-\d{1,2}(:\d{1,2}){0,2})$")
    ] = Field("01:00:00", description="Time limit as Slurm writes it, e.g. 04:00:00.")
    gpu_request: Literal["gpus-per-node", "gres", "none"] = Field(
        "gpus-per-node", description="How GPUs are asked for."
    )
    gres: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*(:[A-Za-z][A-Za-z0-9._-]*)?$")] = (
        Field("gpu", description="gres name, with its type where the site wants it.")
    )
    memory: Annotated[str, Field(pattern=r"^(\d+[KMGT]?)?$")] = Field(
        "0", description="--mem; 0 is the whole node, empty leaves it out."
    )
    exclusive: bool = Field(True, description="Ask for whole nodes.")
    cpus_per_task: Annotated[int, Field(ge=1)] | None = Field(
        None, description="CPUs a process; left out, the node's cores over its GPUs."
    )
    segment: bool = Field(
        True, description="Ask for --segment on platforms whose NVLink domain spans nodes."
    )
    slurm_release: Annotated[str, Field(pattern=r"^(\d{2}\.\d{2}(\.\d+)?)?$")] = Field(
        "", description="Release of the Slurm, in quotes; before 23.11 --segment is left out."
    )
    block_topology: bool | None = Field(
        None, description="Whether the Slurm has topology/block; false leaves --segment out."
    )
    nodes_per_domain: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Nodes of one NVLink domain, where the site's differ; all may be used."
    )
    usable_nodes: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Nodes of a domain that a slice may take, e.g. 16 of 18."
    )
    spare_nodes: Annotated[int, Field(ge=0, le=1024)] = Field(
        0, description="Nodes asked for beyond the job's, of which placement picks the good ones."
    )
    preflight: bool = Field(
        False, description="Look at every process before it trains, and stop where one is unfit."
    )
    preflight_retry: bool = Field(
        False,
        description="Leave out the nodes that a preflight names and look once more, on spare "
        "nodes; it turns the preflight on.",
    )
    node_architecture: Literal["aarch64", "x86_64"] | None = Field(
        None, description="Architecture of the nodes, where it is not the platform's."
    )
    runtime: Literal["pyxis", "apptainer", "none"] = Field(
        "pyxis", description="What starts the container; none runs in the node's environment."
    )
    python: str = Field("python3", description="Interpreter when runtime is none.")
    devices: Literal["gpu", "cpu"] | None = Field(
        None,
        description="Devices of the local launcher; left out, GPUs where the machine has any, "
        "else virtual CPU devices.",
    )
    processes: Annotated[int, Field(ge=1, le=1024)] = Field(
        1, description="Processes of the local launcher on CPU devices; on GPUs it is one a GPU."
    )
    image: Annotated[
        str,
        Field(
            pattern=r"^(|/[!-~]+\.(sqsh|squashfs|sif)|[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?"
            r"(/[A-Za-z0-9][A-Za-z0-9._-]*)*(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?)$"
        ),
    ] = Field(
        "",
        description="Image of the site, registry/path:tag or an absolute .sqsh path; wins over a "
        "preset's.",
    )
    image_folder: Annotated[str, Field(pattern=r"^(/[^,:\"$`\\\x00-\x1f\x7f]*)?$")] = Field(
        "",
        description="Absolute folder where `moectl image pull` keeps .sqsh files, used instead of "
        "the registry.",
    )
    mounts: list[ClusterMountSpec] = Field(
        default_factory=list, description="Mounts every job here gets."
    )
    runs_folder: Annotated[str, Field(pattern=r"^(/[^\x00-\x1f\x7f]*)?$")] = Field(
        "",
        description="Absolute folder that every node sees, for bundles, output and run records.",
    )
    socket_interfaces: list[str] = Field(
        default_factory=list,
        description="Network interfaces of NCCL's sockets, as NCCL_SOCKET_IFNAME names them.",
    )
    ib_hcas: list[str] = Field(
        default_factory=list,
        description="InfiniBand or RoCE adapters NCCL uses, as NCCL_IB_HCA names them.",
    )
    environment: dict[str, str | int | float] = Field(
        default_factory=dict, description="Variables every job here gets, e.g. NCCL_IB_HCA."
    )
    directives: list[str] = Field(
        default_factory=list, description="Further #SBATCH options, e.g. --comment=moe."
    )
    gpu_hours_limit: Annotated[float, Field(gt=0)] | None = Field(
        None, description="GPU-hours above which `moectl launch` asks before it submits."
    )
    compile_limit: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="Seconds without a first step after which the watchdog ends a job; "
        "0 for no limit.",
    )
    step_limit: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="Seconds without a new step after which the watchdog ends a job; "
        "0 for no limit.",
    )
    watchdog_factor: Annotated[float, Field(ge=1)] | None = Field(
        None, description="Multiple of the median step that the watchdog waits for at least."
    )
    watchdog_grace: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="Seconds that a process which told why it ends is given before the watchdog "
        "ends the job.",
    )
    signal_seconds: Annotated[int, Field(ge=0, le=65535)] | None = Field(
        None,
        description="Seconds before the time limit at which MaxText is told to save and end; "
        "0 for never.",
    )
    requeue: Annotated[int, Field(ge=0, le=100)] | None = Field(
        None,
        description="How often a job that saves checkpoints goes back into the queue without a "
        "new step; 0 for never, after a node failure neither.",
    )
    kubernetes: KubernetesSpec = Field(
        default_factory=KubernetesSpec, description="What only Kubernetes reads."
    )
