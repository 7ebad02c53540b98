"""A figure that can be traced: its value, the formula, and the lines it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a report.

    Attributes:
        name: as in the JSON form.
        title: what it is.
        value: the number, None where it cannot be told.
        unit: "" for a plain number.
        formula: how it was made.
        places: where the numbers it was made from stand, as file:line or ranges of them.
        why: why there is none; "" where there is one.
        digits: digits behind the point that are shown.
    """

    name: str
    title: str
    value: float | None
    unit: str = ""
    formula: str = ""
    places: tuple[str, ...] = ()
    why: str = ""
    digits: int = 3

    @property
    def text(self) -> str:
        """Return the number as it is shown, without its unit."""
        return shown(self.value, self.digits)

    @property
    def trace(self) -> str:
        """Return formula and places in a sentence or two."""
        if self.value is None:
            return self.why
        return f"{self.formula}; from {', '.join(self.places)}" if self.places else self.formula

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form; numbers that JSON has not are told as text."""
        return {
            "name": self.name,
            "title": self.title,
            "value": plain(self.value),
            "unit": self.unit,
            "formula": self.formula,
            "places": list(self.places),
            "why": self.why,
        }


def shown(value: float | None, digits: int = 3) -> str:
    """Return a number as people read it: thousands parted, small ones with what says something."""
    if value is None:
        return "-"
    if value != value or abs(value) == float("inf"):  # noqa: PLR0124 - nan
        return str(value)
    if value and abs(value) < 10.0**-digits:
        return f"{value:.3g}"
    return f"{value:,.{digits}f}"


def plain(value: float | None) -> float | str | None:
    """Return a number as JSON may hold it: nan and inf are text there."""
    if value is not None and (value != value or abs(value) == float("inf")):  # noqa: PLR0124
        return str(value)
    return value
