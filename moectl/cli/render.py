"""moectl render."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from moectl.actions.render import Rendered, default_folder, render, write
from moectl.cli.job_options import wishes
from moectl.cli.text import say, say_findings, say_json
from moectl.errors import ValueUsageError
from moectl.job import Job
from moectl.settings.bundle_names import CONFIG, LAUNCH, LOCK, MANIFEST, STARTED

# What is typed next, and the file of the bundle behind it.
_NEXT = {"slurm": "sbatch", "local": "moectl launch", "kubernetes": "kubectl apply -f"}
_TYPED = {"slurm": LAUNCH, "kubernetes": MANIFEST}
_PARTS = {"config": CONFIG, "launch": LAUNCH, "lock": LOCK}


def run(
    target: str,
    output: str | None,
    force: bool,
    stdout: str | None,
    format: str,  # noqa: A002 - the option's name
    **values: Any,
) -> int:
    """Render, then write a bundle or print one part of it."""
    rendered = render(target, wishes(values))
    if stdout is not None:
        say_findings(rendered.job.findings)
        sys.stdout.write(_part(rendered, stdout))
        return 0
    if output == "":
        raise ValueUsageError("--output", output, "the path of a folder")
    folder = Path(output) if output is not None else default_folder(rendered.job)
    write(rendered, folder, force=force)
    if format == "json":
        say_json({**rendered.summary(), "output": str(folder)})
    else:
        say_findings(rendered.job.findings)
        _say_summary(rendered, folder)
    return 0


def _part(rendered: Rendered, part: str) -> str:
    if part in _PARTS:
        name = _PARTS[part]
        return rendered.files[STARTED[rendered.job.launcher] if name == LAUNCH else name]
    from moectl.render.templates import quote  # noqa: PLC0415
    from moectl.render.variables import environment  # noqa: PLC0415

    pairs = environment(rendered.job).items()
    return "".join(f"{name}={quote(value)}\n" for name, value in pairs)


def _say_summary(rendered: Rendered, folder: Path) -> None:
    job = rendered.job
    say(
        f"{job.name}: {job.gpus} GPUs, {job.nodes} node{'s' if job.nodes > 1 else ''} of "
        f"{job.hardware.name}, one process a GPU"
    )
    say(f"  mesh    {_mesh(job)}")
    say(
        f"  batch   {job.batch.global_batch} sequences of {job.batch.sequence_length} tokens "
        f"({job.batch.per_device:g} a GPU"
        + (f" x {job.batch.accumulation} micro-steps)" if job.batch.accumulation > 1 else ")")
    )
    image = job.container.image
    known = "" if image.probed else ", its own are unknown until probed"
    say(f"  image   {image.reference}{'@' + image.digest if image.digest else ''}")
    say(f"          checked against MaxText {image.maxtext} and jaxlib {image.jaxlib}{known}")
    for note in job.notes:
        say(f"  note    {note}")
    say(f"  wrote   {folder}: {', '.join(rendered.files)}")
    say(f"  next    {_NEXT[job.launcher]} {folder / _TYPED.get(job.launcher, '')}")


def _mesh(job: Job) -> str:
    parts = []
    for axis, degree in job.mesh.degrees.items():
        across = f" (ici {degree.ici} x dcn {degree.dcn})" if degree.dcn > 1 else ""
        if degree.total > 1:
            parts.append(f"{axis} {degree.total}{across}")
    return " x ".join(parts) or "1 GPU"
