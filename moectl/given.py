"""What a person says beside the files that are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Given:
    """What fills the gaps of files that are checked; what a file says itself is stronger.

    Attributes:
        gpus: GPUs in all.
        gpus_per_node: GPUs a node.
        hardware: platform.
        image: container image.
        maxtext: MaxText release to judge against, whatever the image.
        jaxlib: jaxlib release to judge against, whatever the image.
        probe: path of a file that `moectl probe` made; it says what the image holds.
        xla_flags: texts of XLA_FLAGS to judge by themselves.
        select: codes or families to report; empty means all.
        ignore: codes or families to leave out.
    """

    gpus: int | None = None
    gpus_per_node: int | None = None
    hardware: str | None = None
    image: str | None = None
    maxtext: str | None = None
    jaxlib: str | None = None
    probe: str | None = None
    xla_flags: Sequence[str] = ()
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
