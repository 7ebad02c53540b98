"""What no schema of Kubernetes tells of an object: names, lengths, quantities, what refers to what.

The API server or a controller would refuse each of these, or wait for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from moectl.facts.yaml_facts import read
from moectl.kubernetes_names import LONGEST

Fault: TypeAlias = tuple[str, str]  # (path in the object, what is wrong)

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_WORD = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|[MGTPE]i?|Ki|[eE][0-9]+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE = re.compile(r"[A-Za-z0-9._-]{1,253}")
_RULE = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_ANNOTATIONS_BYTES = 256 * 1024
_CONFIG_MAP_BYTES = 1024 * 1024
_LONGEST_LABEL, _LONGEST_SUBDOMAIN = 63, 253
# Values of fields, wherever they stand: what the schemas take for any text.
_ENUMS: Mapping[str, frozenset[str]] = {
    "restartPolicy": frozenset({"Never", "OnFailure"}),
    "effect": frozenset({"NoSchedule", "PreferNoSchedule", "NoExecute"}),
    "medium": frozenset({"", "Memory", "HugePages"}),
    "completionMode": frozenset({"Indexed", "NonIndexed"}),
    "operator": frozenset({"All", "Any", "In", "NotIn", "Exists", "Equal"}),
    "action": frozenset(
        {"FailJob", "FailIndex", "Ignore", "Count", "FailJobSet", "RestartJobSet"}
        | {"RestartJobSetAndIgnoreMaxRestarts"}
    ),
}
_SELECTORS = ("labels", "nodeSelector", "matchLabels")


def faults(documents: Sequence[Mapping[str, Any]]) -> list[Fault]:
    """Return everything that is wrong with the objects of a manifest."""
    found: list[Fault] = []
    config_maps = {d["metadata"]["name"] for d in documents if d.get("kind") == "ConfigMap"}
    for document in documents:
        kind = document.get("kind", "object")
        own = [*_of_name(document), *_everywhere("", document)]
        if kind == "ConfigMap":
            own += _config_map(document)
        if kind == "JobSet":
            own += _jobset(document, config_maps)
        found += [(f"{kind} {path}", told) for path, told in own]
    return found


def _of_name(document: Mapping[str, Any]) -> Iterator[Fault]:
    metadata = document.get("metadata", {})
    name = str(metadata.get("name", ""))
    if not _LABEL_1035.fullmatch(name):
        yield "metadata.name", "a name is small letters, digits and dashes, a letter first"
    if len(name) > LONGEST:
        yield (
            "metadata.name",
            f"it has {len(name)} characters, of which {LONGEST} leave room for the pods' names",
        )
    namespace = metadata.get("namespace")
    if namespace is not None and not _fits(namespace, _LABEL, _LONGEST_LABEL):
        yield "metadata.namespace", "a namespace is small letters, digits and dashes"


def _everywhere(path: str, value: Any) -> Iterator[Fault]:
    """Yield faults of what may stand at many places."""
    if isinstance(value, Mapping):
        for key, held in value.items():
            at = f"{path}.{key}" if path else str(key)
            if key in _ENUMS and isinstance(held, str) and held not in _ENUMS[key]:
                yield at, f"it is one of {', '.join(sorted(filter(None, _ENUMS[key])))}"
            if key in _SELECTORS and isinstance(held, Mapping):
                yield from _labels(at, held)
            if key == "annotations" and isinstance(held, Mapping):
                yield from _annotations(at, held)
            if key in {"limits", "requests"} and isinstance(held, Mapping):
                yield from _quantities(at, held)
            if key == "sizeLimit" and not _QUANTITY.fullmatch(str(held)):
                yield at, "a quantity is e.g. 64Gi"
            if key != "data":
                yield from _everywhere(at, held)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, held in enumerate(value):
            yield from _everywhere(f"{path}[{index}]", held)


def _key(key: str) -> str:
    """Return what is wrong with the key of a label, an annotation or a resource; or nothing."""
    prefix, slash, name = key.rpartition("/")
    if not _fits(name, _WORD, _LONGEST_LABEL):
        return "a key's name is up to 63 letters, digits, dots, dashes and underscores"
    if slash and not _fits(prefix, _SUBDOMAIN, _LONGEST_SUBDOMAIN):
        return "a key's prefix is a domain name"
    known = read("kubernetes_launch.yaml")
    owned = any(key.startswith(owner) for owner in known["owned_prefixes"])
    if owned and key not in {value for value in known.values() if isinstance(value, str)}:
        return "no controller knows this key"
    return ""


def _labels(path: str, labels: Mapping[str, Any]) -> Iterator[Fault]:
    for key, value in labels.items():
        if told := _key(key):
            yield f"{path}[{key}]", told
        if value and not _fits(value, _WORD, _LONGEST_LABEL):
            yield (
                f"{path}[{key}]",
                "a label's value is up to 63 letters, digits, dots, dashes and underscores",
            )


def _annotations(path: str, annotations: Mapping[str, Any]) -> Iterator[Fault]:
    for key in annotations:
        if told := _key(key):
            yield f"{path}[{key}]", told
    size = sum(len(f"{key}{value}".encode()) for key, value in annotations.items())
    if size > _ANNOTATIONS_BYTES:
        yield path, f"annotations have {size} bytes together, and {_ANNOTATIONS_BYTES} are legal"


def _quantities(path: str, held: Mapping[str, Any]) -> Iterator[Fault]:
    for name, quantity in held.items():
        if told := _key(name):
            yield f"{path}[{name}]", told
        if not _QUANTITY.fullmatch(str(quantity)):
            yield f"{path}[{name}]", "a quantity is a number with a unit, e.g. 8 or 750Gi"


def _config_map(document: Mapping[str, Any]) -> Iterator[Fault]:
    data = document.get("data", {})
    for name in data:
        if not _FILE.fullmatch(name):
            yield f"data[{name}]", "a file's name is letters, digits, dots, dashes, underscores"
    size = sum(len(f"{name}{text}".encode()) for name, text in data.items())
    if size > _CONFIG_MAP_BYTES:
        yield "data", f"it has {size} bytes, and a ConfigMap holds {_CONFIG_MAP_BYTES}"


def _jobset(document: Mapping[str, Any], config_maps: set[str]) -> Iterator[Fault]:
    name = document.get("metadata", {}).get("name", "")
    spec = document.get("spec", {})
    for index, rule in enumerate(spec.get("failurePolicy", {}).get("rules", ())):
        if not _RULE.fullmatch(str(rule.get("name", ""))):
            yield f"spec.failurePolicy.rules[{index}].name", "letters, digits and underscores"
    for index, replicated in enumerate(spec.get("replicatedJobs", ())):
        path = f"spec.replicatedJobs[{index}]"
        job = replicated.get("template", {}).get("spec", {})
        last = max(int(job.get("completions", 1)) - 1, 0)
        longest = (
            f"{name}-{replicated.get('name')}-{replicated.get('replicas', 1) - 1}-{last}-xxxxx"
        )
        if not _fits(longest, _LABEL_1035, _LONGEST_LABEL):
            yield f"{path}.name", f"pods would be called {longest}, longer than 63 or no DNS label"
        if job.get("parallelism") != job.get("completions"):
            yield f"{path}.template.spec.completions", "all pods run at once: parallelism as well"
        pod = job.get("template", {}).get("spec", {})
        names = {container.get("name") for container in pod.get("containers", ())}
        for number, rule in enumerate(job.get("podFailurePolicy", {}).get("rules", ())):
            container = rule.get("onExitCodes", {}).get("containerName")
            if container is not None and container not in names:
                yield (
                    f"{path}.template.spec.podFailurePolicy.rules[{number}]",
                    f"there is no container {container}",
                )
        template = job.get("template", {})
        held = template.get("metadata", {}).get("annotations", {})
        yield from _topology(f"{path}.template.spec.template.metadata", held, last + 1)
        yield from _pod(f"{path}.template.spec.template.spec", pod, config_maps)


def _topology(path: str, annotations: Mapping[str, Any], pods: int) -> Iterator[Fault]:
    """Yield what Kueue's webhook refuses of the annotations that ask for a topology."""
    known = read("kubernetes_launch.yaml")
    asked = [annotations.get(known[name]) for name in ("required_topology", "preferred_topology")]
    if all(asked):
        yield f"{path}.annotations", "Kueue takes one of a required and a preferred topology"
    slices = annotations.get(known["slice_topology"])
    for label in filter(None, (*asked, slices)):
        if told := _key(str(label)):
            yield f"{path}.annotations", f"a topology is a node label, and of {label!r} {told}"
    size = annotations.get(known["slice_size"])
    if (size is None) != (slices is None):
        yield f"{path}.annotations", "a topology of slices has a size, and a size a topology"
    elif size is not None and not (
        str(size).isdecimal() and 0 < int(size) <= pods and pods % int(size) == 0
    ):
        yield f"{path}.annotations", f"{pods} pods make no whole slices of {size}"


