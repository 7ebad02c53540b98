"""The cluster profile: what a site's scheduler wants."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from moectl.spec.base import SpecModel


class ClusterMountSpec(SpecModel):
    """A bind mount every job of the site gets."""

    source: str = Field(description="Absolute path on the nodes.")
    target: str = Field(description="Absolute path in the container.")
    read_only: bool = Field(False, description="Mount read-only.")


class ClusterSpec(SpecModel):
    """A site. Nothing is required; what is left out is left out of the script."""

    name: str = Field("", description="Name of the site.")
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
    nodes_per_domain: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Usable nodes of one NVLink domain, where the site differs."
    )
    runtime: Literal["pyxis", "none"] = Field(
        "pyxis", description="What starts the container; none runs in the node's environment."
    )
    python: str = Field("python3", description="Interpreter when runtime is none.")
    mounts: list[ClusterMountSpec] = Field(
        default_factory=list, description="Mounts every job here gets."
    )
    environment: dict[str, str | int | float] = Field(
        default_factory=dict, description="Variables every job here gets, e.g. NCCL_IB_HCA."
    )
    directives: list[str] = Field(
        default_factory=list, description="Further #SBATCH options, e.g. --comment=moe."
    )
