"""What a reader of somebody's file hands on: the parts it starts, and what was found on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from moectl.errors import shown
from moectl.findings import Finding, Severity
from moectl.values import Origin, Value
from moectl.workload import Batch, Layout, Manifest, Step, Text

if TYPE_CHECKING:
    from moectl.settings.shell import Doubts

Open: TypeAlias = Callable[[str], str | None]
"""Gives the text of a file by its path, None when it cannot be had."""

MAX_PARTS = 1_000
"""Commands or containers that are read of one file; a finding says where reading ended."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing a file starts.

    Attributes:
        kind: the kind of workload, see `moectl.workload.Workload`.
        origin: where it begins.
        config: what its YAML says, `base_config` chain included.
        arguments: what its MaxText command line says, and M_* variables.
        is_maxtext: whether MaxText is started.
        environment: variables of the processes, without XLA_FLAGS.
        flags: XLA_FLAGS; None when nobody sets it.
        batch: the script it stands in.
        step: the command of that script.
        manifest: the Kubernetes document it stands in.
        image: the container image as said.
        layout: nodes, processes, GPUs as far as said.
        unread: config files that it names and that could not be read: a key that nobody said
            may be said there.
        alone: whether the batch script starts it itself, on its own node, by no launcher.
    """

    kind: str
    origin: Origin
    config: Mapping[str, Value] = field(default_factory=dict)
    arguments: Mapping[str, Value] = field(default_factory=dict)
    is_maxtext: bool = False
    environment: Mapping[str, Text] = field(default_factory=dict)
    flags: Text | None = None
    batch: Batch | None = None
    step: Step | None = None
    manifest: Manifest | None = None
    image: Text | None = None
    layout: Layout = field(default_factory=Layout)
    unread: tuple[str, ...] = ()
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """One file as read.

    Attributes:
        name: its name.
        kind: what it is, see `moectl.settings.sources.detect`.
        parts: what it starts, in order.
        findings: what is wrong with the file itself.
        told: sentences about how it was read.
        doubts: of a script, what this reading takes for granted, and what else is worth reading.
    """

    name: str
    kind: str
    parts: tuple[Part, ...] = ()
    findings: tuple[Finding, ...] = ()
    told: tuple[str, ...] = ()
    doubts: Doubts | None = None


def finding(
    code: str,
    severity: Severity,
    subject: str,
    message: str,
    hint: str,
    origin: Origin,
    fix: tuple[str, str] | None = None,
) -> Finding:
    """Return a finding at an origin."""
    return Finding(
        code=code,
        severity=severity,
        field=subject,
        message=message,
        hint=hint,
        file=origin.file or origin.layer,
        line=origin.line,
        column=origin.column,
        fix=fix,
    )


def unjudged(subject: str, what: str, origin: Origin) -> Finding:
    """Return the warning that a file is not judged from a place on.

    Args:
        subject: what the file is.
        what: the things of which there are too many, in words.
        origin: where the first one stands that is not read.
    """
    return finding(
        "SRC105",
        "warning",
        subject,
        f"not judged from here on: the file has more than {MAX_PARTS} {what}.",
        "split the file",
        origin,
    )


def split_flags(
    environment: Mapping[str, Text],
) -> tuple[dict[str, Text], Text | None]:
    """Return the environment without XLA_FLAGS, and XLA_FLAGS."""
    rest = dict(environment)
    return rest, rest.pop("XLA_FLAGS", None)


def names(words: Sequence[str], limit: int = 6) -> str:
    """Return words quoted and joined by commas, the rest of a long list counted."""
    said = ", ".join(shown(word) for word in words[:limit])
    return said if len(words) <= limit else f"{said} and {len(words) - limit} more"
