"""Reads MaxText YAML as people have it: one flat mapping, on top of a chain of `base_config`.

What MaxText 0.2.5 does is followed (configs/pyconfig.py:182-197): a relative base is looked
for beside the file, then among MaxText's own configs; mappings are merged, lists replaced.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from moectl.errors import shown
from moectl.facts.maxtext import Catalogue
from moectl.facts.own_configs import BASE, BASE_KEY, own_origin
from moectl.facts.own_configs import chain as own_chain
from moectl.facts.own_configs import content as own_content
from moectl.facts.yaml_facts import read as read_fact
from moectl.findings import Finding
from moectl.settings.sources.config_findings import (
    LAYER,
    of_section,
    of_template,
    of_trouble,
)
from moectl.settings.sources.nesting import flat_keys, sections
from moectl.settings.sources.source import Open, finding
from moectl.settings.sources.templated import HOLE, Plain, make_plain
from moectl.settings.sources.written import Written
from moectl.settings.sources.yaml_loose import LooseDocument, read_documents
from moectl.values import Origin, Value
from moectl.workload import UNKNOWN

MAX_CHAIN: Final = 32


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A MaxText config with its chain of bases.

    Attributes:
        path: the file.
        values: what it and its bases say, MaxText key to value.
        findings: what is wrong with the files themselves.
        chain: the files in order, the strongest first; the last is "base.yml" when MaxText's
            own base stands below.
        unread: bases whose content is not known, so that a key nobody said may be said there.
        told: sentences about how it was read.
    """

    path: str
    values: Mapping[str, Value] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    chain: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    told: tuple[str, ...] = ()


def read_config(
    text: str, path: str, open_file: Open, catalogue: Catalogue, *, folder: str | None = None
) -> ConfigFile:
    """Read a MaxText config and every base it stands on.

    Args:
        text: the file's content.
        path: its name, as the person gave it.
        open_file: gives the text of a base by its path from the folder of `path`, None when
            it cannot be had.
        catalogue: keys of the MaxText release.
        folder: the folder of the file that names this one, which `open_file` starts from and
            `path` begins with; None when the person named this file.
    """
    top = posixpath.dirname(path) if folder is None else folder
    reader = _Chain(open_file, catalogue, top)
    inside = path[len(top) + 1 :] if top and path.startswith(f"{top}/") else path
    reader.read(
        text, inside if folder is not None else posixpath.basename(path), own=folder is None
    )
    return ConfigFile(
        path,
        reader.values,
        tuple(reader.findings),
        tuple(reader.chain),
        tuple(reader.unread),
        tuple(reader.told),
    )


def own_configs() -> frozenset[str]:
    """Return the configs that MaxText ships, relative to its folder of configs."""
    return frozenset(read_fact("maxtext_configs.yaml")["configs"])


def default_config(module: str) -> str:
    """Return the config that a module of MaxText takes when its command names none."""
    return str(read_fact("maxtext_configs.yaml")["defaults"].get(module, BASE))


def read_own(name: str, place: Origin, catalogue: Catalogue) -> ConfigFile | None:
    """Return what a config of MaxText's own says, its bases included; None if there is none.

    Args:
        name: its path in MaxText's folder of configs.
        place: where a person names it, or where MaxText takes it by itself.
        catalogue: keys of the MaxText release.
    """
    if own_content(name, catalogue) is None:
        return None
    reader = _Chain(lambda _: None, catalogue, "")
    end = reader.own(name, place)
    reader.values[BASE_KEY] = Value(end, place)
    return ConfigFile(name, reader.values, chain=tuple(reader.chain), told=tuple(reader.told))


