"""A case of the differential test: what MaxText is told, and what it once said to that."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration, with the devices it is for.

    Attributes:
        id: "seed:index" of a drawn case, else a name.
        text: the configuration file.
        arguments: the command line behind it.
        devices: devices of the job.
        slices: slices that the hardware shows.
        title: what is peculiar about it.
        check: the check of MaxText that it is about, "file:line" under the package.
        accepted: what MaxText is recorded to say, if it is.
    """

    id: str
    text: str
    arguments: list[str] = field(default_factory=list)
    devices: int = 8
    slices: int = 1
    title: str = ""
    check: str = ""
    accepted: bool | None = None

    def job(self) -> dict[str, Any]:
        """Return the question for the judge."""
        return {
            "id": self.id,
            "text": self.text,
            "arguments": self.arguments,
            "devices": self.devices,
            "slices": self.slices,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return a case from plain data."""
        return cls(**{key: found[key] for key in cls.__dataclass_fields__ if key in found})

    def shown(self) -> str:
        """Return it for a person."""
        words = shlex.join(self.arguments)
        return (
            f"case {self.id}: {self.title}\n"
            f"{self.devices} devices, {self.slices} slices, arguments: {words or 'none'}\n"
            f"{self.text}"
        )
