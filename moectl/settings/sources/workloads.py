"""Makes parts of the containers of a Kubernetes manifest, and of what its ConfigMaps hold."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from moectl.errors import shown
from moectl.facts.maxtext import Catalogue
from moectl.findings import Finding
from moectl.settings.sources.config_maps import Item, config_maps
from moectl.settings.sources.container_parts import KIND, Files, Found, parts_of_container
from moectl.settings.sources.detect import detect
from moectl.settings.sources.manifest import SEEN, Reading, read_manifests, unread_kind
from moectl.settings.sources.maxtext_yaml import read_config
from moectl.settings.sources.placed import Mover
from moectl.settings.sources.pods import Pod, gpus, jobs, known, mapping, pods
from moectl.settings.sources.scripts import read_script
from moectl.settings.sources.source import MAX_PARTS, Open, Part, finding, unjudged
from moectl.values import Origin, Value
from moectl.workload import MARK, UNKNOWN, Layout, Manifest, Text

if TYPE_CHECKING:
    from moectl.settings.shell import Doubts, World

_COORDINATORS: Final = ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_IP")
# A pod with so many GPUs has its node for itself on every platform of the catalogue.
_WHOLE_NODE: Final = 4


def parts_of_manifests(
    text: str, name: str, open_file: Open, catalogue: Catalogue, world: World | None = None
) -> tuple[list[Part], list[Finding], list[str], Doubts | None]:
    """Return one part for every container, or one for a document without containers.

    Args:
        text: the manifest.
        name: its name.
        open_file: gives the text of a file beside it.
        catalogue: keys of the MaxText release.
        world: what the reading of its scripts takes for granted; nothing when None.
    """
    readings, findings = read_manifests(text, name)
    files = Files(name, open_file, config_maps(readings), world=world)
    parts: list[Part] = []
    told: list[str] = []
    for reading in readings:
        if len(parts) >= MAX_PARTS:
            findings.append(unjudged(KIND, "containers", reading.manifest.at()))
            break
        note = unread_kind(reading.manifest)
        if note is not None:
            findings.append(note)
        found = _of_document(reading, files, MAX_PARTS - len(parts), catalogue)
        parts += found[0]
        findings += found[1]
        told += found[2]
    findings += _apart(parts)
    used = {id(item) for item in files.used}
    image = _image_of_the_run(parts)
    for items in files.maps.values():
        for item in items.values():
            if id(item) not in used:
                found = _of_item(item, files, catalogue)
                parts += [replace(part, image=part.image or image) for part in found[0]]
                findings += found[1]
                told += found[2]
    return parts, findings, [sentence.replace(MARK, "") for sentence in told], _joined(files.doubts)


def _image_of_the_run(parts: Sequence[Part]) -> Text | None:
    """Return the first image that MaxText runs in, at the place of its entry."""
    for part in parts:
        if part.is_maxtext and part.image is not None and part.manifest is not None:
            text = part.image.text
            for pod in pods(part.manifest):
                for path, container in pod.containers:
                    if container.get("image") == text:
                        return Text.of(text, part.manifest.at(*path, "image"))
    return None


def _joined(doubts: Sequence[Doubts]) -> Doubts | None:
    """Return what the scripts of a manifest take for granted, as if they were one."""
    if not doubts:
        return None
    return replace(
        doubts[0],
        worlds=tuple(dict.fromkeys(world for one in doubts for world in one.worlds)),
        assumed=frozenset().union(*(one.assumed for one in doubts)),
        dropped={place: names for one in doubts for place, names in one.dropped.items()},
        possible=tuple(branch for one in doubts for branch in one.possible),
        places={place: names for one in doubts for place, names in one.places.items()},
        names={name: names for one in doubts for name, names in one.names.items()},
    )


def _of_item(item: Item, files: Files, catalogue: Catalogue) -> Found:
    """Judge an entry of a ConfigMap that no container of the file opens, as the file it is."""
    kind = detect(item.name, item.value)
    if kind not in {"MaxText config", "script"}:
        return [], [], []
    inner = item.inner()
    name = f"{files.name}{MARK}"
    parts: list[Part] = []
    if kind == "script":
        parts, findings, told, doubts = read_script(
            inner.text, name, kind, files.beside, catalogue, files.world
        )
        files.doubts.append(Mover({name: inner}).doubts(doubts))
        parts = [part for part in parts if part.is_maxtext or part.flags is not None]
        findings = findings if parts else []
    else:
        found = read_config(inner.text, name, files.beside, catalogue)
        findings, told = list(found.findings), list(found.told)
        part = Part(kind, Origin(kind, name, 1, 1), found.values, is_maxtext=True)
        parts = [replace(part, unread=found.unread)] if found.values else []
    move = Mover({name: inner})
    return [move(part) for part in parts], [move(one) for one in findings], told


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
        for variable in _COORDINATORS:
            text = part.environment.get(variable)
            if text is None or not text.known or not _is_job(part):
                continue
            own = {name for name, owner in owners.items() if _same(owner, part)}
            host = text.text.partition(":")[0].partition(".")[0]
            # The longest name counts: "a-b-0" is of the job "a-b", not of "a".
            named = [name for name in owners if host == name or host.startswith(f"{name}-")]
            other = max(named, key=len, default="")
            if other and other not in own:
                message = f"the coordinator is a pod of {shown(other)}, a job of its own."
                hint = "make them replicated jobs of one JobSet"
                found.append(finding("K8S132", "warning", variable, message, hint, text.origin))
    return found


def _same(one: Part, two: Part) -> bool:
    """Whether two parts stand in one document."""
    return (one.manifest and one.manifest.data) is (two.manifest and two.manifest.data)


def _is_job(part: Part) -> bool:
    """Whether a part stands in a Job or JobSet."""
    return part.manifest is not None and bool(jobs(part.manifest))


def _of_document(reading: Reading, files: Files, most: int, catalogue: Catalogue) -> Found:
    parts: list[Part] = []
    findings: list[Finding] = []
    told: list[str] = []
    templates = pods(reading.manifest)
    alone = _alone(templates)
    for pod in templates:
        layout = _layout(pod, reading, alone=alone)
        containers = pod.containers
        for path, container in containers:
            if len(parts) >= most:
                origin = reading.manifest.at(*path)
                findings.append(unjudged(KIND, "containers", origin))
                return _seen_once(parts), findings, told
            made = parts_of_container(reading, pod, path, container, files, catalogue)
            counted = layout if gpus(container) is not None or len(containers) == 1 else None
            parts += [_counted(part, counted or Layout()) for part in made[0]]
            findings += made[1]
            told += made[2]
    if not parts:
        start = reading.manifest.at()
        parts = [Part(KIND, start, manifest=reading.manifest)]
    return _seen_once(parts), findings, told


def _counted(part: Part, layout: Layout) -> Part:
    """Return a part with the layout of its pod; how often a loop starts it stays unknown."""
    return replace(part, layout=replace(layout, processes=part.layout.processes))


def _seen_once(parts: list[Part]) -> list[Part]:
    """Mark the document in all parts but the first, so that its rules judge it once."""
    found = parts[:1]
    manifest = parts[0].manifest if parts else None
    if manifest is None or len(parts) == 1:
        return parts
    again = Manifest(manifest.data, ChainMap({SEEN: manifest.at()}, dict(manifest.places)))
    return found + [replace(part, manifest=again) for part in parts[1:]]


def _alone(templates: Sequence[Pod]) -> bool:
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
