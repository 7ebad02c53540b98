"""The run file: one short typed document that says what a job is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from moectl.spec import training as sections
from moectl.spec.base import MaxTextKey, SpecModel
from moectl.spec.cluster import ClusterSpec


class PgleSpec(SpecModel):
    """Profile-guided latency estimation: JAX profiles the first steps, then recompiles."""

    enabled: bool = Field(False, description="Turn it on.")
    runs: Annotated[int, Field(ge=1)] = Field(3, description="Steps profiled before the recompile.")
    percentile: Annotated[int, Field(ge=0, le=100)] = Field(
        90, description="Percentile of the measured costs that is used."
    )


class SwitchesSpec(SpecModel):
    """Named switches; each becomes the flags, variables and remat keys of the chosen release."""

    latency_hiding: bool | None = Field(
        None, description="XLA's latency hiding scheduler; left out keeps what the image bakes."
    )
    multi_stream_collectives: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Collectives in flight on streams of their own; 1 is one stream."
    )
    offload_activations: list[str] | None = Field(
        None, description="Activations kept in pinned host memory, by MaxText's remat names."
    )
    command_buffers: list[str] | None = Field(
        None, description="What XLA records into CUDA graphs; an empty list turns them off."
    )
    pgle: PgleSpec = Field(default_factory=PgleSpec, description="Profile-guided scheduling.")


class MountSpec(SpecModel):
    """A bind mount."""

    source: str = Field(description="Absolute path on the nodes.")
    target: str = Field(description="Absolute path in the container.")
    read_only: bool = Field(False, description="Mount read-only.")


class CheckoutSpec(SpecModel):
    """A source tree of one's own used in place of the image's package."""

    path: str = Field(description="Absolute path of the checkout on the nodes.")
    commit: str = Field("", description="Its commit, kept in the lock.")


class ContainerSpec(SpecModel):
    """The image and what is mounted into it."""

    image: Annotated[
        str,
        Field(
            pattern=r"^(/[!-~]+\.(sqsh|squashfs)|[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?"
            r"(/[A-Za-z0-9][A-Za-z0-9._-]*)*(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?)$"
        ),
    ] = Field(
        "ghcr.io/nvidia/jax:maxtext-2026-09-09",
        description="Image as registry/path:tag, or the absolute path of a .sqsh file.",
    )
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = Field(
        "", description="sha256:... that pins the image."
    )
    mounts: list[MountSpec] = Field(default_factory=list, description="Bind mounts.")
    maxtext: CheckoutSpec | None = Field(None, description="A MaxText checkout of one's own.")
    transformer_engine: CheckoutSpec | None = Field(
        None, description="A Transformer Engine checkout of one's own."
    )
    maxtext_release: str | None = Field(
        None, description="MaxText release of the image, where it is known."
    )
    jaxlib_release: str | None = Field(
        None, description="jaxlib release of the image, where it is known."
    )


class AcceptSpec(SpecModel):
    """A finding that is accepted, with the reason."""

    code: str = Field(description="Code of the finding.")
    reason: str = Field(description="Why it is accepted here; shown with it.")


class LockSpec(SpecModel):
    """What a lock file adds to a run file: who made it, and where each value came from."""

    version: str = Field(description="moectl that wrote it.")
    facts: dict[str, str] = Field(description="Fact tables used, name to release.")
    templates: str = Field(description="Digest of the templates used.")
    sources: dict[str, list[str]] = Field(
        default_factory=dict, description="Layer to the settings it decided."
    )


class RunSpec(SpecModel):
    """A run file."""

    moectl: Literal[1] = Field(1, description="Format of this file.")
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")] | None = Field(
        None, description="Run name: letters, digits, dot, dash, underscore."
    )
    title: str = Field("", description="One line for people.")
    preset: str | None = Field(None, description="Preset this run starts from.")
    form: Literal["benchmark", "pretrain"] = Field(
        "benchmark", description="Synthetic data without checkpoints, or real training."
    )
    gpus: Annotated[int, Field(ge=1)] | None = Field(None, description="GPUs in all.")
    hardware: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")] | None = Field(
        None, description="GPU platform, see `moectl hardware list`."
    )
    launcher: Literal["slurm", "local", "kubernetes"] = Field(
        "slurm", description="What starts the processes."
    )
    model: sections.ModelSpec = Field(default_factory=sections.ModelSpec, description="The model.")
    parallelism: sections.ParallelismSpec = Field(
        default_factory=sections.ParallelismSpec, description="The mesh."
    )
    batch: sections.BatchSpec = Field(
        default_factory=sections.BatchSpec, description="Batch and sequence."
    )
    training: sections.TrainingSpec = Field(
        default_factory=sections.TrainingSpec, description="The loop."
    )
    precision: sections.PrecisionSpec = Field(
        default_factory=sections.PrecisionSpec, description="Data types and quantization."
    )
    moe: sections.MoeSpec = Field(
        default_factory=sections.MoeSpec, description="Routing and experts."
    )
    attention: sections.AttentionSpec = Field(
        default_factory=sections.AttentionSpec, description="Attention kernel."
    )
    remat: sections.RematSpec = Field(
        default_factory=sections.RematSpec, description="Activations."
    )
    optimizer: sections.OptimizerSpec = Field(
        default_factory=sections.OptimizerSpec, description="Optimizer and schedule."
    )
    data: sections.DataSpec = Field(default_factory=sections.DataSpec, description="Tokens.")
    checkpoints: sections.CheckpointSpec = Field(
        default_factory=sections.CheckpointSpec, description="Checkpoints."
    )
    evaluation: sections.EvaluationSpec = Field(
        default_factory=sections.EvaluationSpec, description="Evaluation."
    )
    profile: sections.ProfileSpec = Field(
        default_factory=sections.ProfileSpec, description="Tracing."
    )
    switches: SwitchesSpec = Field(
        default_factory=SwitchesSpec, description="Named performance switches."
    )
    maxtext: dict[str, Any] = Field(
        default_factory=dict, description="Further MaxText keys, as MaxText names them."
    )
    xla_flags: dict[str, bool | int | float | str] = Field(
        default_factory=dict, description="Further XLA flags, without the dashes."
    )
    environment: dict[str, str | int | float] = Field(
        default_factory=dict, description="Variables of the processes."
    )
    secrets: list[str] = Field(
        default_factory=list,
        description="Names of variables taken from the submitting shell; no value is written.",
    )
    container: ContainerSpec = Field(default_factory=ContainerSpec, description="Image and mounts.")
    cluster: ClusterSpec = Field(default_factory=ClusterSpec, description="The site.")
    output_directory: Annotated[str, MaxTextKey("base_output_directory")] = Field(
        "output",
        description="Where MaxText writes, on the nodes; relative to the bundle.",
    )
    compilation_cache: Annotated[str, MaxTextKey("jax_cache_dir")] = Field(
        "", description="Shared folder of compiled programs; empty is none."
    )
    debug: bool = Field(False, description="NCCL logs and HLO by rank.")
    accept: list[AcceptSpec] = Field(
        default_factory=list, description="Findings accepted, with reasons."
    )
    lock: LockSpec | None = Field(None, description="Present in a lock file only.")
