"""A value of a YAML file with the looks of its scalar, which some rules are about."""

from __future__ import annotations

from dataclasses import dataclass

from moectl.values import Origin, Value


@dataclass(frozen=True, slots=True)
class Written(Value):
    """A value of a YAML file, with what its scalar looks like there.

    Attributes:
        raw: its characters without quotes; empty when it is no scalar.
        style: "" for a plain scalar, else its quote or block indicator.
        spot: where the value itself begins (`origin` is the place of its key).
    """

    raw: str = ""
    style: str = ""
    spot: Origin | None = None
