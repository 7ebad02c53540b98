"""What every model of the spec shares: unknown keys refused, and the mark of a MaxText key."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


class SpecModel(BaseModel):
    """A section of a run file: unknown keys are refused, nothing is coerced silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=False)


@dataclass(frozen=True)
class MaxTextKey:
    """Marks the one field that owns a MaxText key."""

    name: str
