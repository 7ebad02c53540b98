"""Reads the options that render and show share."""

from __future__ import annotations

import os
from typing import Any

from moectl.actions.plan import Wishes
from moectl.cli.numbers import whole
from moectl.errors import ValueUsageError
from moectl.settings.options import encodable
from moectl.settings.profiles import find

_PATHS = {
    "hardware": "hardware",
    "form": "form",
    "name": "name",
    "image": "container.image",
    "launcher": "launcher",
    "cache": "compilation_cache",
    "context": "cluster.kubernetes.context",
    "namespace": "cluster.kubernetes.namespace",
    "profile": "profile.profiler",
}
_COUNTS = {
    "gpus": ("gpus", "a whole number of GPUs, e.g. 128"),
    "global_batch": ("batch.global", "a whole number of sequences, e.g. 768"),
    "profile_steps": ("profile.steps", "a whole number of steps, e.g. 5"),
    "profile_skip": ("profile.skip_steps", "a whole number of steps, e.g. 10"),
}
_SWITCHES = {
    "debug": "debug",
    "preflight": "cluster.preflight",
    "preflight_retry": "cluster.preflight_retry",
}
# What is legal depends on the platform, which says it.
_CHECKED_LATER = frozenset({"--gpus"})
# Of these 0 is legal as well.
_FROM_0 = frozenset({"--profile-ranks", "--profile-skip"})


def wishes(values: dict[str, Any]) -> Wishes:
    """Return what was asked for.

    Args:
        values: the command's options by name.

    Raises:
        ValueUsageError: a count that is no whole number.
    """
    options: dict[str, tuple[Any, str]] = {}
    for name, (path, legal) in _COUNTS.items():
        if values.get(name) is not None:  # a climb has neither --gpus nor --name
            flag = f"--{name.replace('_', '-')}"
            options[path] = (_count(flag, values[name], legal), flag)
    for name, path in _PATHS.items():
        if values.get(name) is not None:
            if not encodable(values[name]):
                raise ValueUsageError(f"--{name}", values[name], "UTF-8 text")
            options[path] = (values[name], f"--{name}")
    if values["profile_ranks"] is not None:
        options["profile.ranks"] = (_ranks(values["profile_ranks"]), "--profile-ranks")
    for name, path in _SWITCHES.items():
        if values[name]:
            options[path] = (True, f"--{name.replace('_', '-')}")
    cluster = values["cluster"]
    if cluster == "":
        raise ValueUsageError("--cluster", cluster, "the path or the name of a cluster profile")
    return Wishes(
        options=options,
        sets=tuple(values["set"]),
        cluster=find(cluster, os.environ) if cluster is not None else None,
        usual_cluster=find(None, os.environ) if cluster is None else None,
        allow=tuple(values["allow"]),
    )


def _ranks(text: str) -> list[int]:
    legal = "numbers of processes with commas between, e.g. 0,8"
    return [_count("--profile-ranks", part.strip(), legal) for part in text.split(",")]


def _count(flag: str, text: str, legal: str) -> int:
    if flag in _CHECKED_LATER and text.startswith("-"):
        return -whole(flag, text[1:], legal, least=0)
    least = 0 if flag in _FROM_0 | _CHECKED_LATER else 1
    return whole(flag, text, legal, least=least)
