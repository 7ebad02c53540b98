"""Writes config.yml and the arguments MaxText is given beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moectl.job import Job
from moectl.settings.emit import flow
from moectl.values import Value


def config_yml(job: Job) -> str:
    """Return config.yml: one key a line, with where its value came from."""
    lines = [
        f"# MaxText configuration of {job.name}: {job.gpus} GPUs, {job.hardware.name}.",
        f"# Written for the keys of MaxText {job.container.image.maxtext}"
        + ("." if job.container.image.probed else ", the release nearest to the image."),
    ]
    if job.arguments:
        lines += [
            "# These keys go on the command line, because the model file would win over this",
            f"# file in silence: {', '.join(job.arguments)}.",
        ]
    origin = ""
    for key, value in job.config.items():
        if str(value.origin) != origin:
            origin = str(value.origin)
            lines += ["", f"# {comment(origin)}"]
        lines.append(f"{key}: {flow(value.value)}")
    return "\n".join(lines) + "\n"


def arguments(job: Job) -> list[str]:
    """Return MaxText's command-line arguments, `key=value` each, as OmegaConf reads them."""
    return [f"{key}={_bare(value.value)}" for key, value in job.arguments.items()]


def plain(values: Mapping[str, Value]) -> dict[str, Any]:
    """Return a mapping of values without their origins."""
    return {key: value.value for key, value in values.items()}


def comment(text: str) -> str:
    """Return `text` fit for a comment: one line, nothing that could end it."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _bare(value: Any) -> str:
    """Return a value for the command line; plain words need no quotes there."""
    if isinstance(value, str) and value and value.isascii() and value[0].isalpha():
        words = value.replace("_", "").replace("-", "").replace(".", "").replace("/", "")
        reserved = {"true", "false", "yes", "no", "on", "off", "null", "none", "y", "n"}
        if words.isalnum() and value.casefold() not in reserved:
            return value
    return flow(value)
