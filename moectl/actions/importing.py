"""Takes scripts, configs and manifests over into a run file, and proves it by rendering."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moectl.actions.diff import Change
from moectl.actions.plan import Wishes, plan
from moectl.actions.validate import opener
from moectl.errors import MoectlError, UsageError
from moectl.facts import maxtext
from moectl.given import Given
from moectl.imports.read import Old, read
from moectl.imports.settings import Understood, Unplaced, missing, placed, understood
from moectl.job import Job
from moectl.render.lock import nested
from moectl.render.variables import environment
from moectl.resolve.workload import basis
from moectl.settings.text_file import read_text
from moectl.spec.table import table
from moectl.workload import Workload

_ROUNDS = 4
_NAME = "run_name"  # which is the run's name, however it was written
# What a run of moectl has of its own, unless the files say it: names and places, and the hardware,
# as MaxText's own default is a TPU, and moectl starts processes on GPUs.
_OWN = frozenset({"run_name", "base_output_directory", "jax_cache_dir", "hardware"})


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the files.

    Attributes:
        text: the run file.
        understood: what was understood, and what has no place.
        added: keys that nobody said and that the run file says, because moectl's defaults are
            others than MaxText's.
        differences: what the rendered job has otherwise than the files.
        fault: why the run file makes no job; empty when it makes one.
        notes: remarks on the files.
    """

    text: str
    understood: Understood
    added: tuple[str, ...]
    differences: tuple[Change, ...]
    fault: str
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found = self.understood
        return {
            "run_file": self.text,
            "understood": {
                "keys": found.keys,
                "xla_flags": found.flags,
                "variables": found.variables,
                "secrets": list(found.secrets),
            },
            "unplaced": [_row(one) for one in found.unplaced],
            "added": list(self.added),
            "differences": [change.as_dict() for change in self.differences],
            "fault": self.fault,
            "notes": list(self.notes),
        }


def import_files(paths: Sequence[str], given: Given) -> Imported:
    """Take files over into a run file.

    Args:
        paths: the files of one run.
        given: what they do not say: GPUs, platform, image.

    Raises:
        UsageError: they start no run, or several.
        MoectlError: one of them cannot be read.
    """
    files = [Old(path, read_text(Path(path)), opener(path)) for path in paths]
    w, notes = read(files, basis(given))
    found = understood(w)
    if "gpus" not in found.settings:
        raise UsageError(f"{' and '.join(paths)} do not say how many GPUs they use; add --gpus N")
    added: list[str] = []
    job: Job | None = None
    fault = ""
    said = {*w.config, *w.arguments}
    own = _OWN - said | {_NAME}
    for _ in range(_ROUNDS):
        try:
            job, fault = _job(found), ""
        except MoectlError as error:
            job, fault = None, str(error).splitlines()[0]
            break
        catalogue = maxtext.load(job.container.image.maxtext)
        keys = missing(w, job.effective, catalogue)
        fresh = [key for key in keys if key not in added and key not in own]
        if not fresh:
            break
        for key in fresh:
            found.settings |= placed(key, w.effective[key], catalogue)
        added += fresh
    refused = sorted({one.code for one in job.findings if one.stops}) if job is not None else []
    if refused:
        fault = f"it would be refused: {', '.join(refused)}"
    if given.gpus is not None and w.devices != given.gpus:
        notes = (
            *notes,
            f"the files say {w.devices} GPUs, which counts; --gpus {given.gpus} does not",
        )
    return Imported(
        text=_text(found, paths),
        understood=found,
        added=tuple(key for key in added if key not in said),
        differences=tuple(_differences(w, job, own)) if job is not None else (),
        fault=fault,
        notes=notes,
    )


def _job(found: Understood) -> Job:
    """Return the job of the run file as it stands."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.yaml"
        path.write_text("\n".join(["moectl: 1", *nested(_sorted(found)), ""]), "utf-8")
        try:
            return plan(str(path), Wishes())
        except MoectlError as error:
            # The file is nobody's: its name would tell nothing.
            raise UsageError(str(error).replace(str(path), "the run file")) from None


def _sorted(found: Understood) -> dict[str, Any]:
    fields = table().fields
    order = {path: number for number, path in enumerate(fields)}

    def place(path: str) -> tuple[int, str]:
        field = table().field(path)
        return order.get(field.path if field else path, len(order)), path

    return {path: found.settings[path] for path in sorted(found.settings, key=place)}


def _text(found: Understood, paths: Sequence[str]) -> str:
    head = [
        f"# Taken over by `moectl import` from {', '.join(map(repr, paths))}.",
        *(f"# Not taken over: {one.what}: {one.why}" for one in found.unplaced),
        "moectl: 1",
    ]
    plain = [line.encode("unicode_escape").decode() for line in head]
    return "\n".join([*plain, *nested(_sorted(found)), ""])


def _differences(w: Workload, job: Job, own: Set[str]) -> list[Change]:
    """Return what the rendered job has otherwise than the files say, by meaning."""
    catalogue = maxtext.load(job.container.image.maxtext)
    found = [
        Change("MaxText", key, w.effective[key], job.effective[key])
        for key in missing(w, job.effective, catalogue)
        if key not in own
    ]
    said = environment(job)
    for name, text in w.environment.items():
        if name in job.environment and text.known and said.get(name) != text.text:
            found.append(Change("environment", name, text.text, said.get(name)))
    return found


def _row(one: Unplaced) -> dict[str, Any]:
    place = {"file": one.origin.file, "line": one.origin.line}
    return {"what": one.what, "why": one.why, **place}
