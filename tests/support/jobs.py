"""Jobs made by hand, for tests of what reads a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moectl.job import Batch, Cluster, Container, Degree, Job, Mesh
from moectl.values import Hardware, Image, Origin, Value

PRESET = Origin("preset deepseek3-671b")
BAKED = Origin("baked into the image ghcr.io/nvidia/jax:maxtext-2026-09-09")

GB200 = Hardware(
    name="gb200-nvl72",
    title="GB200 NVL72, 4 GPUs a node, 72 a domain",
    architecture="blackwell",
    compute_capability="10.0",
    gpus_per_node=4,
    domain_gpus=72,
    usable_domain_gpus=64,
    cpu_cores_per_node=144,
    cpu_architecture="aarch64",
    gres_type="gb200",
)
H100 = Hardware(
    name="h100-hgx",
    title="HGX H100 SXM, 8 GPUs a node",
    architecture="hopper",
    compute_capability="9.0",
    gpus_per_node=8,
    domain_gpus=8,
    usable_domain_gpus=8,
    cpu_cores_per_node=112,
    cpu_architecture="x86_64",
    gres_type="h100",
)
IMAGE = Image(
    reference="ghcr.io/nvidia/jax:maxtext-2026-09-09",
    digest="",
    date="2026-09-09",
    maxtext="0.2.5",
    jaxlib="0.12.0.1",
    probed=False,
    baked_flags={"xla_gpu_enable_latency_hiding_scheduler": True},
)


def said(values: Mapping[str, Any], origin: Origin = PRESET) -> dict[str, Value]:
    """Return plain values as values of one origin."""
    return {name: Value(value, origin) for name, value in values.items()}


def job(
    hardware: Hardware, nodes: int, *, slice_gpus: int, name: str = "run", **changes: Any
) -> Job:
    """Return a job of whole nodes whose slices have `slice_gpus` GPUs; `changes` are fields."""
    gpus = nodes * hardware.gpus_per_node
    slices = gpus // slice_gpus
    plain = Job(
        name=name,
        title="a job made by hand",
        form="benchmark",
        preset="",
        launcher="slurm",
        gpus=gpus,
        nodes=nodes,
        processes_per_node=hardware.gpus_per_node,
        hardware=hardware,
        mesh=Mesh({"fsdp": Degree(slice_gpus, slices)}, slices, slice_gpus),
        batch=Batch(6, 1, 6 * gpus, 4096),
        container=Container(IMAGE),
        cluster=Cluster(),
        config=said({"model_name": "deepseek3-671b"}),
        arguments={},
        xla_flags=said({"xla_gpu_enable_latency_hiding_scheduler": True}, BAKED),
        environment={},
        secrets=(),
        debug=False,
        cache_directory="",
        output_directory="output",
        settings={},
        effective={},
    )
    return replace(plain, **changes)


def deepseek() -> Job:
    """Return DeepSeek-V3 on 128 GPUs of GB200 NVL72: 32 nodes, two slices of 64 GPUs."""
    return job(
        GB200,
        32,
        slice_gpus=64,
        name="deepseek3-671b",
        title="DeepSeek-V3 671B, dropless MoE with Transformer Engine",
        preset="deepseek3-671b",
        mesh=Mesh({"fsdp": Degree(8, 2), "expert": Degree(8, 1)}, 2, 64),
        cluster=Cluster(cpus_per_task=36, partition="batch"),
        xla_flags={
            **said({"xla_gpu_enable_latency_hiding_scheduler": True}, BAKED),
            **said(
                {
                    "xla_gpu_all_reduce_combine_threshold_bytes": 33554432,
                    "xla_gpu_all_gather_combine_threshold_bytes": 6442450944,
                    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUDNN,DYNAMIC_SLICE_FUSION",
                    "xla_gpu_experimental_max_unroll_factor": 8,
                    "xla_gpu_memory_limit_slop_factor": 99,
                }
            ),
        },
        environment={
            **said({"JAX_PLATFORMS": "cuda,cpu", "NCCL_DEBUG": "WARN"}, Origin("moectl default")),
            **said(
                {
                    "XLA_PYTHON_CLIENT_MEM_FRACTION": 0.88,
                    "CUDA_DEVICE_MAX_CONNECTIONS": 16,
                    "XLA_PJRT_GPU_HOST_MEMORY_PREALLOCATE": False,
                    "XLA_PJRT_GPU_HOST_MEMORY_LIMIT_GB": 180,
                }
            ),
        },
    )


def hgx() -> Job:
    """Return a job on four nodes of 8 GPUs; every node is a slice."""
    return job(
        H100,
        4,
        slice_gpus=8,
        name="mixtral-8x7b",
        cluster=Cluster(gpu_request="gres", gres="gpu:h100", memory="", cpus_per_task=14),
        arguments=said({"override_model_config": True, "base_num_decoder_layers": 8}),
        secrets=("HF_TOKEN",),
    )


def one_node() -> Job:
    """Return a job on one node, without a container."""
    return job(H100, 1, slice_gpus=8, cluster=Cluster(runtime="none", gpu_request="none"))
