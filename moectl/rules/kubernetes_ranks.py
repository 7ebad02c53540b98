"""Rules on how the pods of a job find each other: their count and their ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moectl.findings import Severity
from moectl.rules.kubernetes_read import facts
from moectl.rules.rule import Fault, rules
from moectl.settings.sources.manifest import is_template
from moectl.settings.sources.pods import Path, Pod, pods
from moectl.workload import Manifest, Workload

RULES = rules()
_ONE_PROCESS_A_POD: Final = "gpu"  # MaxText 0.2.5 utils/max_utils.py:278-347
_PYTHON: Final = frozenset({"", "python", "python3"})


@RULES.rule(
    "K8S163",
    "rendezvous that cannot take place",
    reason="With JAX_COORDINATOR_IP set, hardware=gpu makes whole numbers of NNODES and NODE_RANK, "
    "which stops where one is not set; JAX waits for exactly NNODES processes, each with a rank "
    "of its own, and all pods of one template get the same text.",
    remedy="set NNODES to the number of pods, and NODE_RANK to the pod's index",
    source="MaxText 0.2.5 utils/max_utils.py:318-347; JAX 0.12.0.1 "
    "_src/clusters/k8s_cluster.py:218-221",
)
def rendezvous(w: Workload) -> Iterator[Fault]:
    """Find a coordinator without count or rank, a wrong count, and a rank that all pods share."""
    yield from _same_rank(w)
    manifest = w.manifest
    if manifest is None or not w.is_maxtext or w.value("hardware") != _ONE_PROCESS_A_POD:
        return
    address, *needed = facts()["rendezvous"]
    if address not in w.environment:
        return
    where = w.environment[address].origin
    known_all = not is_template(manifest) and not any(
        container.get("envFrom") for _, _, container in _all(manifest)
    )
    for name in needed:
        if name in facts()["rendezvous_numbers"] and name not in w.environment and known_all:
            yield Fault(
                name,
                f"{address} is set and {name} is not: MaxText stops at int(None).",
                where,
                f"add an entry {name}, e.g. {facts()['rendezvous_numbers'][name]}",
            )
    count_name = next(iter(facts()["rendezvous_numbers"]))
    said = w.variable(count_name)
    processes = w.layout.nodes.value if w.layout.nodes is not None else None
    started_by_hand = w.step is None or w.step.program in _PYTHON
    started_by_hand &= w.layout.processes is None
    if said is None or not said.isdigit() or not isinstance(processes, int) or not started_by_hand:
        return
    if int(said) != processes:
        waits = (
            "JAX waits for more processes than there are"
            if int(said) > processes
            else (f"{processes - int(said)} of them have a rank that does not exist")
        )
        yield Fault(
            count_name,
            f"{count_name} is {said}, and there are {processes} pods: {waits}.",
            w.environment[count_name].origin,
            f'{count_name}: "{processes}"',
        )


def _same_rank(w: Workload) -> Iterator[Fault]:
    """Find a rank that is a plain number in a template of several pods."""
    pod = _pod_of(w)
    count = pod.count if pod is not None else None
    started_once = w.layout.processes is None  # a loop may give each process its own
    if not isinstance(count, int) or count < 2 or not started_once:
        return
    read = facts()["ranks"].get(w.value("hardware"), ()) if w.is_maxtext else ()
    for name in dict.fromkeys(rank for names in facts()["ranks"].values() for rank in names):
        said = (w.variable(name) or "").strip()
        if not said.isdigit():
            continue
        # Whoever reads a variable that MaxText does not, another rank is meant in each pod.
        severity: Severity = "error" if name in read and _meets(w, name) else "warning"
        yield Fault(
            name,
            f"{name} is {said} in each of the {count} pods of this template; every process needs "
            "a rank of its own.",
            w.environment[name].origin,
            facts()["rendezvous_numbers"].get(name, facts()["index_of_a_pod"]),
            severity,
        )


def _meets(w: Workload, name: str) -> bool:
    """Whether the variable is read at all: that of a rendezvous by hand only with an address."""
    address, *needed = facts()["rendezvous"]
    return name not in needed or address in w.environment


def _pod_of(w: Workload) -> Pod | None:
    """Return the pod in which a workload stands: the last one that begins above it."""
    if w.manifest is None or is_template(w.manifest):
        return None
    found, line = pods(w.manifest), w.origin.line or 0
    above = [pod for pod in found if (w.manifest.at(*pod.path).line or 0) <= line]
    return next(iter(above[-1:] or found[:1]), None)


def _all(manifest: Manifest) -> Iterator[tuple[Pod, Path, Mapping[str, Any]]]:
    for pod in pods(manifest):
        for path, container in pod.containers:
            yield pod, path, container
