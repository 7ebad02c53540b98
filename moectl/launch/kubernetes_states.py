"""What a JobSet and its pods are doing, in the words that all backends share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.launch.backend import JobState, Phase
from moectl.launch.kubernetes_names import JOB_LABEL, RUN_ANNOTATION

CONTAINER = "train"
# Names of nodes that are listed; the others are counted.
_NODES = 8


@dataclass(frozen=True, slots=True)
class PodState:
    """A pod.

    Attributes:
        name: its name.
        index: its number in the job.
        restart: of which start of the job it is.
        phase: Kubernetes' own word.
        node: where it is; empty before.
        start: when it started; empty before.
        waits: why it waits, reason and message.
        code: exit code of its container, None before its end.
        message: what its container left to say; empty mostly.
        reason: why its container ended, e.g. OOMKilled.
        finished: when its container ended.
    """

    name: str
    index: int
    restart: int
    phase: str
    node: str = ""
    start: str = ""
    waits: str = ""
    code: int | None = None
    message: str = ""
    reason: str = ""
    finished: str = ""


def pod_state(pod: Mapping[str, Any]) -> PodState:
    """Return a pod as the API server has it."""
    metadata, spec, status = _of(pod, "metadata"), _of(pod, "spec"), _of(pod, "status")
    labels, annotations = _of(metadata, "labels"), _of(metadata, "annotations")
    index = _whole(
        annotations.get("batch.kubernetes.io/job-completion-index")
        or labels.get("batch.kubernetes.io/job-completion-index")
    )
    rows = status.get("containerStatuses") or ()
    row: Mapping[str, Any] = next((each for each in rows if each.get("name") == CONTAINER), {})
    state = _of(row, "state")
    ended, waiting = _of(state, "terminated"), _of(state, "waiting")
    return PodState(
        str(metadata.get("name", "")),
        index,
        _whole(labels.get(read("kubernetes_launch.yaml")["restart_label"])),
        str(status.get("phase", "")),
        str(spec.get("nodeName") or ""),
        str(status.get("startTime") or ""),
        _waits(status, waiting),
        ended.get("exitCode"),
        str(ended.get("message") or ""),
        str(ended.get("reason") or ""),
        str(ended.get("finishedAt") or ""),
    )


def job_state(jobset: Mapping[str, Any], pods: Sequence[PodState]) -> JobState:
    """Return a JobSet with its pods as a job."""
    metadata, spec, status = _of(jobset, "metadata"), _of(jobset, "spec"), _of(jobset, "status")
    labels = _of(metadata, "labels")
    restarts = _whole(status.get("restarts"))
    newest = [pod for pod in pods if pod.restart == restarts] or list(pods)
    conditions = {
        row["type"]: row for row in status.get("conditions") or () if row.get("status") == "True"
    }
    first = first_failure(newest)
    phase, raw, reason = _phase(spec, labels, conditions, newest, first)
    if metadata.get("deletionTimestamp") and phase not in {"completed", "failed"}:
        phase, raw, reason = "cancelled", "Deleting", "it is being deleted"
    over = conditions.get("Completed") or conditions.get("Failed")
    code = None
    if over is not None:
        code = 0 if phase == "completed" else first.code if first else None
    return JobState(
        str(labels.get(JOB_LABEL, "")),
        phase,
        raw,
        reason,
        nodes_of(newest),
        min((pod.start for pod in newest if pod.start), default=""),
        str(over.get("lastTransitionTime") or "") if over else "",
        code,
        0,
        restarts,
        str(_of(metadata, "annotations").get(RUN_ANNOTATION, "")),
    )


def first_failure(pods: Iterable[PodState]) -> PodState | None:
    """Return the pod that failed first and was not told to end; any that failed else."""
    ended = read("kubernetes_launch.yaml")["exits"]["ended"]
    failed = sorted(
        (pod for pod in pods if pod.code), key=lambda pod: (pod.code == ended, pod.finished)
    )
    return failed[0] if failed else None


def nodes_of(pods: Sequence[PodState]) -> str:
    """Return the nodes of pods in one line."""
    names = [pod.node for pod in sorted(pods, key=lambda pod: pod.index) if pod.node]
    rest = f" and {len(names) - _NODES} more" if len(names) > _NODES else ""
    return ",".join(names[:_NODES]) + rest


def blocked(reason: str) -> str:
    """Return why a pod that waits for this reason will not start by itself, else nothing."""
    rows = read("kubernetes_refusals.yaml")["waits"]
    row = next((row for row in rows if re.search(row["says"], reason)), None)
    return f"{row['cause']} (Kubernetes: {reason}); {row['remedy']}" if row else ""


def _phase(
    spec: Mapping[str, Any],
    labels: Mapping[str, Any],
    conditions: Mapping[str, Any],
    pods: Sequence[PodState],
    first: PodState | None,
) -> tuple[Phase, str, str]:
    known = read("kubernetes_launch.yaml")
    if "Completed" in conditions:
        return "completed", "Completed", ""
    if failed := conditions.get("Failed"):
        reason = " ".join(str(failed.get("message") or failed.get("reason") or "").split())
        if re.search("DeadlineExceeded|deadline", reason):
            return "timeout", "Failed", reason
        memory = first is not None and (
            first.code == known["exits"]["memory"] or first.reason == "OOMKilled"
        )
        told = first.message if first and first.message else reason
        return "out of memory" if memory else "failed", "Failed", told
    if spec.get("suspend"):
        if known["queue_label"] in labels:
            return "pending", "Suspended", "it waits for Kueue"
        return "suspended", "Suspended", "it is suspended"
    running = sum(pod.phase == "Running" for pod in pods)
    if pods and running == len(pods):
        return "running", "Running", ""
    if any(pod.phase == "Succeeded" for pod in pods) and not first:
        return "completing", "Running", ""
    if first is not None:
        return "requeued", "Restarting", first.message
    waits = next((pod.waits for pod in pods if pod.waits), "")
    return "pending", "Pending", waits or f"{running} of its pods run"


def _waits(status: Mapping[str, Any], waiting: Mapping[str, Any]) -> str:
    texts = [waiting] if waiting.get("reason") not in {None, "ContainerCreating"} else []
    texts += [
        row
        for row in status.get("conditions") or ()
        if row.get("type") == "PodScheduled" and row.get("status") == "False"
    ]
    words: Iterator[str] = (
        ": ".join(filter(None, (str(row.get("reason") or ""), str(row.get("message") or ""))))
        for row in texts
    )
    return " ".join(next(words, "").split())[:300]


def _of(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, Mapping) else {}


def _whole(text: object) -> int:
    return int(str(text)) if re.fullmatch("[0-9]{1,9}", str(text)) else 0
