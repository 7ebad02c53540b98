"""Validates objects against the schemas of Kubernetes, JobSet and ComputeDomain, fields known only.

Core kinds come from the package kubernetes-validate, custom ones from `tests/crds`; an unknown
field is refused everywhere but where a schema says that any is legal.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

FOLDER = Path(__file__).parent.parent / "crds"
CORE = "1.37"
_CUSTOM = {
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): "jobset.x-k8s.io_jobsets.yaml",
    ("resource.nvidia.com/v1beta1", "ComputeDomain"): "resource.nvidia.com_computedomains.yaml",
}


def faults(document: Mapping[str, Any]) -> list[str]:
    """Return what the schemas refuse of an object; a kind without a schema is refused."""
    kind = (str(document.get("apiVersion")), str(document.get("kind")))
    if kind in _CUSTOM:
        found = [_told(error) for error in _validator(kind).iter_errors(document)]
        return found + list(_embedded(document))
    try:
        kubernetes_validate.validate(document, CORE, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error.message)]
    except (
        kubernetes_validate.SchemaNotFoundError,
        kubernetes_validate.InvalidSchemaError,
    ) as error:
        return [str(error)]
    except (KeyError, TypeError, AttributeError) as error:
        return [f"no object: {error!r}"]
    return []


def _embedded(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the core schema of a Job says of the jobs of a JobSet."""
    spec = document.get("spec")
    jobs = spec.get("replicatedJobs") if isinstance(spec, Mapping) else None
    for replicated in jobs or ():
        template = replicated.get("template") if isinstance(replicated, Mapping) else None
        if isinstance(template, Mapping) and "spec" in template:
            job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
            yield from faults({**job, "spec": template["spec"]})


@cache
def _validator(kind: tuple[str, str]) -> Any:
    text = (FOLDER / _CUSTOM[kind]).read_text("utf-8")
    crd = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    version = kind[0].partition("/")[2]
    (row,) = [row for row in crd["spec"]["versions"] if row["name"] == version]
    schema = _closed(copy.deepcopy(row["schema"]["openAPIV3Schema"]))
    schema["properties"]["metadata"] = _metadata()
    return jsonschema.Draft202012Validator(schema)


def _metadata() -> dict[str, Any]:
    """Return the schema of metadata, which a CRD leaves to the API server."""
    text = {"type": "object", "additionalProperties": {"type": "string"}}
    names = ("name", "namespace", "resourceVersion", "uid", "creationTimestamp")
    return {
        "type": "object",
        "properties": {
            **{name: {"type": "string"} for name in names},
            "labels": text,
            "annotations": text,
            "ownerReferences": {"type": "array"},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


def _closed(schema: Any) -> Any:
    """Refuse unknown fields of every object that lists its own; read Kubernetes' own keywords."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        found.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        found["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return found


def _told(error: Any) -> str:
    return f"{'.'.join(map(str, error.absolute_path))}: {error.message[:300]}"
