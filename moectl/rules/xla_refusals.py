"""Which flags of a text the parsers of the releases that may be meant refuse, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from moectl.facts import xla
from moectl.facts.xla_lore import gone
from moectl.findings import Severity
from moectl.rules.xla_reading import Judges, Reading, judges, reading
from moectl.workload import MARK, Workload
from moectl.xla_text import FlagToken

if TYPE_CHECKING:
    from moectl.facts.xla import XlaCatalogue


@dataclass(frozen=True, slots=True)
class Refusal:
    """One flag of the text that a release refuses.

    Attributes:
        token: the flag.
        kind: "unknown", "gone", "newer", "bare", "unit", "kinds", "mixed" or "value".
        clause: what is wrong, as the catalogue says it.
        severity: warning when another release that may be meant takes it.
        release: the release that refuses it.
        doubt: why the severity is a warning.
        catalogue: that of `release`.
    """

    token: FlagToken
    kind: str
    clause: str
    severity: Severity
    doubt: str
    catalogue: XlaCatalogue

    @property
    def release(self) -> str:
        """The release that refuses it."""
        return self.catalogue.release


def refusals(w: Workload, *kinds: str) -> Iterator[tuple[Reading, Refusal]]:
    """Yield the flags of a workload that are refused for one of these kinds of reason."""
    read = reading(w)
    if read is None:
        return
    for refusal in _all_refusals(read, judges(w)):
        if refusal.kind in kinds:
            yield read, refusal


@lru_cache(maxsize=64)
def _cached(tokens: tuple[FlagToken, ...], releases: tuple[str, ...]) -> tuple[Refusal, ...]:
    catalogues = [xla.load(release) for release in releases]
    found = (_refusal(token, catalogues) for token in tokens)
    return tuple(refusal for refusal in found if refusal is not None)


def _all_refusals(read: Reading, chosen: Judges) -> tuple[Refusal, ...]:
    handled = {fault.offset for fault in read.parsed.faults if fault.fatal}
    swallowing = {f.offset for f in read.parsed.faults if f.kind == "swallowed"}
    quotes = [f.offset for f in read.parsed.faults if f.kind == "quote"]
    tokens = tuple(
        token
        for token in read.kept
        if token.offset not in handled
        and token.offset not in swallowing
        and not any(token.offset < place < token.offset + len(token.source) for place in quotes)
    )
    # A flag that swallows others is judged by its name here, and by its value elsewhere.
    named = tuple(
        FlagToken(token.name, MARK, token.offset, f"{token.source}{MARK}")
        for token in read.kept
        if token not in tokens and token.offset not in handled
    )
    found = _cached((*tokens, *named), tuple(c.release for c in chosen.catalogues))
    if not chosen.doubtful:
        return found
    return tuple(replace(one, severity="warning", doubt=chosen.why) for one in found)


def _refusal(token: FlagToken, catalogues: list[XlaCatalogue]) -> Refusal | None:
    judged = [(catalogue, parser_fault(catalogue, token)) for catalogue in catalogues]
    refused = [(catalogue, clause) for catalogue, clause in judged if clause is not None]
    if not refused:
        return None
    catalogue, clause = refused[0]
    severity: Severity = "error" if len(refused) == len(judged) else "warning"
    takes = next((c.release for c, said in judged if said is None), "")
    doubt = f"jaxlib {takes} takes it" if takes else ""
    kind = _kind(token, catalogue, takes)
    return Refusal(token, kind, clause, severity, doubt, catalogue)


def parser_fault(catalogue: XlaCatalogue, token: FlagToken) -> str | None:
    """Return why a release refuses a flag; the name alone counts where the value is open."""
    name = token.name.partition(MARK)[0]
    if name != token.name:
        return None
    flag = catalogue.flag(name)
    if flag is None:
        return f"is unknown to jaxlib {catalogue.release}"
    if MARK in token.source:
        return None
    if token.value is None:
        return None if flag.parser_type == "bool" else "needs a value"
    return flag.fault(token.value, catalogue.release)


def _kind(token: FlagToken, catalogue: XlaCatalogue, takes: str) -> str:
    flag = catalogue.flag(token.name)
    if flag is None:
        known = (takes,) if takes else xla.in_releases(token.name)
        if gone(token.name) or (known and _before(known[-1], catalogue.release)):
            return "gone"
        return "newer" if known else "unknown"
    if token.value is None:
        return "bare"
    if flag.parser_type in {"int32", "int64"} and token.value[:1].isdigit():
        return "unit"
    if flag.list_of == "kinds" or flag.accepts:
        items = [item for item in token.value.split(",") if item]
        signed = [item for item in items if flag.edits and item[:1] in {"+", "-"}]
        return "mixed" if signed and len(signed) < len(items) else "kinds"
    return "value"


def _before(one: str, other: str) -> bool:
    known = xla.releases()
    return known.index(one) < known.index(other) if other in known else False