def _pod(path: str, pod: Mapping[str, Any], config_maps: set[str]) -> Iterator[Fault]:
    volumes = [volume.get("name", "") for volume in pod.get("volumes", ())]
    for index, volume in enumerate(pod.get("volumes", ())):
        at = f"{path}.volumes[{index}]"
        if (
            not _fits(volume.get("name"), _LABEL, _LONGEST_LABEL)
            or volumes.count(volume.get("name")) > 1
        ):
            yield f"{at}.name", "a volume's name is a DNS label, said once"
        if len(volume) != 2:
            yield at, "a volume has a name and one source"
        config_map = volume.get("configMap", {}).get("name")
        if config_map is not None and config_map not in config_maps:
            yield f"{at}.configMap.name", f"there is no ConfigMap {config_map}"
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim is not None and not _fits(claim, _SUBDOMAIN, _LONGEST_SUBDOMAIN):
            yield f"{at}.persistentVolumeClaim.claimName", "a claim's name is a domain name"
    for key in ("serviceAccountName", "priorityClassName"):
        if key in pod and not _fits(pod[key], _SUBDOMAIN, _LONGEST_SUBDOMAIN):
            yield f"{path}.{key}", "the name of an object is a domain name"
    for index, row in enumerate(pod.get("imagePullSecrets", ())):
        if not _fits(row.get("name"), _SUBDOMAIN, _LONGEST_SUBDOMAIN):
            yield f"{path}.imagePullSecrets[{index}].name", "a Secret's name is a domain name"
    for index, row in enumerate(pod.get("tolerations", ())):
        if told := _key(row.get("key", "")):
            yield f"{path}.tolerations[{index}].key", told
        if (row.get("operator") == "Exists") == ("value" in row):
            yield f"{path}.tolerations[{index}]", "Equal has a value, and Exists none"
    claims = {row.get("name") for row in pod.get("resourceClaims", ())}
    for group in ("initContainers", "containers"):
        for index, container in enumerate(pod.get(group, ())):
            at = f"{path}.{group}[{index}]"
            yield from _container(at, container, set(volumes), claims)


