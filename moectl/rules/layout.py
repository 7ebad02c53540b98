"""Rules on the image, the NVLink domain and the memory of a job."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.facts.images import first_with, provides
from moectl.findings import Finding
from moectl.job import Job
from moectl.resolve.weights import DTYPE_BYTES, weight_bytes
from moectl.rules.places import at as _at
from moectl.rules.requirements import RULES

CODES = (*(rule.code for rule in RULES.all), "MESH103", "TE117", "MEM102")


def check(job: Job) -> Iterator[Finding]:
    """Yield the findings about image, domain and memory."""
    if job.effective.get("te_moe_block"):
        yield from _block_image(job)
    yield from _domain(job)
    yield from _state(job)


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
