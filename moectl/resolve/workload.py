"""Makes a workload of what a file says and of what was given beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moectl.facts import hardware as platforms
from moectl.facts import images
from moectl.given import Given
from moectl.job import Hardware, Image, Origin, Value
from moectl.workload import UNKNOWN, Layout, Workload

if TYPE_CHECKING:
    from moectl.facts.maxtext import Catalogue
    from moectl.facts.probed import Probed
    from moectl.settings.sources import Part


@dataclass(frozen=True, slots=True)
class Basis:
    """What all files of one call are judged with.

    Attributes:
        given: what was given beside them.
        hardware: the platform given, or None.
        probed: what a probe told of the image, or None.
    """

    given: Given
    hardware: Hardware | None = None
    probed: Probed | None = None


def basis(given: Given, probe: str | None = None) -> Basis:
    """Return what files are judged with.

    Args:
        given: what was given beside them.
        probe: the text of the file that `given.probe` names.

    Raises:
        UsageError: a platform, release or probe that does not exist.
    """
    from moectl.facts import maxtext, xla  # noqa: PLC0415

    if given.maxtext is not None:
        maxtext.load(given.maxtext)
    if given.jaxlib is not None:
        xla.load(given.jaxlib)
    hardware = None
    if given.hardware is not None:
        hardware = platforms.platform(given.hardware, where="--hardware")
    probed = None
    if probe is not None:
        from moectl.facts.probed import read_probe  # noqa: PLC0415

        probed = read_probe(probe, given.probe or "")
    return Basis(given, hardware, probed)