class _Chain:
    """One config and its bases; stronger files are read first."""

    def __init__(self, open_file: Open, catalogue: Catalogue, folder: str) -> None:
        self.open_file = open_file
        self.catalogue = catalogue
        self.folder = folder
        self.values: dict[str, Value] = {}
        self.findings: list[Finding] = []
        self.chain: list[str] = []
        self.unread: list[str] = []
        self.told: list[str] = []
        self.seen: set[str] = set()

    def read(self, text: str, inside: str, *, own: bool) -> None:
        """Read a file, named from the folder of the first one, and then its bases.

        The value of `base_config` becomes what the chain ends at: "base.yml", None when it
        ends at a file without a base, and UNKNOWN when that cannot be told.
        """
        end: Any = None
        following: tuple[str, str] | None = (text, inside)
        while following is not None:
            text, inside = following
            path = posixpath.join(self.folder, inside)
            self.chain.append(path)
            self.seen.add(posixpath.normpath(inside))
            said = self._file(text, path)
            base = said.get(BASE_KEY)
            end = None
            if (len(self.chain) > 1 or not own) and posixpath.basename(path) == BASE:
                end, said = BASE, self._changes(said, path)
            self._under(said)
            following = None
            if base is not None:
                following, end = self._base(base, inside)
        if BASE_KEY in self.values:
            self.values[BASE_KEY] = replace(self.values[BASE_KEY], value=end)
        elif end is not None:
            self.values[BASE_KEY] = Value(end, Origin(LAYER, self.chain[0], 1, 1))

    def _file(self, text: str, path: str) -> dict[str, Value]:
        plain = make_plain(text, shell=False) if "{{" in text or "{%" in text else Plain(text)
        documents, troubles = read_documents(plain.text, path)
        if plain.tool:
            self.findings.append(of_template(plain, path))
            self.unread.append(f"what the template {path} fills in")
        for trouble in troubles:
            self.findings.append(of_trouble(trouble, path))
        document = self._mapping(documents, path, broken=bool(troubles))
        return {} if document is None else dict(self._said(document, path))

    def _mapping(
        self, documents: list[LooseDocument], path: str, *, broken: bool
    ) -> LooseDocument | None:
        if len(documents) > 1:
            second = Origin(LAYER, path, documents[1].line, 1)
            self.findings.append(
                finding(
                    "YAML104",
                    "error",
                    "YAML",
                    f"the file has {len(documents)} documents, and MaxText reads one.",
                    "split it into files, or delete the line ---",
                    second,
                )
            )
        if not documents or documents[0].data is None or documents[0].data == {}:
            if not broken:
                self.findings.append(
                    finding(
                        "YAML106",
                        "warning",
                        "YAML",
                        "the file says nothing: it is empty, or all of it is comments.",
                        "write key: value lines, or give another file",
                        Origin(LAYER, path, 1, 1),
                    )
                )
            return None
        document = documents[0]
        if not isinstance(document.data, dict):
            self.findings.append(self._no_mapping(document, path))
            return None
        return document

    def _no_mapping(self, document: LooseDocument, path: str) -> Finding:
        data = document.data
        what = f"one {type(data).__name__}"
        hint = "write key: value lines"
        if isinstance(data, list):
            what = f"a list of {len(data)} entries"
            configs = [entry for entry in data if isinstance(entry, Mapping)]
            if configs and any(self.catalogue.key(key) for entry in configs for key in entry):
                what = f"a list of {len(configs)} configs"
                hint = "write one file a config, each with its keys at the left margin"
        return finding(
            "YAML105",
            "error",
            "YAML",
            f"the file is {what}, and MaxText reads one mapping of keys.",
            hint,
            Origin(LAYER, path, document.line, 1),
        )

    def _said(self, document: LooseDocument, path: str) -> Iterator[tuple[str, Value]]:
        nested = sections(document.data, self.catalogue)
        has_sections = any(isinstance(value, Mapping) for value in document.data.values())
        of_rl = self._of_rl(document.data, path) if has_sections else frozenset()
        nested = [section for section in nested if section not in of_rl]
        for key, value in document.data.items():
            if key not in nested and key not in of_rl:
                yield key, _written(document, path, (key,), value)
        for section in nested:
            place = document.places.get((section,))
            origin = Origin(LAYER, path, *(_pair(place)))
            self.findings.append(
                of_section(section, document.data[section], origin, self.catalogue)
            )
            for keys, value in flat_keys(document.data[section], self.catalogue):
                if keys[-1] not in document.data or keys[-1] in nested:
                    yield str(keys[-1]), _written(document, path, (section, *keys), value)

    def _of_rl(self, data: Mapping[str, Any], path: str) -> frozenset[str]:
        """Return the sections that only a config of MaxText's RL trainers has."""
        mark, *others = read_fact("maxtext_configs.yaml")["rl_sections"]
        if not isinstance(data.get(mark), Mapping):
            return frozenset()
        found = [name for name in (mark, *others) if isinstance(data.get(name), Mapping)]
        self.told.append(
            f"{path} is for the RL trainers of MaxText; its sections ({', '.join(found)}) are not "
            "judged"
        )
        return frozenset(found)

    def _changes(self, said: dict[str, Value], path: str) -> dict[str, Value]:
        """Return what a copy of MaxText's base says that the release's own does not."""
        base = self.catalogue.base
        unknown = [key for key in said if self.catalogue.key(key) is None]
        if unknown:
            self.told.append(
                f"{path} is the base of another MaxText release than {self.catalogue.release}: "
                f"{len(unknown)} of its keys are left out"
            )
        return {
            key: value
            for key, value in said.items()
            if self.catalogue.key(key) is not None
            and not (key in base and base[key] == value.value)
        }

    def _under(self, said: Mapping[str, Value]) -> None:
        """Put weaker values below what stronger files said."""
        for key, value in said.items():
            strong = self.values.get(key)
            self.values[key] = value if strong is None else _over(strong, value)

    def _base(self, base: Value, inside: str) -> tuple[tuple[str, str] | None, Any]:
        """Return text and path of the next file, or None and what the chain ends at."""
        origin = (base.spot or base.origin) if isinstance(base, Written) else base.origin
        name = base.value
        if name is UNKNOWN:
            self.unread.append("the base, which cannot be read")
            return None, UNKNOWN
        if isinstance(name, str) and "${" in name:
            self.unread.append(name)
            return None, UNKNOWN
        if not isinstance(name, str) or not name:
            self._refused(f"base_config is {shown(name)}, which is no path of a file.", origin)
            return None, UNKNOWN
        beside = posixpath.join(posixpath.dirname(inside), name)
        if posixpath.normpath(beside) in self.seen:
            self._stop("YAML108", f"base_config leads back to {shown(name)}.", origin)
            return None, UNKNOWN
        if len(self.chain) > MAX_CHAIN:
            self._stop("YAML108", f"the chain of bases has more than {MAX_CHAIN} files.", origin)
            return None, UNKNOWN
        text = self.open_file(beside)
        if text is not None:
            return (text, beside), None
        if posixpath.basename(name) == BASE:
            if posixpath.normpath(name) != BASE and not name.startswith("/"):
                self._missing(name, posixpath.join(self.folder, beside), origin)
            self.chain.append(BASE)
            return None, BASE
        if own_content(name, self.catalogue) is not None:
            return None, self.own(name, origin)
        self.unread.append(name)
        self._missing(name, posixpath.join(self.folder, beside), origin)
        return None, UNKNOWN

    def own(self, name: str, place: Origin) -> Any:
        """Read a config of MaxText's own and what it stands on; return what its chain ends at."""
        end: Any = None
        for path, held in own_chain(name, self.catalogue):
            self.chain.append(path)
            end = BASE if path == BASE else None
            sections = self._of_rl(held, path)
            origin = own_origin(path, place)
            said = held.keys() - sections - {BASE_KEY}
            self._under({key: Value(held[key], origin) for key in held if key in said})
        self.told.append(f"{name} is MaxText's own, as in {self.catalogue.release}")
        return end

    def _refused(self, message: str, origin: Origin) -> None:
        hint = f"base_config: {BASE}"
        self.findings.append(finding("YAML111", "error", BASE_KEY, message, hint, origin))

    def _missing(self, name: str, beside: str, origin: Origin) -> None:
        own = own_configs()
        unknown = "what it says is not known here, and rules that need it are silent."
        if posixpath.basename(name) == BASE:
            unknown = "it is judged as MaxText's base.yml, and MaxText finds none there."
        near = sorted(path for path in own if posixpath.basename(path) == posixpath.basename(name))
        hint = f"base_config: {near[0]}" if near else f"put the file at {shown(beside)}"
        self.findings.append(
            finding(
                "YAML107",
                "note",
                BASE_KEY,
                f"the base {shown(name)} is not at {shown(beside)} and is none of MaxText's "
                f"own configs; {unknown}",
                hint,
                origin,
            )
        )

    def _stop(self, code: str, message: str, origin: Origin) -> None:
        hint = f"let the last file say base_config: {BASE}"
        self.findings.append(finding(code, "error", BASE_KEY, message, hint, origin))


