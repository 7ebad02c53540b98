"""ConfigMaps of a manifest: the variables and files that containers of the same file get."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moectl.settings.sources.manifest import Reading, scalar_pieces
from moectl.settings.sources.placed import Inner
from moectl.settings.sources.pods import Path, entries, known, mapping
from moectl.workload import Piece, Text

_KIND: Final = "ConfigMap"
_ABOVE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a ConfigMap's data: a file, or the value of a variable.

    Attributes:
        reading: the document it stands in.
        path: of it in the document.
        value: its text.
    """

    reading: Reading
    path: Path
    value: str

    @property
    def name(self) -> str:
        """Return its key, which is the name of the file."""
        return str(self.path[-1])

    @property
    def text(self) -> Text:
        """Return the text, each line at its place."""
        pieces = scalar_pieces(self.reading, self.path, self.value)
        return Text(tuple(pieces) or (Piece("", self.reading.manifest.at(*self.path)),))

    def inner(self) -> Inner:
        """Return the text as a file of its own, its lines numbered as those of the manifest."""
        return laid_out(self.text)


def laid_out(text: Text) -> Inner:
    """Return a text with lines above it, so that it begins in the line in which it stands."""
    above = (text.origin.line or 1) - 1
    # Of lines far down only the places are right, not the lines that a sentence names: the time
    # for a file would grow with its length times its scripts.
    blank = [Piece("\n" * above, text.origin)] if 0 < above <= _ABOVE else []
    return Inner([*blank, *text.pieces])


Maps = Mapping[str, Mapping[str, Item]]


def config_maps(readings: Sequence[Reading]) -> dict[str, dict[str, Item]]:
    """Return the data of every ConfigMap of a file, by its name and key."""
    found: dict[str, dict[str, Item]] = {}
    for reading in readings:
        data = reading.manifest.data
        name = known(mapping(data.get("metadata")).get("name"))
        if data.get("kind") != _KIND or name is None:
            continue
        found[name] = {
            str(key): Item(reading, ("data", key), value)
            for key, value in mapping(data.get("data")).items()
            if isinstance(value, str)
        }
    return found


def from_maps(container: Mapping[str, Any], maps: Maps) -> tuple[dict[str, Text], bool]:
    """Return the variables of `envFrom`, and whether there are others that are not known."""
    found: dict[str, Text] = {}
    others = False
    for source in map(mapping, entries(container.get("envFrom"))):
        items = maps.get(str(mapping(source.get("configMapRef")).get("name")))
        if items is None:
            others = True
            continue
        prefix = known(source.get("prefix")) or ""
        found.update({f"{prefix}{key}": item.text for key, item in items.items()})
    return found, others


def from_key(entry: Mapping[str, Any], maps: Maps) -> Text | None:
    """Return what `valueFrom: configMapKeyRef` of an entry of `env` says, None when not known."""
    reference = mapping(mapping(entry.get("valueFrom")).get("configMapKeyRef"))
    item = maps.get(str(reference.get("name")), {}).get(str(reference.get("key")))
    return None if item is None else item.text


def mounted(pod: Mapping[str, Any], container: Mapping[str, Any], maps: Maps) -> dict[str, Item]:
    """Return the files that a container finds, by their absolute path."""
    volumes = {
        str(volume.get("name")): dict(_files(volume, maps))
        for volume in map(mapping, entries(pod.get("volumes")))
    }
    found: dict[str, Item] = {}
    for mount in map(mapping, entries(container.get("volumeMounts"))):
        at, below = known(mount.get("mountPath")), known(mount.get("subPath"))
        for name, item in volumes.get(str(mount.get("name")), {}).items():
            if at is not None and "subPath" not in mount:
                found[posixpath.normpath(posixpath.join(at, name))] = item
            elif at is not None and name == below:
                found[posixpath.normpath(at)] = item
    return found


def _files(volume: Mapping[str, Any], maps: Maps) -> Iterator[tuple[str, Item]]:
    """Yield path inside a volume and entry, for its ConfigMaps."""
    sources = [mapping(volume.get("configMap"))]
    projected = entries(mapping(volume.get("projected")).get("sources"))
    sources += [mapping(mapping(source).get("configMap")) for source in projected]
    for source in sources:
        items = maps.get(str(source.get("name")), {})
        chosen = [mapping(entry) for entry in entries(source.get("items"))]
        if not chosen:
            yield from items.items()
        for entry in chosen:
            item = items.get(str(entry.get("key")))
            if item is not None:
                yield str(entry.get("path")), item
