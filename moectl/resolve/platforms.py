"""Tells the GPU platform from what a file asks its scheduler for.

A script names it in the type of its GPUs (`--gres=gpu:b200:8`) or in `--constraint`, a
Kubernetes manifest in its node selector. A partition's name is only a hint: sites call them as
they like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from moectl.facts.hardware import names, platform
from moectl.facts.yaml_facts import read
from moectl.values import Hardware
from moectl.workload import Batch, Manifest, Option, Step, last

_GPUS = ("--gpus-per-node", "--gres", "--gpus", "--gpus-per-task", "--gpus-per-socket")
_MORE_GPUS = ("--tres-per-task",)
_CONSTRAINT = "--constraint"
_PARTITION = "--partition"
_LAUNCHER = "srun"

_MACHINES = "kubernetes.yaml"  # fact file that lists machine types

# Patterns, compiled where a file names a type: most name none.
_WORD = "[a-z0-9]+"
# Another product of the same name (PCIe cards, NVL pairs), or a part of a GPU (MIG).
_OTHER_PRODUCT = r"pcie|nvl|mig|\d+g|\d+c"
_MEMORY = r"(\d+)gb"
# How far the memory in a product's name may be from the catalogue's: it is nominal there and
# gross or net elsewhere (180 or 192 for B200).
_NEAR = 0.1
_ALTERNATIVES = frozenset("|,[]")


def platform_asked(
    batch: Batch | None, step: Step | None, manifest: Manifest | None
) -> Hardware | None:
    """Return the platform that a file certainly asks for; None when it names none, or several.

    Args:
        batch: the script, its directives.
        step: the command of that script; options of srun count before the directives.
        manifest: the Kubernetes document.
    """
    if manifest is not None:
        return _one(_of_pods(manifest))
    own = step.options if step is not None and step.program == _LAUNCHER else ()
    directives = batch.directives if batch is not None else ()
    for options in (own, directives):
        if found := _one(filter(None, (_of_type(option) for option in _requests(options)))):
            return found
    for options in (own, directives):
        option = last(options, (_CONSTRAINT,))
        text = _text(option)
        if text is not None:
            return None if _ALTERNATIVES & set(text) else platform_named(text)
    return None


def platform_hinted(batch: Batch | None) -> tuple[Hardware, Option] | None:
    """Return the platform that the name of the partition suggests, and the option; or None."""
    option = batch.directive(_PARTITION) if batch is not None else None
    text = _text(option)
    if option is None or text is None or "," in text:
        return None
    found = platform_named(text)
    return (found, option) if found is not None else None


def platform_named(text: str) -> Hardware | None:
    """Return the platform that a type, feature or label names, or None.

    A name of another product with the same chip, or of a part of a GPU, names none.

    Args:
        text: e.g. "b200", "nvidia_h100_80gb_hbm3", "a3-megagpu-8g", "NVIDIA-GB200".
    """
    folded = text.casefold()
    words = re.findall(_WORD, folded)
    found = {name for word in words if (name := _by_word().get(word)) is not None}
    if not found:
        return _of_machine(folded)
    if len(found) != 1 or any(re.fullmatch(_OTHER_PRODUCT, word) for word in words):
        return None
    one = platform(found.pop())
    for word in words:
        size = re.fullmatch(_MEMORY, word)
        nominal = one.figures.get("hbm_nominal_gb")
        if size and nominal and abs(int(size[1][:6]) - nominal) > _NEAR * nominal:
            return None
    return one


def _of_machine(text: str) -> Hardware | None:
    """Return the platform of a machine type of a cloud, e.g. "a3-megagpu-8g"."""
    for machine, name in read(_MACHINES)["machines"].items():
        if text.startswith(machine) and not text[len(machine) : len(machine) + 1].isalnum():
            return platform(str(name))
    return None


@cache
def _by_word() -> dict[str, str]:
    """Return platform names by the single words that name them; two letters say nothing."""
    found: dict[str, str] = {}
    for name in names():
        for word in (
            platform(name).gres_type,
            *read("hardware.yaml")["platforms"][name]["aliases"],
        ):
            if re.fullmatch(_WORD, word) and len(word) > 2:
                found[word] = name
    return found


def _one(found: Iterable[Hardware | None]) -> Hardware | None:
    """Return the only platform of several mentions; None when they differ or there is none."""
    by_name = {one.name: one for one in found if one is not None}
    return next(iter(by_name.values())) if len(by_name) == 1 else None


def _text(option: Option | None) -> str | None:
    value = option.value if option is not None else None
    return value.text if value is not None and value.known else None


def _requests(options: Iterable[Option]) -> Iterator[Option]:
    kept = tuple(options)
    for name in (*_GPUS, *_MORE_GPUS):
        if option := last(kept, (name,)):
            yield option


def _of_type(option: Option) -> Hardware | None:
    """Return the platform that the types of a GPU request name."""
    text = _text(option)
    if text is None:
        return None
    named = option.name in {"--gres", *_MORE_GPUS}
    found: list[Hardware | None] = []
    for entry in text.split(","):
        parts = entry.removeprefix("gres:").removeprefix("gres/").replace("=", ":").split(":")
        if named and parts.pop(0) != "gpu":
            continue
        if parts and not parts[0].isdigit():
            found.append(platform_named(parts[0]))
    return _one(found) if None not in found else None


def _of_pods(manifest: Manifest) -> Iterator[Hardware | None]:
    """Yield the platform of each pod with GPUs, as its node selector or affinity names it."""
    from moectl.settings.sources.pods import gpus, pods  # noqa: PLC0415 - only manifests pay

    for pod in pods(manifest):
        if all(gpus(container) in {None, 0} for _, container in pod.containers):
            continue
        found = _one(filter(None, map(platform_named, _labels(pod.spec))))
        if found is not None:
            yield found


def _labels(spec: Any) -> Iterator[str]:
    """Yield the values that nodes of a pod must have as labels."""
    from moectl.settings.sources.pods import entries, known, mapping  # noqa: PLC0415

    for value in mapping(spec.get("nodeSelector")).values():
        if (text := known(value)) is not None:
            yield text
    node = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution"))
    terms = entries(required.get("nodeSelectorTerms"))
    for wanted in entries(mapping(terms[0]).get("matchExpressions")) if len(terms) == 1 else ():
        values = entries(mapping(wanted).get("values"))
        text = known(values[0]) if len(values) == 1 else None
        if mapping(wanted).get("operator") == "In" and text is not None:
            yield text
