"""The MaxText key catalogue: which keys a release has, and which values it takes for them.

The tables under `facts/data/maxtext/<release>/` are written by
`moectl.evidence.maxtext_write` from a MaxText wheel or source tree; nothing of MaxText is
imported here or there. `keys.json` is read at once, the two others when first asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import MappingProxyType

from moectl.errors import UnknownNameError, nearest, shown
from moectl.facts.maxtext_key import Key
from moectl.facts.maxtext_values import accepts, prepare
from moectl.resources import Folder, fact

__all__ = ["Catalogue", "Key", "MeshAxis", "adopt", "load", "read", "releases"]


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """The two keys that size one mesh axis; empty where MaxText fixes the size to 1."""

    name: str
    ici: str = ""
    dcn: str = ""


@dataclass(frozen=True)
class Catalogue:
    """All keys, defaults and model files of one MaxText release.

    Lists and mappings inside the values are shared: copy before changing one.
    """

    release: str
    source: str
    _keys: Mapping[str, Mapping[str, object]] = field(repr=False, compare=False)
    _nested: Mapping[str, Mapping[str, Mapping[str, object]]] = field(repr=False, compare=False)
    _axes: Mapping[str, Mapping[str, str]] = field(repr=False, compare=False)
    _folder: Folder = field(repr=False, compare=False)
    _made: dict[str, Key] = field(default_factory=dict, repr=False, compare=False)

    def keys(self) -> tuple[str, ...]:
        """Return the names of all top-level keys, in the order of the source."""
        return tuple(self._keys)

    def key(self, name: str) -> Key | None:
        """Return a key by name, a nested one by `parent.name` or by its bare name."""
        if name in self._made:
            return self._made[name]
        found = self._find(name)
        if found is not None:  # what people misspell is not kept
            self._made[name] = found
        return found

    def _find(self, name: str) -> Key | None:
        if (row := self._keys.get(name)) is not None:
            return Key.from_row(name, row)
        parent, dot, inner = name.partition(".")
        for owner, rows in self._nested.items():
            if dot and owner == parent and inner in rows:
                return Key.from_row(inner, rows[inner], owner)
            if not dot and name in rows:
                return Key.from_row(name, rows[name], owner)
        return None

    def models(self) -> tuple[str, ...]:
        """Return the names of the model files, sorted."""
        return tuple(self._models)

    def model(self, name: str) -> Mapping[str, object] | None:
        """Return what `configs/models/<name>.yml` sets, or None if there is no such file.

        MaxText reads the file of `X` for a model name `X-Instruct` (configs/pyconfig.py).
        """
        values = self._models.get(name.replace("-Instruct", ""))
        return None if values is None else MappingProxyType(values)

    @cached_property
    def _models(self) -> dict[str, dict[str, object]]:
        models: dict[str, dict[str, object]] = _read(self._folder, "models.json")["models"]  # type: ignore[assignment]
        return models

    @cached_property
    def base(self) -> Mapping[str, object]:
        """The values of base.yml as MaxText uses them: the text "None" is None, and so on."""
        values: dict[str, object] = _read(self._folder, "base.json")["values"]  # type: ignore[assignment]
        return MappingProxyType(values)

    def default(self, name: str) -> object:
        """Return what a run gets when nobody says anything: base.yml, else the source.

        None also stands for a default that MaxText computes (`Key.computed`).

        Raises:
            UnknownNameError: the release has no such key.
        """
        if name in self.base:
            return self.base[name]
        key = self.key(name)
        if key is None:
            raise UnknownNameError(f"MaxText {self.release} key", name, self._names())
        return key.default

    @cached_property
    def mesh_axes(self) -> tuple[str, ...]:
        """The mesh axes, outermost first. Pipeline parallelism swaps `data` and `stage`."""
        axes = self.default("mesh_axes")
        return tuple(map(str, axes)) if isinstance(axes, list) else ()

    @cached_property
    def axes(self) -> Mapping[str, MeshAxis]:
        """Every axis name a mesh may have, with the keys that size it."""
        return MappingProxyType({n: MeshAxis(n, **keys) for n, keys in self._axes.items()})

    @cached_property
    def logical_axis_rules(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The rules of base.yml in order: logical axis, and the mesh axes it is split over."""
        rules = self.default("logical_axis_rules")
        return tuple(_rule(*rule) for rule in rules) if isinstance(rules, list) else ()

    def unknown(self, name: str) -> list[str]:
        """Return the names nearest to one that the catalogue lacks, best first."""
        found = nearest(name.rpartition(".")[2] or name, self._names())
        return [key.path for near in found if (key := self.key(near)) is not None]

    def _names(self) -> Iterable[str]:
        return [*self._keys, *(inner for rows in self._nested.values() for inner in rows)]

    def check(self, name: str, value: object) -> str | None:
        """Judge a raw value as MaxText's loader and pydantic's lax mode would.

        Args:
            name: the key; `parent.name` for a nested one.
            value: the value as YAML gives it to OmegaConf: None, bool, int, float, text,
                list or mapping.

        Returns:
            None if MaxText takes the value for this key, else one clause saying what is
            legal. A nested name that MaxText would drop without a word gets a clause too;
            an opaque key gets none. Rules between keys are not judged here.
        """
        key = self.key(name)
        if key is None:
            near = self.unknown(name)
            hint = f"; near it: {', '.join(near)}" if near else ""
            return f"MaxText {self.release} has no such key{hint}"
        if key.parent and "." not in name:
            return f"it stands under {key.parent}: write {key.path}"
        if isinstance(value, str) and "${" in value:
            return None  # OmegaConf resolves it when MaxText starts
        if key.parent:
            return self._judge(key, value)
        return self._judge(key, prepare(key, value))

    def _judge(self, key: Key, value: object) -> str | None:
        if not key.nested:
            return None if accepts(key, value) else key.legal_near(value)
        if key.opaque or (value is None and key.nullable):
            return None
        if not isinstance(value, Mapping):
            return key.legal
        for inner, inside in value.items():
            known = self.key(f"{key.name}.{inner}")
            if known is None:
                dropped = "" if key.closed else " (MaxText drops it without a word)"
                return f"it has no key {shown(inner)}{dropped}, only {', '.join(key.nested)}"
            if clause := self._judge(known, inside):
                return f"{known.path} is {clause}"
        return None


