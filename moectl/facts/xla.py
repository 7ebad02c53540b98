"""The XLA flags of each catalogued jaxlib release, and what its parser takes for each.

The tables in `data/xla/` were read out of the wheels by `moectl.evidence.xla_flags`, which
asks the parser itself; nothing about a flag is decided in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from moectl.errors import SourceError, UnknownNameError, ValueUsageError, nearest, shown
from moectl.facts.xla_flag import XlaFlag
from moectl.resources import fact
from moectl.xla_text import FlagValue, emit, value_text

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = ("name", "parser_type", "default", "proto_type", "enum_values", "accepts", "rules")


@dataclass(frozen=True)
class XlaCatalogue:
    """The flags of one release.

    Attributes:
        release: the jaxlib release.
        source: where the table comes from.
    """

    release: str
    source: str
    _rows: Mapping[str, str] = field(repr=False)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def names(self) -> tuple[str, ...]:
        """Return every flag name, sorted."""
        return tuple(self._rows)

    def has(self, name: str) -> bool:
        """Return whether this release knows the flag."""
        return name in self._rows

    def flag(self, name: str) -> XlaFlag | None:
        """Return one flag, or None when this release does not know it."""
        row = self._rows.get(name)
        return None if row is None else _flag(name, row)

    def nearest(self, name: str) -> list[str]:
        """Return up to three names that look like `name`, best first."""
        return nearest(name.removeprefix("--"), self._rows)

    def in_releases(self, name: str) -> tuple[str, ...]:
        """Return the catalogued releases that know the flag, oldest first."""
        return in_releases(name)

    def spell(self, name: str, value: FlagValue) -> str:
        """Return the canonical text of a value: enum kinds as the parser spells them.

        A value this release refuses comes back as `value_text` writes it.

        Raises:
            ValueUsageError: the value cannot stand in XLA_FLAGS at all.
        """
        flag = self.flag(name)
        return value_text(value, name) if flag is None else flag.spell(value)

    def emit(self, flags: Mapping[str, FlagValue]) -> str:
        """Write the canonical XLA_FLAGS text in this release's spelling; see `xla_text.emit`."""
        return emit(flags, self.spell)

    def check(self, name: str, value: FlagValue | None) -> str | None:
        """Say what is wrong with a flag, or None when this release's parser accepts it.

        Args:
            name: the name without dashes.
            value: the value that would be written with `emit`; None for a bare flag.

        Returns:
            One clause that begins with a verb, e.g. "takes true, false, 1 or 0, not 'on'".
        """
        flag = self.flag(name)
        if flag is None:
            return self._unknown(name)
        if value is None:
            return None if flag.parser_type == "bool" else f"needs a value: --{name}=..."
        try:
            text = flag.spell(value)
        except ValueUsageError as error:
            return f"cannot be {shown(value)}: {error.legal}"
        clause = flag.fault(text, self.release)
        takes = clause is not None and clause.startswith("takes ")
        return f"{clause}, not {shown(value)}" if takes else clause

    def merge(self, flags: Iterable[tuple[str, str | None]]) -> dict[str, str]:
        """Return the text that counts for each flag when some are given more than once.

        The last one wins; a flag that accumulates keeps all; +X and -X edit the list that is
        in force, which at first is the release's default.

        Args:
            flags: (name, text) in the order XLA reads them; a bare flag has None.
        """
        held: dict[str, str] = {}
        for name, given in flags:
            text = "true" if given is None else given
            flag = self.flag(name)
            if flag is not None and flag.accumulates and name in held:
                text = f"{held[name]},{text}"
            elif flag is not None and flag.edits and text.strip()[:1] in {"+", "-"}:
                default = flag.default
                before = held[name].split(",") if name in held else default
                text = flag.edited(before if isinstance(before, list) else [], text)
            held[name] = text
        return held

    def _unknown(self, name: str) -> str:
        known = [release for release in in_releases(name) if release != self.release]
        if known:
            verb = "does" if len(known) == 1 else "do"
            names = " and ".join(filter(None, (", ".join(known[:-1]), known[-1])))
            return f"is unknown to jaxlib {self.release}; {names} {verb} know it"
        near = self.nearest(name)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return f"is unknown to jaxlib {self.release} and every release catalogued{hint}"


@cache
def releases() -> tuple[str, ...]:
    """Return the catalogued jaxlib releases, oldest first."""
    entries = fact("xla").iterdir()
    assert hasattr(entries, "__iter__")  # noqa: S101 - the Folder protocol leaves it open
    names = [entry.name for entry in entries]
    found = [name.removesuffix(".tsv") for name in names if name[:1].isdigit()]
    return tuple(sorted(found, key=_version))


def closest(release: str) -> str:
    """Return the newest catalogued release that is not newer than `release`.

    A container follows XLA's head, so its jaxlib may stand between two catalogues; a release
    older than all of them gets the oldest.
    """
    older = [known for known in releases() if _version(known) <= _version(release)]
    return older[-1] if older else releases()[0]


@lru_cache(maxsize=16)
def load(release: str) -> XlaCatalogue:
    """Return the catalogue of one release, or one that was adopted.

    Raises:
        UnknownNameError: that release is not catalogued.
    """
    if (adopted := _adopted.get(release)) is not None:
        return adopted
    if release not in releases():
        legal = releases()
        why = f"catalogued are {', '.join(legal)}"
        raise UnknownNameError("XLA catalogue", release, legal, why=why)
    path = fact("xla", f"{release}.tsv")
    return parse_catalogue(path.read_text("utf-8"), f"data/xla/{release}.tsv")


def adopt(catalogue: XlaCatalogue, name: str) -> str:
    """Keep a catalogue that was read from an image; return the release name `load` finds it by."""
    release = f"{catalogue.release} of {name}"
    _adopted[release] = catalogue
    load.cache_clear()
    return release


_adopted: dict[str, XlaCatalogue] = {}


def read(path: Path) -> XlaCatalogue:
    """Read a catalogue that was written by `moectl facts xla`.

    Raises:
        SourceError: the file cannot be read or is no such table.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(str(path), None, f"cannot be read: {error}") from error
    return parse_catalogue(text, str(path))


def parse_catalogue(text: str, path: str) -> XlaCatalogue:
    """Read the text of a table: a comment with release and source, column names, one row a flag.

    Raises:
        SourceError: it is no such table.
    """
    lines = text.split("\n")
    head = lines[0]
    if not head.startswith("# jaxlib ") or lines[1:2] != ["\t".join(COLUMNS)]:
        raise SourceError(path, 1, "is no table of XLA flags")
    release, _, source = head.removeprefix("# jaxlib ").partition(": ")
    rows: dict[str, str] = {}
    for number, line in enumerate(lines[2:], start=3):
        if line:
            name, _, row = line.partition("\t")
            if row.count("\t") != len(COLUMNS) - 2:
                raise SourceError(path, number, f"has not {len(COLUMNS)} columns")
            rows[name] = row
    return XlaCatalogue(release, source, rows)


def in_releases(name: str) -> tuple[str, ...]:
    """Return the catalogued releases that know a flag, oldest first."""
    return tuple(release for release in releases() if load(release).has(name))


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())


@lru_cache(maxsize=4096)
def _flag(name: str, row: str) -> XlaFlag:
    parser_type, default, proto_type, values, accepts, rules = row.split("\t")
    pairs = (rule.partition("=") for rule in rules.split(" ") if rule)
    return XlaFlag(
        name,
        parser_type,
        default,
        proto_type,
        tuple(values.split(",")) if values else (),
        tuple(accepts.split(",")) if accepts else (),
        {key: value for key, _, value in pairs},
    )
