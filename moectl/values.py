"""What everything is said in: values with their origins, the platform, the image.

They stand apart from the job because what reads foreign files needs these and no job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Scalar: TypeAlias = str | int | float | bool | None
Plain: TypeAlias = Any  # what YAML can say: scalars, lists, mappings


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was said.

    Attributes:
        layer: the layer of force, e.g. "preset deepseek3-671b", "run file", "--set",
            "MaxText 0.2.5 base.yml", "scaling", "switch pgle".
        file: the file that said it, when it was a file of the person.
        line: line in it, from 1.
        column: column in it, from 1.
    """

    layer: str
    file: str = ""
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return self.layer


@dataclass(frozen=True, slots=True)
class Value:
    """A resolved value, its origin, and the weaker values it overrode (strongest first)."""

    value: Plain
    origin: Origin
    overrode: tuple[tuple[Plain, Origin], ...] = ()


@dataclass(frozen=True, slots=True)
class Hardware:
    """One GPU platform of the catalogue (`moectl/facts/data/hardware.yaml`).

    Figures that are not published are None, never guessed.
    """

    name: str
    title: str
    architecture: str
    compute_capability: str | None
    gpus_per_node: int
    domain_gpus: int
    usable_domain_gpus: int
    cpu_cores_per_node: int | None
    cpu_architecture: str | None
    gres_type: str
    figures: Mapping[str, Plain] = field(default_factory=dict)

    @property
    def nodes_per_domain(self) -> int:
        """Return the usable nodes of one NVLink domain, at least 1."""
        return max(1, self.usable_domain_gpus // self.gpus_per_node)


@dataclass(frozen=True, slots=True)
class Image:
    """The container image and what is known of its contents.

    Attributes:
        reference: "registry/path:tag" as Docker writes it, or a path to a .sqsh file.
        digest: "sha256:..." when pinned.
        date: date in the tag, or None.
        maxtext: MaxText release whose catalogue is used in place of the image's own.
        jaxlib: jaxlib release whose flag catalogue is used.
        probed: whether those two were read from the image itself; otherwise they are the
            nearest releases and are named so.
        baked_flags: XLA flags the image itself sets, in order.
    """

    reference: str
    digest: str
    date: str | None
    maxtext: str
    jaxlib: str
    probed: bool
    baked_flags: Mapping[str, Plain]
