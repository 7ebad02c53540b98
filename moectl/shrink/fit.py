"""The settings that make a run small, each at the path of the run file that owns it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moectl.facts import maxtext
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.settings.options import owning_path
from moectl.settings.setting import Layer, Setting
from moectl.shrink.rules import FACTS, CannotShrinkError, Small, shrink
from moectl.values import Origin

ORIGIN = Origin("made small")
# What a site or a large run says that a small one on this machine has no use for, and what it
# says instead; only where it was said.
_UNSAID: Mapping[str, Any] = {
    "parallelism.slice_gpus": None,
    "parallelism.weight_shards": None,
    "parallelism.num_slices": None,
    "cluster.spare_nodes": 0,
    "secrets": [],
    "container.mounts": [],
    "cluster.mounts": [],
}
_LONGEST_NAME = 63


def small_of(job: Job) -> Small:
    """Return a job made small.

    Raises:
        CannotShrinkError: the rules do not make it so.
    """
    mesh = {axis: degree.total for axis, degree in job.mesh.degrees.items()}
    catalogue = maxtext.load(job.container.image.maxtext)
    model = catalogue.model(str(job.effective.get("model_name"))) or {}
    said = {*model, *job.config, *job.arguments}
    return shrink(job.effective, mesh, job.hardware.gpus_per_node, said)


def settings(job: Job, small: Small, steps: int, period: int, cache: str) -> list[Setting]:
    """Return what a rehearsal of a job says on top of it, stronger than all others.

    Args:
        job: the job as it was asked for.
        small: what it becomes.
        steps: steps to train.
        period: steps between checkpoints.
        cache: folder of compiled programs.
    """
    said: dict[str, Any] = {path: value for path, value in _UNSAID.items() if path in job.settings}
    said |= {_path(key, job): value for key, value in small.sizes.items()}
    said |= _mesh(job, small)
    for row in read(FACTS)["training"]:
        said |= {
            path: value
            for path, value in row["set"].items()
            if value is not None or path in job.settings
        }
    said |= {
        "name": f"rehearse-{job.name}"[:_LONGEST_NAME],
        "training.steps": steps,
        "checkpoints.period": period,
        "output_directory": "output",
        "compilation_cache": cache,
        "launcher": "local",
    }
    return as_settings(said)


def _mesh(job: Job, small: Small) -> dict[str, Any]:
    """Return the degrees: all inside one slice, since a machine is one."""
    found: dict[str, Any] = {"gpus": small.devices}
    for axis, degree in small.degrees.items():
        here = job.mesh.degrees[axis]
        for group, size, was in (("ici", degree, here.ici), ("dcn", 1, here.dcn)):
            path = f"parallelism.{group}.{axis}"
            if size > 1 or was > 1 or path in job.settings:
                found[path] = size
    return found


def as_settings(said: Mapping[str, Any], origin: Origin = ORIGIN) -> list[Setting]:
    """Return paths and values as settings that win over all others."""
    return [Setting(path, value, Layer.OPTION, origin) for path, value in said.items()]


def _path(key: str, job: Job) -> str:
    """Return the path of a MaxText key: where the job says it, else where it belongs."""
    catalogue = maxtext.load(job.container.image.maxtext)
    owner = owning_path(key, catalogue)
    if not owner.startswith("maxtext."):
        return owner
    model = catalogue.model(str(job.effective.get("model_name"))) or {}
    in_model = key in model or f"model.overrides.{key}" in job.settings
    return f"model.overrides.{key}" if in_model else owner


def require_small(job: Job) -> None:
    """Refuse a rehearsal whose weights are still large.

    Raises:
        CannotShrinkError: with what they take.
    """
    from moectl.estimate.memory import arguments  # noqa: PLC0415

    mesh = {axis: degree.total for axis, degree in job.mesh.degrees.items()}
    share = arguments(job.effective, mesh, job.container.image.maxtext)
    largest = read(FACTS)["largest_mb"]
    if share is not None and share * job.gpus > largest * 1e6:
        raise CannotShrinkError(
            f"{job.name} cannot be made small: with everything cut that moectl knows of decoder "
            f"{job.effective.get('decoder_block')}, its weights and optimizer take "
            f"{share * job.gpus / 1e6:,.0f} MB, and {largest} MB is the limit"
        )
