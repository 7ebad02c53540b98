"""Rules on the mesh, the batch and the process layout."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.facts.images import first_with, provides
from moectl.findings import Finding
from moectl.job import Job
from moectl.resolve.weights import DTYPE_BYTES, weight_bytes
from moectl.rules.places import at as _at

CODES = ("MESH101", "MESH102", "MESH103", "MESH105", "TE113", "TE114", "TE115", "TE117", "MEM102")
_SHARDING_ONLY = frozenset({"fsdp", "expert"})


def check(job: Job) -> Iterator[Finding]:
    """Yield the findings about mesh, batch and image."""
    if job.effective.get("te_moe_block"):
        yield from _block_mesh(job)
        yield from _block_batch(job)
        yield from _block_image(job)
    yield from _slices(job)
    yield from _experts(job)
    yield from _batch_axes(job)
    yield from _domain(job)
    yield from _state(job)


def _block_mesh(job: Job) -> Iterator[Finding]:
    for axis, degree in job.mesh.degrees.items():
        if axis not in _SHARDING_ONLY and degree.total > 1:
            yield Finding(
                "TE113",
                "error",
                f"parallelism.{'ici' if degree.ici > 1 else 'dcn'}.{axis}",
                f"the MoEBlock shards tokens over FSDP and expert axes only, but {axis} is "
                f"{degree.total} (MaxText 0.2.5 layers/moe.py:4514).",
                f"--set parallelism.ici.{axis}=1 --set parallelism.dcn.{axis}=1",
                *_at(job, f"parallelism.ici.{axis}"),
            )
    expert = job.mesh.degrees["expert"]
    if expert.dcn > 1:
        yield Finding(
            "TE114",
            "error",
            "parallelism.dcn.expert",
            f"the MoEBlock's expert groups are consecutive ranks, so they cannot cross slices, "
            f"but dcn expert is {expert.dcn} (MaxText 0.2.5 layers/moe.py:4514).",
            "--set parallelism.dcn.expert=1",
            *_at(job, "parallelism.dcn.expert"),
        )


def _block_batch(job: Job) -> Iterator[Finding]:
    shards = job.mesh.total("fsdp") * job.mesh.total("expert")
    micro = job.batch.micro_batch
    if job.batch.global_batch % job.batch.accumulation or micro % shards or micro <= 0:
        yield Finding(
            "TE115",
            "error",
            "batch.per_device",
            f"the MoEBlock wants a micro-batch divisible by FSDP x EP = "
            f"{job.mesh.total('fsdp')} x {job.mesh.total('expert')} = {shards}, but it is "
            f"{job.batch.global_batch} / {job.batch.accumulation} = {micro} "
            "(MaxText 0.2.5 utils/max_utils.py:1317).",
            "batch.per_device must be a whole number",
            *_at(job, "batch.per_device"),
        )


def _block_image(job: Job) -> Iterator[Finding]:
    image = job.container.image
    if provides(image.reference, "te_moe_block") is False:
        yield Finding(
            "TE117",
            "error",
            "container.image",
            f"the image of {image.date} has no MoEBlock; the first one is of "
            f"{first_with('te_moe_block')}.",
            f"--image ghcr.io/nvidia/jax:maxtext-{first_with('te_moe_block')}",
            *_at(job, "container.image"),
        )


def _slices(job: Job) -> Iterator[Finding]:
    said = job.effective.get("num_slices")
    if isinstance(said, int) and said not in {-1, job.mesh.slices}:
        yield Finding(
            "MESH105",
            "error",
            "parallelism.num_slices",
            f"num_slices is {said}, but the mesh has {job.mesh.slices} slices of "
            f"{job.mesh.gpus_per_slice} GPUs (MaxText 0.2.5 utils/max_utils.py:480).",
            "leave parallelism.num_slices out",
            *_at(job, "parallelism.num_slices"),
        )


def _experts(job: Job) -> Iterator[Finding]:
    experts, degree = job.effective.get("num_experts"), job.mesh.total("expert")
    if isinstance(experts, int) and experts > 1 and experts % degree:
        legal = [d for d in range(1, experts + 1) if experts % d == 0 and d <= job.gpus]
        yield Finding(
            "MESH101",
            "error",
            "parallelism.ici.expert",
            f"{experts} experts are not divisible by EP {degree} (ici "
            f"{job.mesh.degrees['expert'].ici} x dcn {job.mesh.degrees['expert'].dcn}); the "
            "config check passes it, and the run dies when weights are cut (MaxText 0.2.5 "
            "layers/moe.py:4480).",
            f"EP may be {', '.join(map(str, legal))}",
            *_at(job, "parallelism.ici.expert"),
        )


def _batch_axes(job: Job) -> Iterator[Finding]:
    """The batch axes (data, FSDP, expert) must divide the loaded batch."""
    axes = ("data", "fsdp", "fsdp_transpose", "expert")
    shards = 1
    for axis in axes:
        shards *= job.mesh.total(axis)
    if job.batch.micro_batch % shards and not job.effective.get("te_moe_block"):
        yield Finding(
            "MESH102",
            "error",
            "batch.per_device",
            f"a micro-batch of {job.batch.micro_batch} sequences cannot be cut over data x FSDP "
            f"x expert = {shards} shards; the run dies at its first step.",
            f"--global-batch {max(shards, job.batch.micro_batch // shards * shards)}",
            *_at(job, "batch.per_device"),
        )


def _domain(job: Job) -> Iterator[Finding]:
    expert = job.mesh.degrees["expert"].ici
    domain = job.hardware.usable_domain_gpus
    if expert > domain:
        yield Finding(
            "MESH103",
            "warning",
            "parallelism.ici.expert",
            f"an expert group of {expert} GPUs does not fit one NVLink domain of {domain} usable "
            f"GPUs on {job.hardware.name}; its dispatch crosses the network.",
            f"--set parallelism.ici.expert={domain}",
            *_at(job, "parallelism.ici.expert"),
        )


def _state(job: Job) -> Iterator[Finding]:
    """Weights and Adam's two moments alone must fit the GPU; everything else comes on top.

    The second moment is kept in the weights' type and the first in mu_dtype, which follows
    them when empty (MaxText 0.2.5 optimizers/optimizers.py).
    """
    visible = job.hardware.figures.get("hbm_visible_bytes")
    weights = weight_bytes(job.effective, job.mesh.degrees, job.container.image.maxtext)
    if weights is None or visible is None:
        return
    kept = str(job.effective.get("weight_dtype") or "float32")
    first = str(job.effective.get("mu_dtype") or kept)
    state = weights * (2 + DTYPE_BYTES[first] / DTYPE_BYTES[kept])
    if state > visible:
        yield Finding(
            "MEM102",
            "warning",
            "gpus",
            f"weights and optimizer moments alone are {state / 2**30:.0f} GiB a GPU, and "
            f"{job.hardware.name} has {visible / 2**30:.0f} GiB; this runs out of memory.",
            "more --gpus, or hardware with more memory",
            *_at(job, "gpus"),
        )
