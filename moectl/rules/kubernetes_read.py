"""What the rules on Kubernetes look at: pods, jobs, containers and variables of a manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moectl.facts.hardware import names, platform
from moectl.facts.yaml_facts import read as read_fact
from moectl.settings.sources.containers import Entry, variables
from moectl.settings.sources.manifest import FACTS, SEEN
from moectl.settings.sources.pods import (
    Job,
    Path,
    Pod,
    entries,
    gpus,
    jobs,
    known,
    mapping,
    pods,
)
from moectl.values import Hardware
from moectl.workload import Manifest, Workload

_WORD: Final = re.compile(r"[a-z0-9]+")
_USUAL: Final = "default-scheduler"


def facts() -> Mapping[str, Any]:
    """Return what is known of Kubernetes."""
    return read_fact(FACTS)


def pods_of(w: Workload) -> list[tuple[Manifest, Pod]]:
    """Return the pods of the document a workload stands in; of a document once in a file."""
    manifest = first(w)
    return [] if manifest is None else [(manifest, pod) for pod in pods(manifest)]


def first(w: Workload) -> Manifest | None:
    """Return its document, None when an earlier workload of the file stands in the same one."""
    return None if w.manifest is None or SEEN in w.manifest.places else w.manifest


def jobs_of(w: Workload) -> list[tuple[Manifest, Job]]:
    """Return its jobs, likewise."""
    manifest = first(w)
    return [] if manifest is None else [(manifest, job) for job in jobs(manifest)]


def containers_of(w: Workload) -> Iterator[tuple[Manifest, Pod, Path, Mapping[str, Any]]]:
    """Yield its containers, each with its pod and path; init containers left out."""
    for manifest, pod in pods_of(w):
        for path, container in pod.containers:
            yield manifest, pod, path, container


def all_containers(w: Workload) -> Iterator[tuple[Manifest, Path, Mapping[str, Any]]]:
    """Yield its containers with their path, init containers first."""
    for manifest, pod in pods_of(w):
        for path, container in (*pod.init_containers, *pod.containers):
            yield manifest, path, container


def env_of(w: Workload) -> Iterator[tuple[Manifest, Mapping[str, Any], list[Entry]]]:
    """Yield the variables of each container, in order; those of init containers too."""
    for manifest, path, container in all_containers(w):
        yield manifest, container, variables(path, container)


def trains(pod: Pod) -> bool:
    """Whether a pod has GPUs."""
    return any(gpus(container) not in {None, 0} for _, container in pod.containers)


def says_nothing(pod: Pod) -> bool:
    """Whether a pod that runs JAX says nothing of resources, so that it may well have GPUs."""
    words = facts()["training_images"]
    return all("resources" not in container for _, container in pod.containers) and any(
        word in str(container.get("image", "")).lower()
        for _, container in pod.containers
        for word in words
    )


def scheduled_together(manifest: Manifest) -> bool:
    """Whether a queue's topology, a pod group or another scheduler keeps all pods together."""
    topology = set(facts()["topology_annotations"])
    top = mapping(manifest.data.get("metadata"))
    if topology & set(mapping(top.get("annotations"))):
        return True
    for pod in pods(manifest):
        metadata = mapping(pod.data.get("metadata"))
        job = mapping(mapping(pod.job.spec if pod.job else None).get("template"))
        marks = {
            **mapping(metadata.get("annotations")),
            **mapping(metadata.get("labels")),
            **mapping(mapping(job.get("metadata")).get("annotations")),
        }
        if topology & set(marks) or any("pod-group" in str(mark) for mark in marks):
            return True
        if str(pod.spec.get("schedulerName") or _USUAL) != _USUAL:
            return True
    return False


def platform_asked(w: Workload, pod: Pod) -> tuple[Hardware, str] | None:
    """Return the platform a pod asks for, and the label that says so."""
    said = list(_labels(pod))
    for value in said:
        if (name := platform_of(value)) is not None:
            return platform(name), value
    return (w.hardware, w.hardware.name) if w.hardware is not None and not said else None


def _labels(pod: Pod) -> Iterator[str]:
    for value in mapping(pod.spec.get("nodeSelector")).values():
        if (text := known(value)) is not None:
            yield text
    node = mapping(mapping(pod.spec.get("affinity")).get("nodeAffinity"))
    required = mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution"))
    for term in entries(required.get("nodeSelectorTerms")):
        for wanted in entries(mapping(term).get("matchExpressions")):
            if mapping(wanted).get("operator") == "In":
                values = [known(value) for value in entries(mapping(wanted).get("values"))]
                found = {platform_of(value) for value in values if value}
                if len(found) == 1:  # several platforms decide nothing
                    yield from (value for value in values if value)


def platform_of(label: str) -> str | None:
    """Return the platform that the value of a node label names, or None."""
    words = label.lower()
    for machine, name in facts()["machines"].items():
        if re.match(rf"{re.escape(machine)}(?![a-z0-9])", words):
            return str(name)
    found = {word for word in _WORD.findall(words) if len(word) > 2}  # two letters say nothing
    for name in names():
        if platform(name).gres_type in found:
            return name
    return None
