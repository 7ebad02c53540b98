"""The objects of one job of a run: its number, and the manifest with names of its own."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from moectl.errors import BackendError
from moectl.kubernetes_names import channel_name, object_name

RUN_LABEL, RUN_ANNOTATION = "moectl/run", "moectl/run-id"
JOB_LABEL = "moectl/job"
_MOMENT = re.compile(r"-(?:20)?(\d{6})-(\d{6})-[0-9a-f]{4}$")
_KINDS = frozenset({"ConfigMap", "ComputeDomain", "JobSet"})


def number(identity: str, attempt: int) -> str:
    """Return the id of a job of a run: the same for the same attempt, and later ones larger.

    Twelve digits of the moment at which the run was meant, four of its id's digest, and two of
    the attempt, so that ids of a run are in the order of its jobs as the names of log folders
    have to be.

    Args:
        identity: the run's id.
        attempt: jobs of the run before this one.
    """
    match = _MOMENT.search(identity)
    moment = f"{match[1]}{match[2]}" if match else "0" * 12
    digest = int(hashlib.sha256(identity.encode()).hexdigest()[:8], 16) % 10_000
    return f"{moment}{digest:04d}{attempt % 100:02d}".lstrip("0") or "0"


def run_label(identity: str) -> str:
    """Return the value of the label by which the objects of a run are found."""
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def jobset_name(identity: str, job: str) -> str:
    """Return the name of a job's JobSet."""
    plain = _MOMENT.sub("", identity)
    return f"{object_name(plain)[:22].rstrip('-')}-{job}"


def named(
    documents: Sequence[Mapping[str, Any]], identity: str, job: str, namespace: str
) -> list[dict[str, Any]]:
    """Return the objects of a manifest under the names of a job of a run.

    Args:
        documents: the objects of the bundle's file, which a person may have changed.
        identity: the run's id.
        job: the job's id.
        namespace: where they are made.

    Raises:
        BackendError: they are not what a bundle holds.
    """
    found = [copy.deepcopy(dict(document)) for document in documents]
    kinds = [document.get("kind") for document in found]
    if kinds.count("JobSet") != 1 or not set(kinds) <= _KINDS:
        raise BackendError(
            f"the manifest holds {', '.join(map(str, kinds)) or 'nothing'}, and a run is one "
            "JobSet with its ConfigMap and ComputeDomain; render the bundle anew"
        )
    (old,) = [document["metadata"]["name"] for document in found if document["kind"] == "JobSet"]
    new = jobset_name(identity, job)
    names = {old: new, channel_name(old): channel_name(new)}
    for document in found:
        metadata = document["metadata"]
        metadata["name"] = names.get(metadata["name"], metadata["name"])
        metadata["namespace"] = namespace
        metadata.setdefault("labels", {}).update({RUN_LABEL: run_label(identity), JOB_LABEL: job})
        metadata.setdefault("annotations", {})[RUN_ANNOTATION] = identity
        if document["kind"] == "ComputeDomain":
            claim = document["spec"]["channel"]["resourceClaimTemplate"]
            claim["name"] = names.get(claim["name"], claim["name"])
        if document["kind"] == "JobSet":
            for replicated in document["spec"]["replicatedJobs"]:
                template = replicated["template"]["spec"]["template"]
                _rename_pod(template, names)
                labels = template.setdefault("metadata", {}).setdefault("labels", {})
                labels |= {RUN_LABEL: run_label(identity), JOB_LABEL: job}
    return found


def _rename_pod(template: Mapping[str, Any], names: Mapping[str, str]) -> None:
    spec = template["spec"]
    for volume in spec.get("volumes", ()):
        if held := volume.get("configMap"):
            held["name"] = names.get(held["name"], held["name"])
    affinity = (spec.get("affinity") or {}).get("podAffinity") or {}
    for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution", ()):
        labels = term["labelSelector"]["matchLabels"]
        for key, value in labels.items():
            labels[key] = names.get(value, value)
    for claim in spec.get("resourceClaims", ()):
        name = claim.get("resourceClaimTemplateName")
        claim["resourceClaimTemplateName"] = names.get(name, name)
