"""Makes parts of the containers of a Kubernetes manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from moectl.errors import shown
from moectl.facts.maxtext import Catalogue
from moectl.findings import Finding
from moectl.job import Origin, Value
from moectl.settings.sources.commands import parts_of_script, read_command, started
from moectl.settings.sources.containers import environment, image, laid_out, script, words
from moectl.settings.sources.manifest import Reading, read_manifests, unread_kind
from moectl.settings.sources.pods import Pod, gpus, jobs, known, mapping, pods
from moectl.settings.sources.source import MAX_PARTS, Open, Part, finding, split_flags
from moectl.workload import UNKNOWN, Layout, Step

KIND: Final = "manifest"
_COORDINATORS: Final = ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_IP")
# A pod with so many GPUs has its node for itself on every platform of the catalogue.
_WHOLE_NODE: Final = 4
Found = tuple[list[Part], list[Finding], list[str]]


def parts_of_manifests(text: str, name: str, open_file: Open, catalogue: Catalogue) -> Found:
    """Return one part for every container, or one for a document without containers."""
    readings, findings = read_manifests(text, name)
    parts: list[Part] = []
    told: list[str] = []
    for reading in readings:
        if len(parts) >= MAX_PARTS:
            told.append(f"only the first {MAX_PARTS} containers are read")
            break
        note = unread_kind(reading.manifest)
        if note is not None:
            findings.append(note)
        found = _of_document(reading, name, open_file, catalogue)
        parts += found[0]
        findings += found[1]
        told += found[2]
    findings += _apart(parts)
    return parts, findings, told


def _apart(parts: list[Part]) -> list[Finding]:
    """Find jobs that look for their coordinator in another job of the file."""
    owners: dict[str, Part] = {}
    for part in parts:
        data = part.manifest.data if part.manifest is not None else {}
        name = known(mapping(data.get("metadata")).get("name"))
        if name and _is_job(part):
            owners[name] = part
    found = []
    for part in parts:
        own = {name for name, owner in owners.items() if owner.manifest is part.manifest}
        for variable in _COORDINATORS:
            text = part.environment.get(variable)
            if text is None or not text.known or not _is_job(part):
                continue
            host = text.text.partition(":")[0].partition(".")[0]
            # The longest name counts: "a-b-0" is of the job "a-b", not of "a".
            named = [name for name in owners if host == name or host.startswith(f"{name}-")]
            other = max(named, key=len, default="")
            if other and other not in own:
                message = f"the coordinator is a pod of {shown(other)}, a job of its own."
                hint = "make them replicated jobs of one JobSet"
                found.append(finding("K8S132", "warning", variable, message, hint, text.origin))
    return found


def _is_job(part: Part) -> bool:
    """Whether a part stands in a Job or JobSet."""
    return part.manifest is not None and bool(jobs(part.manifest))


def _of_document(reading: Reading, name: str, open_file: Open, catalogue: Catalogue) -> Found:
    parts: list[Part] = []
    findings: list[Finding] = []
    told: list[str] = []
    templates = pods(reading.manifest)
    for pod in templates:
        layout = _layout(pod, reading, alone=_alone(templates))
        for path, container in pod.containers:
            made = _of_container(reading, path, container, name, open_file, catalogue)
            counted = layout if gpus(container) is not None or len(pod.containers) == 1 else None
            parts += [replace(part, layout=counted or Layout()) for part in made[0]]
            findings += made[1]
            told += made[2]
    if not parts:
        start = reading.manifest.at()
        parts = [Part(KIND, start, manifest=reading.manifest)]
    return parts, findings, told


def _of_container(
    reading: Reading,
    path: tuple[str | int, ...],
    container: Mapping[str, Any],
    name: str,
    open_file: Open,
    catalogue: Catalogue,
) -> Found:
    variables = environment(reading, path, container)
    texts, paths = words(reading, path, container, variables)
    own, flags = split_flags(variables)
    part = Part(
        kind=KIND,
        origin=reading.manifest.at(*path),
        environment=own,
        flags=flags,
        manifest=reading.manifest,
        image=image(reading, path, container),
    )
    if (inside := script(texts, paths)) is not None:
        return _of_script(part, reading, inside, name, open_file, catalogue)
    step = Step("", (), tuple(texts), part.origin, variables)
    start = next(iter(started([step])), None)
    if start is None:
        return [part], [], []
    said = read_command(start, variables, name, open_file, catalogue)
    part = replace(
        part,
        config=said.config,
        arguments=said.arguments,
        is_maxtext=True,
        unread=said.unread,
    )
    return [part], list(said.findings), list(said.told)


def _of_script(
    part: Part,
    reading: Reading,
    inside: tuple[tuple[str | int, ...], str],
    name: str,
    open_file: Open,
    catalogue: Catalogue,
) -> Found:
    """Read what `bash -c` runs; the container's variables stand below the script's own."""
    from moectl.settings.shell import read_script  # noqa: PLC0415

    path, text = inside
    batch = read_script(laid_out(reading, path, text), name)
    found, findings, told = parts_of_script(batch, name, KIND, open_file, catalogue)
    parts = [
        replace(
            part,
            origin=inner.origin if inner.is_maxtext else part.origin,
            config=inner.config,
            arguments=inner.arguments,
            is_maxtext=inner.is_maxtext,
            environment={**part.environment, **inner.environment},
            flags=inner.flags or part.flags,
            batch=batch,
            step=inner.step,
            unread=inner.unread,
        )
        for inner in found
    ]
    return parts, findings, told


def _alone(templates: list[Pod]) -> bool:
    """Whether at most one kind of pod has GPUs, so that they are the job's."""
    return sum(any(gpus(c) is not None for _, c in pod.containers) for pod in templates) < 2


def _layout(pod: Pod, reading: Reading, *, alone: bool) -> Layout:
    counts = [gpus(container) for _, container in pod.containers]
    said = [count for count in counts if count is not None]
    if not said:
        return Layout()
    place = reading.manifest.at(*pod.path)
    for path, container in pod.containers:
        if gpus(container) is not None:
            place = reading.manifest.at(*path, "resources")
            break
    each = UNKNOWN if UNKNOWN in said else sum(said)
    if not alone or pod.count is None:
        return Layout(gpus_per_node=_value(each, place) if _whole(each) else None)
    total: Any = UNKNOWN if UNKNOWN in (each, pod.count) else each * pod.count
    return Layout(
        nodes=_value(pod.count, place) if _whole(each) else None,
        gpus=_value(total, place),
        gpus_per_node=_value(each, place) if _whole(each) else None,
    )


def _whole(each: Any) -> bool:
    return each is UNKNOWN or each >= _WHOLE_NODE


def _value(value: Any, origin: Origin) -> Value:
    return Value(value, origin)
