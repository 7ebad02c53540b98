"""The Kubernetes part of a cluster profile, its texts taken apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from moectl.errors import UnknownNameError, UsageError, shown
from moectl.facts.yaml_facts import read
from moectl.job_kubernetes import InitContainer, Kubernetes, Volume
from moectl.resolve.merge import Effective
from moectl.settings.flatten import place, raise_all

_AS_SAID = (
    "context", "namespace", "network", "gpu_resource", "shared_memory", "priority_class",
    "service_account", "secret", "termination_grace", "compute_domain", "queue",
    "workload_priority", "suspend", "domain_topology", "required_topology",
    "preferred_topology", "max_restarts", "keep_seconds",
)  # fmt: skip
_PAIRS = ("resources", "annotations", "labels", "node_selector", "secret_keys")
_SOURCES = ("claim", "host_path", "bucket")


def kubernetes(effective: Effective) -> Kubernetes:
    """Return what the profile says of Kubernetes.

    Raises:
        UsageError: texts that cannot be taken apart, or a network that nobody knows.
    """
    raise_all(list(_faults(effective)))
    said = {name: _said(effective, name) for name in _AS_SAID}
    pairs: dict[str, Any] = {name: dict(_pairs(_said(effective, name) or ())) for name in _PAIRS}
    keys = pairs.pop("secret_keys")
    return Kubernetes(
        **said,
        **pairs,
        tolerations=tuple(_said(effective, "tolerations") or ()),
        image_pull_secrets=tuple(_said(effective, "image_pull_secrets") or ()),
        secret_keys={name: _pair(where, "/") for name, where in keys.items()},
        volumes=tuple(Volume(**row) for row in _said(effective, "volumes") or ()),
        init_containers=tuple(
            InitContainer(row["name"], row["image"], tuple(row.get("command", ())))
            for row in _said(effective, "init_containers") or ()
        ),
    )


def networks() -> Mapping[str, Mapping[str, object]]:
    """Return the ready networks by name."""
    found: Mapping[str, Mapping[str, object]] = read("kubernetes_launch.yaml")["networks"]
    return found


def _said(effective: Effective, name: str) -> Any:
    return effective.get(f"cluster.kubernetes.{name}")


def _pairs(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        yield _pair(text, "=")


def _pair(text: str, mark: str) -> tuple[str, str]:
    name, _, value = text.partition(mark)
    return name, value


def _faults(effective: Effective) -> Iterator[UsageError]:
    network = _said(effective, "network")
    if network not in networks():
        yield UnknownNameError(
            "network of Kubernetes", str(network), networks(), where=_place(effective, "network")
        )
    for name in _PAIRS:
        where = _place(effective, name)
        texts = _said(effective, name) or ()
        form = "VARIABLE=SECRET/KEY" if name == "secret_keys" else "KEY=VALUE"
        heads = [text.partition("=")[0] for text in texts]
        for text, head in zip(texts, heads, strict=True):
            if "=" not in text or not head:
                yield UsageError(f"{where}: {shown(text)} is not of the form {form}")
            elif name == "secret_keys" and not all(_pair(text.partition("=")[2], "/")):
                yield UsageError(
                    f"{where}: {head} is to name a Secret and a key of it, {form}; a secret's "
                    "value is written nowhere"
                )
            elif heads.count(head) > 1 and heads.index(head) == texts.index(text):
                yield UsageError(f"{where}: {shown(head)} is said twice")
    for row in _said(effective, "volumes") or ():
        if sum(bool(row.get(source)) for source in _SOURCES) != 1:
            yield UsageError(
                f"{_place(effective, 'volumes')}: the volume at {shown(row['target'])} needs one "
                "of claim, host_path and bucket"
            )


def _place(effective: Effective, name: str) -> str:
    path = f"cluster.kubernetes.{name}"
    where = place(effective.origin(path)) if path in effective.values else ""
    return f"{where}: {path}" if where else path
