"""Makes the workload of a job, so that one set of rules judges a render and a foreign file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from moectl.facts import maxtext
from moectl.facts.xla import load as flags_of
from moectl.job import Job
from moectl.resolve.derived import derived
from moectl.resolve.effective import effective
from moectl.resolve.maxtext import OUTPUT
from moectl.settings.bundle_names import MOUNTED
from moectl.values import Origin, Value
from moectl.workload import Layout, Text, Workload

DEFAULT = "moectl default"


def workload_of(job: Job) -> Workload:
    """Return what a job starts, as rules read it."""
    image = job.container.image
    catalogue = maxtext.load(image.maxtext)
    config = _as_started(job)
    values = effective(config, job.arguments, catalogue)
    here = Origin("run file")
    flags = flags_of(job.container.image.jaxlib)
    text = Text(())
    for name, said in job.xla_flags.items():
        lead = " " if text.pieces else ""
        text += Text.of(lead + flags.emit({name: said.value}), said.origin)
    return Workload(
        kind="run file",
        origin=here,
        maxtext=image.maxtext,
        jaxlib=image.jaxlib,
        image=image,
        image_said=_image_said(job),
        container=True,
        is_maxtext=True,
        config=config,
        arguments=job.arguments,
        effective=values,
        derived=derived(values, job.gpus, job.mesh.slices),
        environment={
            name: Text.of(_text(said.value), said.origin) for name, said in job.environment.items()
        },
        flags=text,
        layout=Layout(
            nodes=Value(job.nodes, here),
            processes=Value(job.nodes * job.processes_per_node, here),
            processes_per_node=Value(job.processes_per_node, here),
            gpus=Value(job.gpus, here),
            gpus_per_node=Value(job.processes_per_node, here),
            gpus_per_process=Value(1, here),
        ),
        devices=job.gpus,
        slices=job.mesh.slices,
        hardware=job.hardware,
    )


def _as_started(job: Job) -> Mapping[str, Value]:
    """Return config.yml as MaxText has it: launch.py makes the output folder an absolute one."""
    said = job.config.get(OUTPUT)
    if job.launcher != "local" or said is None or "://" in str(said.value):
        return job.config
    inside = str(said.value).removeprefix("./").lstrip("/")
    return {**job.config, OUTPUT: replace(said, value=f"{MOUNTED}/{inside}")}


def _image_said(job: Job) -> Origin | None:
    """Return who named the image; None when it is the one used when nobody does."""
    said = job.settings.get("container.image")
    return None if said is None or said.origin.layer == DEFAULT else said.origin


def _text(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
