"""What is known of XLA flags besides the catalogues: names that went away, sane numbers, passes.

Parsers say yes or no; these tables say what to do about it. They are read when a fault asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from moectl.resources import fact

_NEAR = 0.75  # likeness of a name worth naming; flags share long prefixes


@dataclass(frozen=True, slots=True)
class Gone:
    """A flag that went away, or a family of flags of another machine.

    Attributes:
        name: the flag; a family ends in *.
        last: the last release whose parser was seen to know it; empty when none was.
        advice: what to do.
        source: where that is known from.
    """

    name: str
    last: str
    advice: str
    source: str


@dataclass(frozen=True, slots=True)
class SaneRange:
    """Numbers of a flag that can be meant, both ends included.

    Attributes:
        low, high: the ends.
        meaning: what the number is.
        source: where that is known from.
    """

    low: int
    high: int
    meaning: str
    source: str


def gone(name: str) -> Gone | None:
    """Return what is known of a flag that went away, or None."""
    found = _gone()
    exact = found.get(name)
    if exact is not None:
        return exact
    families = (row for key, row in found.items() if key.endswith("*"))
    return next((row for row in families if name.startswith(row.name[:-1])), None)


def sane_range(name: str) -> SaneRange | None:
    """Return the numbers of a flag that can be meant, or None when nobody said."""
    return _ranges().get(name)


def meant_pass(name: str) -> str | None:
    """Return the HLO pass that a name which is none was probably meant to be, or None."""
    known = _passes()
    if name in known or not name:
        return None
    folded = {item.replace("_", "-"): item for item in known}
    if found := folded.get(name.replace("_", "-").lower()):
        return found
    import difflib  # noqa: PLC0415 - only a fault pays for it

    close = difflib.get_close_matches(name[:100].lower(), known, n=1, cutoff=0.8)
    return close[0] if close else None


def likely(name: str, legal: Mapping[str, object] | tuple[str, ...]) -> str | None:
    """Return the one legal name that a misspelt one certainly stands for, or None.

    Certain is only another spelling of the same letters: case, dashes for underscores.
    """
    plain = name.lower().replace("-", "_")
    return plain if plain in legal and plain != name else None


def suggestions(name: str, legal: tuple[str, ...]) -> list[str]:
    """Return up to three legal names near a flag's name, best first."""
    import difflib  # noqa: PLC0415 - only a fault pays for it

    plain = name[:200].lower().replace("-", "_")
    close = difflib.get_close_matches(plain, legal, n=3, cutoff=_NEAR)
    return close or ([n for n in legal if n.endswith(f"_{plain}")][:3] if plain else [])


@cache
def _gone() -> dict[str, Gone]:
    return {row[0]: Gone(row[0], row[1], row[2], row[3]) for row in _rows("gone.tsv")}


@cache
def _ranges() -> dict[str, SaneRange]:
    rows = _rows("ranges.tsv")
    return {row[0]: SaneRange(int(row[1]), int(row[2]), row[3], row[4]) for row in rows}


@cache
def _passes() -> tuple[str, ...]:
    return tuple(row[0] for row in _rows("passes.tsv"))


def _rows(name: str) -> list[list[str]]:
    """Return the rows of a table: a comment line, a line of column names, one row a line."""
    lines = fact("xla", name).read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines[2:]]
