"""The frozen job: what will happen, every default filled in, every value knowing its origin.

A job is made by `moectl.resolve` and only read by rules, renderers and launchers. Nothing in
it is unresolved: no -1, no profile reference, no preset reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moectl.findings import Finding
from moectl.values import Hardware, Image, Plain, Value

if TYPE_CHECKING:
    from moectl.job_kubernetes import Kubernetes


@dataclass(frozen=True, slots=True)
class Degree:
    """Degrees of one mesh axis: `ici` inside a slice, `dcn` across slices."""

    ici: int = 1
    dcn: int = 1

    @property
    def total(self) -> int:
        """Return the devices along this axis."""
        return self.ici * self.dcn


@dataclass(frozen=True, slots=True)
class Mesh:
    """The device mesh.

    Attributes:
        degrees: MaxText axis name ("fsdp", "expert", "pipeline", ...) to its degrees; every
            axis of the release is present.
        slices: slices in the job, the product of the DCN degrees.
        gpus_per_slice: devices that carry one ICI mesh, the product of the ICI degrees.
    """

    degrees: Mapping[str, Degree]
    slices: int
    gpus_per_slice: int

    def total(self, axis: str) -> int:
        """Return the devices along `axis`; 1 for an axis the release does not have."""
        return self.degrees.get(axis, Degree()).total


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount of the container: absolute paths, without comma, colon or newline."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Checkout:
    """A source tree mounted over the image's own package.

    Attributes:
        package: "maxtext" or "transformer-engine".
        path: absolute path on the nodes.
        commit: the commit it was at when rendered; empty if it could not be told.
    """

    package: str
    path: str
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The site: what its scheduler wants, from the cluster profile.

    Attributes:
        name: profile name, or "" without a profile.
        partition, account, qos, reservation: scheduler fields; empty means not given.
        time: time limit as Slurm writes it.
        gpu_request: "gpus-per-node", "gres" or "none".
        gres: gres name with optional type, e.g. "gpu" or "gpu:gb200".
        memory: value of --mem, or empty to leave the directive out.
        exclusive: whether whole nodes are asked for.
        cpus_per_task: CPUs a process, or None to leave the directive out.
        segment: whether --segment is asked for (NVL72 placement).
        mounts: mounts every job here gets.
        directives: further #SBATCH lines, each "--option=value".
        runtime: "pyxis", "apptainer" or "none" (the processes run in the node's own
            environment).
        python: the interpreter when `runtime` is "none".
        launcher: "slurm", "local", or empty when the profile leaves it open.
        image_folder: absolute folder of imported .sqsh files, or empty.
        slurm_release: release of the Slurm, e.g. "24.11.5"; empty if nobody said it.
        block_topology: whether the Slurm has topology/block; None if nobody said it.
        nodes_per_domain: nodes of one NVLink domain of the site, or None for the platform's.
        usable_nodes: nodes of a domain that a slice may take, or None for all of them.
        spare_nodes: nodes asked for beyond those of the job.
        architecture: architecture of the nodes, e.g. "aarch64"; empty if nothing tells it.
        runs_folder: absolute folder of bundles and records that every node sees, or empty.
        gpu_hours_limit: GPU-hours above which a launch asks, or None.
        compile_limit: seconds the watchdog waits for the first step, or None for its own.
        step_limit: seconds the watchdog waits for the next step, or None for its own.
        watchdog_factor: multiple of the median step it waits for at least, or None for its own.
        watchdog_grace: seconds a process that told why it ends is given, or None for its own.
        signal_seconds: seconds before the time limit at which MaxText is told to save, or None
            for the usual ones; 0 is never.
        requeue: how often a job goes back into the queue without a new step, or None for the
            usual number.
        preflight: whether every process is looked at before it trains.
        preflight_retry: whether it is done once more without the nodes it names.
        devices: "gpu", "cpu" or empty: what the local launcher trains on.
        processes: processes of the local launcher on CPU devices.
        of_kubernetes: what only Kubernetes reads; None where nothing of it is said.
    """

    name: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    time: str = "01:00:00"
    gpu_request: str = "gpus-per-node"
    gres: str = "gpu"
    memory: str = "0"
    exclusive: bool = True
    cpus_per_task: int | None = None
    segment: bool = True
    directives: tuple[str, ...] = ()
    runtime: str = "pyxis"
    python: str = "python3"
    launcher: str = ""
    image_folder: str = ""
    slurm_release: str = ""
    block_topology: bool | None = None
    nodes_per_domain: int | None = None
    usable_nodes: int | None = None
    spare_nodes: int = 0
    architecture: str = ""
    runs_folder: str = ""
    gpu_hours_limit: float | None = None
    compile_limit: int | None = None
    step_limit: int | None = None
    watchdog_factor: float | None = None
    watchdog_grace: int | None = None
    signal_seconds: int | None = None
    requeue: int | None = None
    preflight: bool = False
    preflight_retry: bool = False
    devices: str = ""
    processes: int = 1
    of_kubernetes: Kubernetes | None = None

    @property
    def kubernetes(self) -> Kubernetes:
        """What only Kubernetes reads, defaults where nothing is said."""
        if self.of_kubernetes is not None:
            return self.of_kubernetes
        from moectl.job_kubernetes import Kubernetes  # noqa: PLC0415 - start-up time

        return Kubernetes()


