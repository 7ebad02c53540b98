"""Rules on what a container gets: its variables, its coordinator, its image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from moectl.errors import shown
from moectl.facts.environment import load
from moectl.findings import Severity
from moectl.rules.kubernetes_read import (
    all_containers,
    containers_of,
    env_of,
)
from moectl.rules.rule import Fault, rules
from moectl.rules.versions import is_placeholder
from moectl.settings.sources.containers import REFERENCE, Entry
from moectl.settings.sources.manifest import is_template, steers_between
from moectl.settings.sources.pods import (
    entries,
    gpus,
    jobs,
    known,
    mapping,
    pods,
)
from moectl.workload import MARK, Workload

RULES = rules()
_API: Final = "Kubernetes API reference v1.33"
_JOBSET: Final = "JobSet v0.12.0"
_KINDS: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
}
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9_]*")
_POD_OF_JOBSET: Final = re.compile(r"(?P<job>.+)-(?P<index>\d+)-(?P<pod>\d+)")


@RULES.rule(
    "K8S111",
    "variable used before it is defined",
    reason="Kubernetes replaces $(NAME) by entries that stand earlier in env; a later one leaves "
    "the characters $(NAME) in the value.",
    remedy="move the entry up",
    source=f"{_API}, core/v1 EnvVar.value",
)
def used_before_defined(w: Workload) -> Iterator[Fault]:
    """Find references to entries that come later in the list."""
    for manifest, container, listed in env_of(w):
        # What envFrom defines is there before the list is gone through.
        if container.get("envFrom"):
            continue
        earlier: set[str] = set()
        later = {entry.name: entry.index for entry in listed}
        for entry in listed:
            for found in REFERENCE.finditer(entry.value or ""):
                name = found[1]
                if name and name not in earlier and later.get(name, -1) >= entry.index:
                    again = " itself" if name == entry.name else ""
                    where = manifest.at(*entry.path, "value")
                    line = manifest.at(*entry.path[:-1], later[name]).line
                    defined = f", which is defined in line {line}" if line and not again else ""
                    yield Fault(
                        entry.name,
                        f"{entry.name} uses{again} $({name}) before it is defined{defined}; its "
                        f"value keeps the characters $({name}).",
                        where,
                        f"move the entry {name} above {entry.name}" if not again else "",
                    )
            earlier.add(entry.name)


@RULES.rule(
    "K8S112",
    "variable used that nobody defines",
    reason="Kubernetes leaves $(NAME) as it stands when no entry defines it.",
    remedy="define it above, by value or valueFrom",
    source=f"{_API}, core/v1 EnvVar.value",
    severity="warning",
    stage="silent",
)
def used_and_undefined(w: Workload) -> Iterator[Fault]:
    """Find references to names that are in no entry; a webhook may still add them."""
    for manifest, container, listed in env_of(w):
        if container.get("envFrom") or is_template(manifest):
            continue
        defined = {entry.name for entry in listed}
        for entry in listed:
            for found in REFERENCE.finditer(entry.value or ""):
                if found[1] and found[1] not in defined and _VARIABLE.fullmatch(found[1]):
                    yield Fault(
                        entry.name,
                        f"no entry of this env defines {found[1]}, so {entry.name} keeps the "
                        f"characters {found[0]}, unless the cluster adds it.",
                        manifest.at(*entry.path, "value"),
                    )


@RULES.rule(
    "K8S113",
    "variable that is no text",
    reason="The value of a variable is a string to the API, which refuses a number or boolean.",
    remedy="put the value in quotes",
    source=f"{_API}, core/v1 EnvVar.value",
    stage="reads",
)
def value_is_text(w: Workload) -> Iterator[Fault]:
    """Find e.g. `value: 8`, which YAML makes a number."""
    for manifest, path, container in all_containers(w):
        for index, entry in enumerate(entries(container.get("env"))):
            value = mapping(entry).get("value")
            if type(value) in _KINDS:
                name = str(mapping(entry).get("name", "env"))
                said = str(value).lower() if isinstance(value, bool) else str(value)
                yield Fault(
                    name,
                    f"the value of {name} is {shown(value, 40)}, which is "
                    f"{_KINDS[type(value)]} to YAML, and the API takes text.",
                    manifest.at(*path, "env", index, "value"),
                    f'write value: "{said}"' if not isinstance(value, list | dict) else "",
                )


@RULES.rule(
    "K8S114",
    "variable that is defined twice",
    reason="Of two entries with one name the later one counts, without a word.",
    remedy="keep one",
    source=f"{_API}, core/v1 Container.env: merge key is the name",
    severity="warning",
    stage="silent",
)
def defined_twice(w: Workload) -> Iterator[Fault]:
    """Find names that stand twice in one env with different values."""
    for manifest, _, listed in env_of(w):
        seen: dict[str, Entry] = {}
        for entry in listed:
            before = seen.get(entry.name)
            # An entry that extends the earlier one is a way to append.
            appends = f"$({entry.name})" in (entry.value or "")
            branches = before is not None and steers_between(
                manifest, manifest.at(*before.path), manifest.at(*entry.path)
            )
            differs = before is not None and before.value != entry.value
            if before is not None and differs and not appends and not branches:
                line = manifest.at(*before.path).line
                yield Fault(
                    entry.name,
                    f"{entry.name} is defined in line {line} already; that value is lost.",
                    manifest.at(*entry.path),
                )
            seen[entry.name] = entry


@RULES.rule(
    "K8S115",
    "secret in plain text",
    reason="A manifest is kept in repositories and shown to everybody who may read the object.",
    remedy="take it from a Secret: valueFrom: {secretKeyRef: {name: …, key: …}}",
    source=f"{_API}, core/v1 SecretKeySelector",
    severity="warning",
    stage="advice",
)
def plain_secret(w: Workload) -> Iterator[Fault]:
    """Find tokens and keys whose value stands in the manifest."""
    catalogue = load()
    for manifest, _, listed in env_of(w):
        for entry in listed:
            if catalogue.secret(entry.name) and entry.value and MARK not in entry.value:
                if REFERENCE.search(entry.value) or re.fullmatch(r"<.*>|\$\{.*\}", entry.value):
                    continue
                yield Fault(
                    entry.name,
                    f"the value of {entry.name} stands in the manifest as plain text.",
                    manifest.at(*entry.path, "value"),
                    hides=True,
                )


@RULES.rule(
    "K8S161",
    "coordinator that is no pod of the job",
    reason="Every process waits for the coordinator's name; JobSet names its pods "
    "<jobset>-<replicated job>-<index>-<pod>, under the subdomain of the JobSet.",
    remedy="name pod 0 of the first job",
    source=f"{_JOBSET} CRD spec.network; AI-Hypercomputer/xpk PR 140",
)
def coordinator(w: Workload) -> Iterator[Fault]:
    """Find coordinator names that begin with the JobSet's name and are no pod of it."""
    manifest = w.manifest
    if manifest is None or manifest.data.get("kind") != "JobSet":
        return
    name = known(mapping(manifest.data.get("metadata")).get("name"))
    network = mapping(mapping(manifest.data.get("spec")).get("network"))
    groups = {job.group for job in jobs(manifest)}
    if not name or any(MARK in group for group in groups):
        return
    subdomain = known(network.get("subdomain")) or name
    for variable in ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_IP"):
        text = w.variable(variable)
        if text is None or not text.startswith(f"{name}-") or "$" in text:
            continue
        host, _, domain = text.partition(":")[0].partition(".")
        wanted = f"{name}-{sorted(groups)[0]}-0-0.{subdomain}"
        found = _POD_OF_JOBSET.fullmatch(host)
        wrong = ""
        if found is None or found["job"].removeprefix(f"{name}-") not in groups:
            wrong = (
                f"{host} is no pod of this JobSet: its replicated jobs are "
                f"{', '.join(sorted(groups))}, and a pod is {name}-<job>-<index>-<pod>"
            )
        elif domain.partition(".")[0] != subdomain:
            said = f"under {domain}" if domain else "by its bare name"
            wrong = f"{host} is looked for {said}, and its pods are under {subdomain}"
        elif network.get("enableDNSHostnames") is False:
            wrong = f"enableDNSHostnames is false, so that no pod has a name like {host}"
        if wrong:
            # What another program does with the name is not known.
            severity: Severity = "error" if w.is_maxtext else "warning"
            origin = w.environment[variable].origin
            yield Fault(variable, f"{wrong}.", origin, f"{variable}={wanted}", severity)


