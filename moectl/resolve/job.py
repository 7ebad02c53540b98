"""Puts the job together from the effective settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from moectl import placement
from moectl.errors import UsageError
from moectl.facts import hardware as platforms
from moectl.facts import maxtext, xla
from moectl.findings import Finding
from moectl.job import Job
from moectl.resolve import runtime, scale
from moectl.resolve.maxtext import model_values, standing, told
from moectl.resolve.merge import Effective, merge
from moectl.resolve.switches import expand
from moectl.resolve.weights import RULES
from moectl.settings.files import Preset
from moectl.settings.flatten import place, raise_all
from moectl.settings.setting import Setting
from moectl.values import Hardware


@dataclass(frozen=True, slots=True)
class Context:
    """What the settings were read with.

    Attributes:
        preset: the preset they build on; None without one, and for a lock file.
        hardware: the platform.
        facts: package to release of the catalogues a lock file was rendered with.
        accept: codes accepted, each with its reason.
    """

    preset: Preset | None
    hardware: Hardware
    facts: Mapping[str, str] = field(default_factory=dict)
    accept: tuple[tuple[str, str], ...] = ()


def platform_of(said: Sequence[Setting], preset: Preset | None) -> Hardware:
    """Return the platform the settings or the preset name.

    Raises:
        UsageError: nobody named one.
    """
    effective = merge(said)
    name = effective.get("hardware") or (preset.hardware if preset else None)
    if name is None:
        raise UsageError(
            "the run says no hardware; add --hardware NAME, one of " + ", ".join(platforms.names())
        )
    where = effective.origin("hardware").layer if effective.get("hardware") else ""
    return platforms.platform(name, where=where)


@contextmanager
def collected(faults: list[UsageError]) -> Iterator[None]:
    """Keep a usage error for later, so that all faults are said in one pass."""
    try:
        yield
    except UsageError as error:
        faults.append(error)


def resolve(settings: Sequence[Setting], context: Context) -> Job:
    """Return the job the settings describe.

    Args:
        settings: everything said, weakest first among equals.
        context: the preset and the platform.

    Raises:
        UsageError: values that cannot be meant, with what is legal.
    """
    preset, hardware = context.preset, context.hardware
    plain = merge(settings)
    image = runtime.image(plain, context.facts)
    flags = xla.load(image.jaxlib)
    expanded = expand(settings, flags)
    effective = merge(expanded)
    if effective.get("gpus") is None:
        raise UsageError("the run says no number of GPUs; add --gpus N")
    catalogue = maxtext.load(image.maxtext)
    effective = merge([*standing(effective, catalogue), *expanded])
    faults: list[UsageError] = []
    with collected(faults):
        values = model_values(effective, catalogue)
    with collected(faults):
        final_flags = runtime.xla_flags(effective, image, flags)
    with collected(faults):
        environment = runtime.environment(effective)
    with collected(faults):
        scale.check_count(effective.get("gpus"), effective, hardware)
    raise_all(faults)
    mesh, rules = scale.fitted(effective, hardware, catalogue, values)
    batch = scale.batch(effective, mesh)
    name = effective.get("name") or (preset.name if preset else "run")
    said = told(effective, catalogue, mesh, batch, rules, name)
    gpus = effective.get("gpus")
    job = Job(
        name=name,
        title=effective.get("title") or (preset.title if preset else ""),
        form=effective.get("form"),
        preset=preset.name if preset else (effective.get("preset") or ""),
        launcher=runtime.launcher(effective),
        gpus=gpus,
        nodes=gpus // hardware.gpus_per_node,
        processes_per_node=hardware.gpus_per_node,
        hardware=hardware,
        mesh=mesh,
        batch=batch,
        container=runtime.container(effective, image),
        cluster=runtime.cluster(effective, hardware),
        config=said.config,
        arguments=said.arguments,
        xla_flags=final_flags,
        environment=environment,
        secrets=runtime.secrets(effective),
        debug=effective.get("debug"),
        cache_directory=effective.get("compilation_cache") or "",
        output_directory=effective.get("output_directory"),
        settings=effective.values,
        effective=said.effective,
        accept=context.accept,
    )
    said_rules = effective.section("maxtext")
    return replace(job, notes=tuple(_notes(effective, preset, job, said_rules)))


def _notes(
    effective: Effective, preset: Preset | None, job: Job, values: Mapping[str, Any]
) -> list[str]:
    """Say which degrees were chosen, and how the batch differs from the preset's."""
    size = job.mesh.gpus_per_slice
    slices = job.mesh.slices
    notes = [
        f"{slices} slice{'s' if slices > 1 else ''} of {size} GPUs "
        f"({size // job.processes_per_node} node{'s' if size > job.processes_per_node else ''})"
    ]
    asked = placement.ask(job) if job.launcher == "slurm" else placement.Ask(job.nodes, 0, None)
    if asked.spare:
        notes.append(f"{asked.nodes} nodes are asked for, {asked.spare} of them spare")
    if asked.note:
        notes.append(asked.note)
    if job.cluster.preflight and job.launcher != "slurm":
        notes.append(f"there is no preflight with the launcher {job.launcher}")
    elif job.cluster.preflight_retry and not asked.spare:
        notes.append("a preflight is not tried again without spare nodes (cluster.spare_nodes)")
    expert = job.mesh.degrees["expert"].ici
    wished = effective.get("parallelism.ici.expert")
    if wished is not None and wished not in {-1, expert}:
        notes.append(f"EP is {expert} instead of {wished}, so that {job.gpus} GPUs divide")
    if RULES in job.arguments and RULES not in values:
        axes = ", ".join(axis for axis, _ in job.arguments[RULES].value)
        notes.append(
            f"the logical axes {axes} are cut over fewer GPUs than there are, because MaxText's "
            "own rules would not divide these weights"
        )
    lost = effective.get("batch.global")
    if lost is not None and scale.batch_path(effective) == "batch.per_device":
        stronger = place(effective.origin("batch.per_device"))
        notes.append(
            f"batch.global {lost} ({place(effective.origin('batch.global'))}) does not count: "
            f"batch.per_device of {stronger} is stronger"
        )
    if preset is not None and preset.run:
        reference = preset.run.get("batch", {}).get("per_device", 0) * preset.gpus
        total = job.batch.global_batch
        if reference and reference != total:
            keeps = reference % (job.gpus * job.batch.accumulation) == 0
            notes.append(
                f"global batch {total} sequences, where the preset's {preset.gpus} GPUs have "
                f"{reference:g}" + (f"; --global-batch {reference:g} keeps it" if keeps else "")
            )
    return notes


def with_findings(job: Job, findings: Sequence[Finding]) -> Job:
    """Return the job with its findings."""
    return replace(job, findings=tuple(findings))