def _holds_hole(value: Any) -> bool:
    """Whether a placeholder of a template stands somewhere in a value."""
    if isinstance(value, str):
        return HOLE in value
    if isinstance(value, Mapping):
        return any(map(_holds_hole, value.values()))
    return isinstance(value, list) and any(map(_holds_hole, value))


def _written(document: LooseDocument, path: str, at: tuple[str | int, ...], value: Any) -> Written:
    scalar = document.scalars.get(at)
    # What cannot be read has its own finding, and is no value that could be wrong besides.
    value = UNKNOWN if at in document.unread or _holds_hole(value) else value
    origin = Origin(LAYER, path, *_pair(document.places.get(at)))
    if scalar is None:
        return Written(value, origin)
    spot = Origin(LAYER, path, *_pair(scalar.place))
    return Written(value, origin, raw=scalar.raw, style=scalar.style, spot=spot)


def _pair(place: Any) -> tuple[int | None, int | None]:
    return (None, None) if place is None else (place.line, place.column)


def _over(strong: Value, weak: Value) -> Value:
    value = strong.value
    if isinstance(value, Mapping) and isinstance(weak.value, Mapping):
        value = _merged(weak.value, value)
    return replace(strong, value=value, overrode=(*strong.overrode, (weak.value, weak.origin)))


def _merged(weak: Mapping[str, Any], strong: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(weak)
    for key, value in strong.items():
        below = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return merged