@dataclass(frozen=True, slots=True)
class Container:
    """The container as the job uses it."""

    image: Image
    mounts: tuple[Mount, ...] = ()
    checkouts: tuple[Checkout, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch arithmetic, in sequences.

    Attributes:
        per_device: sequences a device and micro-step (MaxText's per_device_batch_size).
        accumulation: micro-steps an optimizer step.
        global_batch: sequences an optimizer step over all devices.
        sequence_length: tokens a sequence.
    """

    per_device: float
    accumulation: int
    global_batch: int
    sequence_length: int

    @property
    def micro_batch(self) -> int:
        """Return sequences a micro-step over all devices."""
        return self.global_batch // self.accumulation


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a launch does.

    Attributes:
        name: run name.
        title: one line for people.
        form: "benchmark" or "pretrain".
        preset: the preset it came from, or "".
        launcher: "slurm", "local" or "kubernetes".
        gpus, nodes, processes_per_node: the process layout; one process a GPU.
        hardware, mesh, batch, container, cluster: see there.
        config: what config.yml holds, MaxText key to value.
        arguments: what goes on MaxText's command line, MaxText key to value; architecture
            overrides, which a YAML file cannot give.
        xla_flags: effective flags in the order of XLA_FLAGS, the image's baked ones first.
        environment: variables of the processes, without XLA_FLAGS.
        secrets: names of variables taken from the submitting shell.
        debug: whether NCCL logs and HLO by rank are written.
        cache_directory: shared compilation cache on the nodes, or "".
        output_directory: MaxText's base_output_directory on the nodes.
        settings: the run file's effective settings, path to value, for the lock.
        effective: every MaxText key the model files, the config and the arguments say,
            with base.yml below: what rules and estimates read.
        accept: codes accepted for this job, each with its reason.
        findings: what was found about it, errors included.
        notes: what the person should know (chosen degrees, how the batch changed).
    """

    name: str
    title: str
    form: str
    preset: str
    launcher: str
    gpus: int
    nodes: int
    processes_per_node: int
    hardware: Hardware
    mesh: Mesh
    batch: Batch
    container: Container
    cluster: Cluster
    config: Mapping[str, Value]
    arguments: Mapping[str, Value]
    xla_flags: Mapping[str, Value]
    environment: Mapping[str, Value]
    secrets: tuple[str, ...]
    debug: bool
    cache_directory: str
    output_directory: str
    settings: Mapping[str, Value]
    effective: Mapping[str, Plain]
    accept: tuple[tuple[str, str], ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def nodes_per_slice(self) -> int:
        """Return the nodes that carry one ICI mesh."""
        return self.mesh.gpus_per_slice // self.processes_per_node

    @property
    def on_cpu(self) -> bool:
        """Whether virtual devices of this machine's CPU stand in for the GPUs."""
        return self.launcher == "local" and self.cluster.devices == "cpu"

    @property
    def processes(self) -> int:
        """Return the processes: one a GPU, fewer with several CPU devices each."""
        return self.cluster.processes if self.on_cpu else self.gpus
