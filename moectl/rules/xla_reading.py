"""XLA_FLAGS of a workload as XLA would read them, and what is left to the moment it runs.

A piece that is not known may hold flags, blanks or nothing. So a word that begins with one is
never judged, a word that ends in one is judged by its name only, and a flag that nobody says
may still be set there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from moectl.facts import images, xla
from moectl.workload import MARK, UNKNOWN, Text, Unknown, Workload
from moectl.xla_text import FlagToken, ParsedFlags, SyntaxFault, parse, value_text

if TYPE_CHECKING:
    from moectl.facts.xla import XlaCatalogue

_BLANKS: Final = " \t\r\n"  # what separates flags, see moectl.xla_text


@dataclass(frozen=True, slots=True)
class Reading:
    """A text of flags, read.

    Attributes:
        text: the text that was read.
        parsed: what XLA makes of it, words that begin with an unknown piece left out.
        open: whether an unknown piece may hold further flags.
        starts_open: whether the first word is such a piece, as in "$XLA_FLAGS --xla_a=1".
    """

    text: Text
    parsed: ParsedFlags
    open: bool
    starts_open: bool

    @property
    def kept(self) -> tuple[FlagToken, ...]:
        """The flags XLA sees, in order."""
        return self.parsed.kept

    def partial(self, token: FlagToken) -> bool:
        """Whether part of the token is left to the moment it runs."""
        return MARK in token.source

    def faults(self, kind: str) -> tuple[SyntaxFault, ...]:
        """The syntax faults of one kind."""
        return tuple(fault for fault in self.parsed.faults if fault.kind == kind)


@lru_cache(maxsize=64)
def read_flags(text: Text) -> Reading:
    """Read a text of flags as XLA reads it, unknown pieces left open."""
    said = text.text
    masked, hidden = _masked(said)
    parsed = parse(masked)
    if MARK in said:
        parsed = _restored(parsed, said, hidden)
    first = len(said) - len(said.lstrip(_BLANKS))
    return Reading(text, parsed, bool(hidden), first in hidden)


def _masked(text: str) -> tuple[str, frozenset[int]]:
    """Give every word that begins with MARK a dash in its place, so that reading goes on.

    Returns:
        The text of the same length, and the offsets of those words.
    """
    if MARK not in text:
        return text, frozenset()
    hidden = {
        index
        for index, character in enumerate(text)
        if character == MARK and (index == 0 or text[index - 1] in _BLANKS)
    }
    masked = "".join("-" if index in hidden else c for index, c in enumerate(text))
    return masked, frozenset(hidden)


def _restored(parsed: ParsedFlags, said: str, hidden: frozenset[int]) -> ParsedFlags:
    """Put the unknown pieces back into the tokens, and leave hidden words out."""

    def tokens(found: tuple[FlagToken, ...]) -> tuple[FlagToken, ...]:
        known = (token for token in found if token.offset not in hidden)
        return tuple(
            replace(token, source=said[token.offset : token.offset + len(token.source)])
            for token in known
        )

    faults = tuple(fault for fault in parsed.faults if fault.offset not in hidden)
    return replace(parsed, kept=tokens(parsed.kept), dropped=tokens(parsed.dropped), faults=faults)


def reading(w: Workload) -> Reading | None:
    """Return the flags of a workload as read; None when nobody sets them."""
    return None if w.flags is None else read_flags(w.flags)


@dataclass(frozen=True, slots=True)
class Judges:
    """The catalogues that judge the flags of a workload.

    Attributes:
        catalogues: one when the release is known; two when the image's date lies between two.
        why: how the releases were chosen, for a message; empty when there is one.
        doubtful: whether the release that is meant is older than every catalogued one, so that
            nothing it refuses is certain.
    """

    catalogues: tuple[XlaCatalogue, ...]
    why: str = ""
    doubtful: bool = False

    @property
    def first(self) -> XlaCatalogue:
        """The catalogue that stands for the release."""
        return self.catalogues[0]


def judges(w: Workload) -> Judges:
    """Return the catalogues that judge a workload, the one that stands for its release first.

    A probed image, or a release that is not the nearest to the image, is judged by its own
    catalogue alone. An image whose date lies between two catalogued releases may hold either,
    and so may a release between two catalogues.
    """
    return _judges(w.jaxlib, *_date(w))


def named_image(w: Workload) -> bool:
    """Whether somebody named the image, and not only moectl's default stands in for it."""
    return w.image is not None and w.image_said is not None