def releases() -> list[str]:
    """Return the releases that have a catalogue, oldest first."""
    return list(_releases())


def load(release: str) -> Catalogue:
    """Return the shipped catalogue of a release, or an adopted one; read once a process.

    Raises:
        UnknownNameError: no catalogue of this release is shipped or adopted.
    """
    if (adopted := _adopted.get(release)) is not None:
        return adopted
    if release not in _releases():
        raise UnknownNameError("MaxText release", release, _releases())
    return _load(release)


def adopt(catalogue: Catalogue, name: str) -> str:
    """Keep a catalogue that was read from an image; return the release name `load` finds it by."""
    release = f"{catalogue.release} of {name}"
    _adopted[release] = catalogue
    return release


_adopted: dict[str, Catalogue] = {}


def read(folder: Folder) -> Catalogue:
    """Read a catalogue from a folder that `moectl.evidence.maxtext_write` wrote."""
    table = _read(folder, "keys.json")
    return Catalogue(
        release=str(table["release"]),
        source=str(table["source"]),
        _keys=table["keys"],  # type: ignore[arg-type]
        _nested=table["nested"],  # type: ignore[arg-type]
        _axes=table["axes"],  # type: ignore[arg-type]
        _folder=folder,
    )


@cache
def _releases() -> tuple[str, ...]:
    names = [str(folder.name) for folder in fact("maxtext").iterdir()]
    numbered = [name for name in names if name[:1].isdigit()]
    return tuple(sorted(numbered, key=lambda name: (_numbers(name), name)))


@cache
def _load(release: str) -> Catalogue:
    return read(fact("maxtext", release))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())


def _read(folder: Folder, name: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(folder.joinpath(name).read_text(encoding="utf-8"))
    return document


def _rule(logical: str, axes: str | list[str] | None = None) -> tuple[str, tuple[str, ...]]:
    return logical, (axes,) if isinstance(axes, str) else tuple(axes or ())
