"""Finds the pods of a Kubernetes document, and how many there are of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from moectl.facts.yaml_facts import read as read_fact
from moectl.settings.sources.manifest import FACTS
from moectl.settings.sources.source import MAX_PARTS
from moectl.workload import MARK, UNKNOWN, Manifest

_SEARCH_DEPTH: Final = 12
_MOST: Final = MAX_PARTS
Path = tuple[str | int, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """A batch/v1 Job, by itself or inside a JobSet.

    Attributes:
        path: of what holds `spec`.
        spec: its spec.
        group: name of the replicated job; empty outside a JobSet.
        replicas: jobs of this kind; None when not said, UNKNOWN when not known.
    """

    path: Path
    spec: Mapping[str, Any]
    group: str = ""
    replicas: Any = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod template.

    Attributes:
        path: of what holds `spec` and `metadata`.
        data: that mapping.
        job: the Job it is of, or None.
        count: pods in all; None when not said, UNKNOWN when not known.
        fragment: whether the document is only a piece of a manifest: a container's (`env:` at
            the top), or a pod spec's (`containers:` at the top).
    """

    path: Path
    data: Mapping[str, Any]
    job: Job | None = None
    count: Any = None
    fragment: bool = False

    @property
    def spec(self) -> Mapping[str, Any]:
        """Return its spec."""
        return self.data if self.fragment else mapping(self.data.get("spec"))

    @property
    def containers(self) -> list[tuple[Path, Mapping[str, Any]]]:
        """Return path and data of its containers, init containers left out."""
        if self.fragment and "containers" not in self.data:
            return [((), self.data)]
        return self._listed("containers")

    @property
    def init_containers(self) -> list[tuple[Path, Mapping[str, Any]]]:
        """Return path and data of the containers that end before the others start."""
        return self._listed("initContainers")

    def _listed(self, key: str) -> list[tuple[Path, Mapping[str, Any]]]:
        above = self.path if self.fragment else (*self.path, "spec")
        return [
            ((*above, key, index), container)
            for index, container in enumerate(entries(self.spec.get(key)))
            if isinstance(container, Mapping)
        ]


_JOBS: list[tuple[Manifest, list[Job]]] = []
_PODS: list[tuple[Manifest, list[Pod]]] = []


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping, empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def entries(value: Any) -> list[Any]:
    """Return a list, empty for anything else."""
    return value if isinstance(value, list) else []


def number(value: Any) -> Any:
    """Return a whole number as Kubernetes reads it; None when nobody says, else UNKNOWN."""
    if value is None:
        return None
    if isinstance(value, bool):
        return UNKNOWN
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return UNKNOWN


def jobs(manifest: Manifest) -> list[Job]:
    """Return the jobs of a document."""
    return _once(_JOBS, manifest, _jobs)


def _once(
    kept: list[tuple[Manifest, list[T]]], manifest: Manifest, read: Callable[[Manifest], list[T]]
) -> list[T]:
    """Read a document once: every rule asks for the same lists of it."""
    if not kept or kept[0][0].data is not manifest.data:
        kept[:] = [(manifest, read(manifest))]
    return kept[0][1]


def _jobs(manifest: Manifest) -> list[Job]:
    row = read_fact(FACTS)["kinds"].get(str(manifest.data.get("kind")), {})
    found = []
    for pattern in row.get("jobs", []):
        for path, data in _at(manifest.data, tuple(pattern), ()):
            above = mapping(_get(manifest.data, path[:-1])) if path else {}
            grouped = "replicatedJobs" in path
            group = str(above.get("name", "")) if grouped else ""
            replicas = number(above.get("replicas")) if grouped else None
            found.append(Job(path, mapping(data.get("spec")), group, replicas))
    return found


def pods(manifest: Manifest) -> list[Pod]:
    """Return the pod templates of a document, of whatever kind it is.

    A fragment (`env:` or `containers:` at the top) is a pod of which little is said.
    """
    return _once(_PODS, manifest, _pods)


def _pods(manifest: Manifest) -> list[Pod]:
    data = manifest.data
    row = read_fact(FACTS)["kinds"].get(str(data.get("kind")), {})
    found = [
        Pod((*job.path, "spec", "template"), mapping(job.spec.get("template")), job, _count(job))
        for job in jobs(manifest)
    ]
    for pattern in row.get("pods", []):
        for path, inside in _at(data, tuple(pattern), ()):
            count = number(_get(data, tuple(row["count"]))) if "count" in row else 1
            found.append(Pod(path, inside, None, count))
    if found or row:
        return found
    if "env" in data or "containers" in data:
        return [Pod((), data, fragment=True)]
    return [Pod(path, inside) for path, inside in _search(data, ())][:_MOST]


def _count(job: Job) -> Any:
    """Return parallelism times replicas, as far as said; Kubernetes' own default is 1."""
    counts = [number(job.spec.get("parallelism")), job.replicas]
    if UNKNOWN in counts:
        return UNKNOWN
    parallelism, replicas = counts
    return (1 if parallelism is None else parallelism) * (1 if replicas is None else replicas)


def _at(data: Any, pattern: Path, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if not pattern:
        if isinstance(data, Mapping):
            yield path, data
        return
    head, rest = pattern[0], pattern[1:]
    if head == "*":
        for index, entry in enumerate(entries(data)):
            yield from _at(entry, rest, (*path, index))
    elif isinstance(data, Mapping) and head in data:
        yield from _at(data[str(head)], rest, (*path, head))


def _get(data: Any, path: Path) -> Any:
    for key in path:
        if isinstance(data, Mapping) and isinstance(key, str):
            data = data.get(key)
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            return None
    return data


def _search(data: Any, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield what looks like a pod template anywhere in a document of another kind."""
    if len(path) > _SEARCH_DEPTH:
        return
    if isinstance(data, Mapping):
        if isinstance(mapping(data.get("spec")).get("containers"), list):
            yield path, data
            return
        for key, value in data.items():
            yield from _search(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data[:_MOST]):
            yield from _search(value, (*path, index))


def known(value: Any) -> str | None:
    """Return a text that holds no placeholder, else None."""
    return value if isinstance(value, str) and MARK not in value else None


def gpus(container: Mapping[str, Any]) -> Any:
    """Return the GPUs a container gets; None when it asks for none, UNKNOWN when not known."""
    resources = mapping(container.get("resources"))
    name = read_fact(FACTS)["gpu_resource"]
    for key in ("limits", "requests"):
        said = mapping(resources.get(key)).get(name)
        if said is not None:
            return number(said)
    return None
