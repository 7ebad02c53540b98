"""What a cluster of Kubernetes has of what a launch needs, and a cluster profile of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moectl.actions.doctor import Diagnosis
from moectl.actions.doctor_checks import Check
from moectl.actions.doctor_profile import Key
from moectl.errors import BackendError
from moectl.facts.yaml_facts import read
from moectl.launch.kubernetes_api import Api, Kind, MissingError, Place, place

_QUEUES = ("v1beta2", "v1beta1")


def diagnose(context: str = "", namespace: str = "") -> Diagnosis:
    """Ask the API server what it has; nothing is made.

    Args:
        context: context of the kubeconfig; empty for the current one.
        namespace: where jobs would be made; empty for the context's own.
    """
    try:
        where = place(context, namespace)
        api = Api(where)
    except BackendError as error:
        cause, _, remedy = str(error).partition(": ")
        return Diagnosis((Check("Kubernetes", "missing", cause, remedy),), ())
    found = list(_checks(api, where))
    queues = _queues(api)
    if queues:
        found.append(Check("Kueue", "found", f"local queues {', '.join(queues)}"))
    else:
        found.append(Check("Kueue", "absent", f"no local queue in {where.namespace}"))
    return Diagnosis(tuple(found), tuple(_profile(where, queues)))


def _checks(api: Api, where: Place) -> Iterator[Check]:
    """Yield what is there of the kinds that a manifest has."""
    named = f"context {where.context}, namespace {where.namespace}"
    for name, title, needed in (
        ("jobset", "JobSet", True),
        ("compute_domain", "ComputeDomain", False),
    ):
        group, _, version = read("kubernetes_launch.yaml")["versions"][name].partition("/")
        kind = Kind(f"{name.replace('_', '')}s", group, version)
        try:
            next(api.list(kind, ""), None)
        except MissingError as error:
            cause, _, remedy = str(error).partition("\n")[0].partition("; ")
            yield Check(title, "missing" if needed else "absent", cause, remedy)
        except BackendError as error:
            cause, _, remedy = str(error).partition("\n")[0].partition("; ")
            yield Check(title, "missing", cause, remedy)
            return
        else:
            yield Check(title, "found", named)


def _queues(api: Api) -> list[str]:
    """Return the local queues of Kueue in the namespace; none where they may not be seen."""
    for version in _QUEUES:
        kind = Kind("localqueues", "kueue.x-k8s.io", version)
        try:
            return [str(queue["metadata"]["name"]) for queue in api.list(kind, "")]
        except BackendError:
            continue
    return []


def _profile(where: Place, queues: list[str]) -> Iterator[Key]:
    site: dict[str, Any] = {"context": where.context, "namespace": where.namespace}
    why = "Of the kubeconfig."
    if queues:
        site["queue"] = queues[0]
        others = f"; others: {', '.join(queues[1:])}" if queues[1:] else ""
        why = f"Of the kubeconfig; the queue is the first of the namespace{others}."
    yield Key("launcher", "kubernetes", "You asked for it.")
    yield Key("kubernetes", site, why)
