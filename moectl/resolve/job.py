"""Puts the job together from the effective settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from moectl.errors import UsageError
from moectl.facts import hardware as platforms
from moectl.facts import maxtext, xla
from moectl.findings import Finding
from moectl.job import Hardware, Job
from moectl.resolve import runtime, scale
from moectl.resolve.maxtext import model_values, standing, told
from moectl.resolve.merge import Effective, merge
from moectl.resolve.switches import expand
from moectl.settings.files import Preset
from moectl.settings.setting import Setting


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
    values = model_values(effective, catalogue)
    mesh = scale.mesh(effective, hardware, catalogue, values)
    batch = scale.batch(effective, mesh)
    name = effective.get("name") or (preset.name if preset else "run")
    said = told(effective, catalogue, mesh, batch, name)
    gpus = effective.get("gpus")
    return Job(
        name=name,
        title=effective.get("title") or (preset.title if preset else ""),
        form=effective.get("form"),
        preset=preset.name if preset else (effective.get("preset") or ""),
        launcher=effective.get("launcher"),
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
        xla_flags=runtime.xla_flags(effective, image, flags),
        environment=runtime.environment(effective),
        secrets=runtime.secrets(effective),
        debug=effective.get("debug"),
        cache_directory=effective.get("compilation_cache") or "",
        output_directory=effective.get("output_directory"),
        settings=effective.values,
        effective=said.effective,
        accept=context.accept,
        notes=tuple(_notes(effective, preset, hardware, mesh.slices, batch.global_batch)),
    )


def _notes(
    effective: Effective, preset: Preset | None, hardware: Hardware, slices: int, batch: int
) -> list[str]:
    notes = []
    size = effective.get("gpus") // slices
    degrees = _pinned(effective)
    notes.append(
        f"{slices} slice{'s' if slices > 1 else ''} of {size} GPUs "
        f"({size // hardware.gpus_per_node} nodes){degrees}"
    )
    if preset is not None and preset.run:
        reference = preset.run.get("batch", {}).get("per_device", 0) * preset.gpus
        if reference and reference != batch:
            notes.append(
                f"global batch {batch} sequences, where the preset's {preset.gpus} GPUs have "
                f"{reference:g}; --global-batch {reference:g} keeps it"
            )
    return notes


def _pinned(effective: Effective) -> str:
    """Return which degrees a person pinned, as a clause, or nothing."""
    pinned = [
        path.removeprefix("parallelism.")
        for path in effective.values
        if path.startswith(("parallelism.ici.", "parallelism.dcn."))
        and effective.said_by_person(path)
    ]
    return f"; given: {', '.join(pinned)}" if pinned else ""


def with_findings(job: Job, findings: Sequence[Finding]) -> Job:
    """Return the job with its findings."""
    return replace(job, findings=tuple(findings))