def _container(
    path: str, container: Mapping[str, Any], volumes: set[str], claims: set[Any]
) -> Iterator[Fault]:
    if not _fits(container.get("name"), _LABEL, _LONGEST_LABEL):
        yield f"{path}.name", "a container's name is a DNS label"
    image = str(container.get("image", ""))
    if not image or not image.isprintable() or " " in image:
        yield f"{path}.image", "an image is registry/path:tag"
    names = [row.get("name") for row in container.get("env", ())]
    for index, row in enumerate(container.get("env", ())):
        name = row.get("name")
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name) or names.count(name) > 1:
            yield f"{path}.env[{index}].name", "a variable's name is letters and digits, said once"
        reference = row.get("valueFrom", {}).get("secretKeyRef")
        if reference is not None and not (
            _fits(reference.get("name"), _SUBDOMAIN, _LONGEST_SUBDOMAIN)
            and _FILE.fullmatch(str(reference.get("key", "")))
        ):
            yield f"{path}.env[{index}].valueFrom", "a Secret's name, and a key of it"
    targets = [mount.get("mountPath") for mount in container.get("volumeMounts", ())]
    for index, mount in enumerate(container.get("volumeMounts", ())):
        at, target = f"{path}.volumeMounts[{index}]", str(mount.get("mountPath", ""))
        if mount.get("name") not in volumes:
            yield f"{at}.name", f"there is no volume {mount.get('name')}"
        if not target.startswith("/") or ":" in target or targets.count(target) > 1:
            yield f"{at}.mountPath", "an absolute path without colon, said once"
    for row in container.get("resources", {}).get("claims", ()):
        if row.get("name") not in claims:
            yield f"{path}.resources.claims", f"the pod has no claim {row.get('name')}"


def _fits(text: Any, pattern: re.Pattern[str], longest: int) -> bool:
    return isinstance(text, str) and len(text) <= longest and bool(pattern.fullmatch(text))