@RULES.rule(
    "K8S162",
    "host network without the cluster's names",
    reason="With hostNetwork a pod asks the node's resolver, which does not know the names of "
    "pods, unless its DNS policy says otherwise.",
    remedy="add dnsPolicy: ClusterFirstWithHostNet",
    source=f"{_API}, core/v1 PodSpec.dnsPolicy",
    severity="warning",
)
def host_network(w: Workload) -> Iterator[Fault]:
    """Find hostNetwork beside a coordinator that is named by the cluster's DNS."""
    names_said = [w.variable("JAX_COORDINATOR_ADDRESS"), w.variable("JAX_COORDINATOR_IP")]
    by_name = any(text and re.match(r"[a-z]", text) and "." in text for text in names_said)
    manifest = w.manifest
    if manifest is None or not by_name:
        return
    for pod in pods(manifest):
        if pod.spec.get("hostNetwork") is True and "dnsPolicy" not in pod.spec:
            where = manifest.at(*pod.path, "spec", "hostNetwork")
            yield Fault("dnsPolicy", "hostNetwork is true, and dnsPolicy is not said.", where)


@RULES.rule(
    "K8S172",
    "image without a fixed tag",
    reason="Two starts may run two images, and validate cannot tell which releases it holds.",
    remedy="name a dated tag or a digest",
    source="Kubernetes documentation, container images",
    severity="note",
    stage="advice",
)
def floating_image(w: Workload) -> Iterator[Fault]:
    """Find the tag latest, and no tag at all."""
    for manifest, _, path, container in containers_of(w):
        image = known(container.get("image"))
        if not image or "@" in image or "$" in image or gpus(container) is None:
            continue
        if is_placeholder(image):
            continue
        tag = image.rpartition("/")[2].partition(":")[2]
        if tag in {"", "latest"}:
            said = "the tag latest" if tag else "no tag, which is latest"
            where = manifest.at(*path, "image")
            yield Fault("image", f"{shown(image, 80)} has {said}.", where)
