"""Writes moectl.lock.yaml: a run file that needs no preset and renders the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from moectl.job import Job
from moectl.settings.emit import flow as emit_flow
from moectl.settings.emit import quoted as emit_quoted
from moectl.spec.table import table
from moectl.values import Origin, Value
from moectl.version import __version__

_DROPPED = frozenset({"moectl", "batch.global", "accept"})
# Said anew from what the job made of them: degrees, flags and variables, switches expanded.
_REPLACED = (
    "parallelism.ici.",
    "parallelism.dcn.",
    "parallelism.slice_gpus",
    "parallelism.weight_shards",
    "xla_flags.",
    "switches.",
    "environment.",
    "cluster.environment.",
)


flow = partial(emit_flow, omegaconf=False)
quoted = partial(emit_quoted, omegaconf=False)


def lock_yaml(job: Job, templates: str) -> str:
    """Return the lock file.

    Args:
        job: the job.
        templates: digest of the templates its scripts were rendered with.
    """
    settings = locked_settings(job)
    lines = [
        "# Everything this job was rendered from, as a run file: `moectl render` of this file",
        "# gives the same bytes. Edit a copy; a preset that changes later does not change it.",
        "moectl: 1",
    ]
    lines += nested({path: value.value for path, value in settings.items()})
    sources: dict[str, list[str]] = {}
    for path, value in settings.items():
        sources.setdefault(str(value.origin), []).append(path)
    lines += [
        "lock:",
        f"  version: {quoted(__version__)}",
        "  facts: "
        + flow(
            {
                "maxtext": job.container.image.maxtext,
                "jaxlib": job.container.image.jaxlib,
            }
        ),
        f"  templates: {quoted(templates)}",
        "  sources:",
    ]
    for layer, paths in sources.items():
        lines.append(f"    {quoted(layer)}:")
        lines += [f"      - {quoted(path)}" for path in paths]
    return "\n".join(lines) + "\n"


def locked_settings(job: Job) -> dict[str, Value]:
    """Return what the lock holds: every setting said, and what was chosen for the job.

    The order is that of the spec, so that a lock rendered again is the same lock.
    """
    settings = {
        path: value
        for path, value in job.settings.items()
        if not path.startswith(_REPLACED) and path not in _DROPPED
    }
    for path, chosen in (
        ("name", job.name),
        ("title", job.title),
        ("preset", job.preset),
        ("form", job.form),
        ("gpus", job.gpus),
        ("hardware", job.hardware.name),
        ("container.image", job.container.image.reference),
        ("container.digest", job.container.image.digest),
    ):
        _lock(settings, path, chosen, "moectl default")
    _lock(
        settings,
        "cluster.cpus_per_task",
        job.cluster.cpus_per_task,
        f"hardware {job.hardware.name}",
    )
    settings["batch.per_device"] = job.config["per_device_batch_size"]
    for key, value in job.config.items():
        group, _, rest = key.partition("_")
        if group in {"ici", "dcn"} and rest.endswith("_parallelism"):
            settings[f"parallelism.{group}.{rest.removesuffix('_parallelism')}"] = value
    settings |= {f"xla_flags.{name}": value for name, value in job.xla_flags.items()}
    settings |= {f"environment.{name}": value for name, value in job.environment.items()}
    if job.accept:
        accepted = [{"code": code, "reason": reason} for code, reason in job.accept]
        settings["accept"] = Value(accepted, Origin("moectl default"))
    order = {path: index for index, path in enumerate(table().fields)}
    return dict(sorted(settings.items(), key=lambda item: order[_field(item[0])]))


def _lock(settings: dict[str, Value], path: str, chosen: Any, layer: str) -> None:
    """Fill in what the job chose where nobody said it; drop what is empty."""
    if chosen in {None, ""}:
        settings.pop(path, None)
    elif path not in settings or settings[path].value != chosen:
        settings[path] = Value(chosen, Origin(layer))


def _field(path: str) -> str:
    found = table().field(path)
    return found.path if found else path


def nested(values: Mapping[str, Any]) -> list[str]:
    """Return YAML lines of dotted paths, sections in the order of their first path."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *heads, last = path.split(".")
        at = tree
        for head in heads:
            at = at.setdefault(head, {})
        at[last] = _Leaf(value)
    return list(_lines(tree, 0))


class _Leaf:
    def __init__(self, value: Any) -> None:
        self.value = value


def _lines(tree: dict[str, Any], depth: int) -> Any:
    pad = "  " * depth
    for key, value in tree.items():
        name = (
            key
            if key.replace("_", "a").replace("-", "a").isalnum()
            and not (
                key[:1].isdigit() or key.casefold() in {"on", "off", "yes", "no", "y", "n", "null"}
            )
            else quoted(key)
        )
        if isinstance(value, _Leaf):
            yield f"{pad}{name}: {flow(value.value)}"
        else:
            yield f"{pad}{name}:"
            yield from _lines(value, depth + 1)