def _date(w: Workload) -> tuple[str | None, str]:
    unnamed = w.jaxlib_said or not named_image(w)
    if w.image is None or w.image.probed or w.image.date is None or unnamed:
        return None, ""
    return w.image.date, w.image.reference


@lru_cache(maxsize=64)
def _judges(release: str, date: str | None, reference: str) -> Judges:
    known = xla.releases()
    if date is not None:
        between = images.neighbours("jaxlib", date)
        nearest = images.image(reference).jaxlib
        if release == nearest and between[0] is None:
            why = f"{reference} is older than every catalogued jaxlib"
            return Judges((xla.load(release),), why, doubtful=True)
        if release == nearest and release in between and None not in between:
            other = next((name for name in between if name not in {release, None}), release)
            why = f"the date of {reference} lies between jaxlib {between[0]} and {between[1]}"
            return _loaded((release, other), why)
    if release in known:
        return _loaded((release,), "")
    older = xla.closest(release)
    newer = known[min(known.index(older) + 1, len(known) - 1)]
    if older == newer:
        return _loaded((older,), "")
    return _loaded((older, newer), f"jaxlib {release} lies between {older} and {newer}")


def _loaded(releases: tuple[str, ...], why: str) -> Judges:
    return Judges(tuple(xla.load(name) for name in dict.fromkeys(releases)), why)


@dataclass(frozen=True, slots=True)
class EffectiveFlags:
    """The flags as they count in the processes.

    Attributes:
        values: flag -> text that counts, or UNKNOWN; only flags somebody sets.
        open: whether an unknown piece may set others.
        told: whether it is known at all what sets flags here; otherwise a default says nothing.
        catalogue: gives the value of a flag that nobody sets.
    """

    values: Mapping[str, str | Unknown]
    open: bool
    told: bool
    catalogue: XlaCatalogue

    def text(self, name: str) -> str | Unknown | None:
        """Return the text of a flag as it counts, the release's default where nobody sets it.

        UNKNOWN when it is left to the moment the job runs; None when the release has no such
        flag, or leaves it unset.
        """
        if name in self.values:
            return self.values[name]
        flag = self.catalogue.flag(name)
        if flag is None:
            return None
        if self.open or not self.told:
            return UNKNOWN
        return _default_text(flag.default)


def _default_text(default: Any) -> str | None:
    """Return a default as XLA_FLAGS would say it; None when unset, or a map of options."""
    if default is None or isinstance(default, dict):
        return None
    if isinstance(default, list):
        return ",".join(map(str, default))
    return str(default).lower() if isinstance(default, bool) else str(default)


def effective_flags(w: Workload) -> EffectiveFlags:
    """Return the flags as they count: the image's own first when the file adds to them.

    A text that says all of XLA_FLAGS replaces what the image bakes in; one that begins with
    an unknown piece may add to it, so a baked flag is then unknown; without a text the baked
    flags alone count. Repeated flags are merged as the parser does it.
    """
    read = reading(w)
    catalogue = judges(w).first
    baked = {} if w.image is None or w.container is False else dict(w.image.baked_flags)
    if read is None:
        sure = named_image(w)
        told = sure or (w.kind not in _WITHOUT_FLAGS and not baked)
        values: dict[str, str | Unknown] = {
            name: value_text(value, name) if sure else UNKNOWN for name, value in baked.items()
        }
        return EffectiveFlags(values, False, told, catalogue)
    known = [token for token in read.kept if not read.partial(token)]
    merged: dict[str, str | Unknown] = {}
    if read.open:
        merged.update(dict.fromkeys(baked, UNKNOWN))
    merged.update(catalogue.merge([(token.name, token.value) for token in known]))
    for token in read.kept:
        if read.partial(token):
            merged[token.name.partition(MARK)[0]] = UNKNOWN
    return EffectiveFlags(merged, read.open or read.parsed.file is not None, True, catalogue)


# A file of these kinds says nothing of XLA_FLAGS even where the job has some.
_WITHOUT_FLAGS: Final = frozenset({"MaxText config", "MaxText command", "variables"})
