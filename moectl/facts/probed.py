"""Reads what `moectl probe` printed inside an image: the facts of exactly that image.

The text may come from anywhere, so its form is checked before anything of it is believed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from moectl.errors import SourceError, shown
from moectl.facts.maxtext import Catalogue
from moectl.facts.maxtext_key import BOUNDS, Key
from moectl.facts.xla import COLUMNS, XlaCatalogue

FORMAT = 1
MAX_BYTES = 16 * 1024 * 1024
_PLAIN = (str, int, float, bool, type(None))
_KEY_FIELDS = {item.name for item in fields(Key)} - {"name", "parent"}
_KEY_TEXT = {"type", "group", "where"}
_KEY_FLAGS = {"nullable", "computed", "required", "derived", "opaque", "closed"}
_KEY_LISTS = {"choices", "prepared", "nested"}

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Probed:
    """What one image holds.

    Attributes:
        name: where it was read from, for messages.
        versions: package name to version, e.g. "jaxlib" to "0.11.2".
        libraries: "cuda", "cudnn", "nccl", "driver" to version, as far as the image tells.
        maxtext: the keys of its MaxText; None when it has none or it could not be read.
        xla: the flags of its jaxlib; None likewise.
        environment: the variables it sets, XLA_FLAGS among them; secrets are never in it.
        python: its Python.
        architecture: e.g. "aarch64".
        gpus: name and memory (MiB) of each GPU its driver showed.
        devices: what JAX saw: "platform", "count", "kinds", "slice_indices"; empty when it
            was not asked or failed.
        labels: labels of the image, where a file tells them.
        maxtext_commit: the commit of its MaxText, where it is a checkout.
        missing: section to the reason why it is not there.
    """

    name: str
    versions: Mapping[str, str]
    libraries: Mapping[str, str]
    maxtext: Catalogue | None
    xla: XlaCatalogue | None
    environment: Mapping[str, str]
    python: str = ""
    architecture: str = ""
    gpus: tuple[tuple[str, int], ...] = ()
    devices: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    maxtext_commit: str = ""
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int | None:
        """Return the memory of its smallest GPU in bytes; None when none was seen."""
        return min((mib << 20 for _, mib in self.gpus), default=None)

    @property
    def baked_flags(self) -> str:
        """Return the text of XLA_FLAGS the image sets itself; empty when it sets none."""
        return self.environment.get("XLA_FLAGS", "")


def read_probe(text: str, name: str) -> Probed:
    """Read the output of the probe program.

    Args:
        text: what it printed.
        name: the file it stands in, for messages.

    Raises:
        SourceError: it is no such output, is damaged, or has another format; one sentence.
    """
    if len(text) > MAX_BYTES:
        raise SourceError(name, None, f"is larger than {MAX_BYTES} bytes: no probe prints that")
    try:
        data = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise SourceError(name, line, "is no output of `moectl probe`: no JSON") from None
    if not isinstance(data, dict) or "moectl_probe" not in data:
        raise SourceError(name, None, "is no output of `moectl probe`: it has no `moectl_probe`")
    if data["moectl_probe"] != FORMAT or isinstance(data["moectl_probe"], bool):
        found = shown(data["moectl_probe"])
        raise SourceError(
            name, None, f"has probe format {found}, and this moectl reads {FORMAT}: probe it again"
        )
    part = _Parts(name, data)
    maxtext, devices = part.mapping("maxtext"), part.mapping("devices")
    return Probed(
        name=name,
        versions=part.texts("versions"),
        libraries=part.texts("libraries"),
        maxtext=_maxtext(part, maxtext) if maxtext else None,
        xla=_xla(part, part.mapping("xla")),
        environment=part.texts("environment"),
        python=part.text("python"),
        architecture=part.text("architecture"),
        gpus=_gpus(part),
        devices=_devices(part, devices),
        labels=part.texts("labels"),
        maxtext_commit=str(maxtext.get("commit", "")),
        missing=part.texts("missing"),
    )


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


@dataclass(frozen=True, slots=True)
class _Parts:
    """Takes single sections out of the document, checking their form."""

    name: str
    data: Mapping[str, Any]

    def fault(self, section: str, what: str) -> SourceError:
        return SourceError(self.name, None, f"is a damaged probe: {section} {what}")

    def text(self, section: str) -> str:
        value = self.data.get(section, "")
        if not isinstance(value, str):
            raise self.fault(section, "is no text")
        return value

    def mapping(self, section: str) -> Mapping[str, Any]:
        value = self.data.get(section)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.fault(section, "is no mapping")
        return value

    def texts(self, section: str) -> Mapping[str, str]:
        values = self.mapping(section)
        for key, value in values.items():
            if not isinstance(value, str):
                raise self.fault(section, f"says something else than text of {shown(key)}")
        return values


class _Held:
    """Sections of the document as the files that a catalogue reads when first asked."""

    def __init__(self, name: str, sections: Mapping[str, Mapping[str, Any]]) -> None:
        self._name, self._sections = name, sections

    @property
    def name(self) -> str:
        return self._name

    def joinpath(self, *parts: str) -> _Held:
        return _Held("/".join(parts), self._sections)

    def is_dir(self) -> bool:
        return self._name not in self._sections

    def is_file(self) -> bool:
        return self._name in self._sections

    def read_text(self, encoding: str) -> str:  # noqa: ARG002 - the Folder protocol has it
        return json.dumps(self._sections[self._name])

    def read_bytes(self) -> bytes:
        return self.read_text("utf-8").encode()

    def iterdir(self) -> Iterator[Any]:
        return iter(())


def _maxtext(part: _Parts, data: Mapping[str, Any]) -> Catalogue:
    tables: dict[str, Mapping[str, Any]] = {}
    for table in ("keys", "nested", "axes", "base", "models"):
        value = data.get(table)
        if not isinstance(value, dict):
            raise part.fault("maxtext", f"has no mapping {table}")
        tables[table] = value
    if not tables["keys"]:
        raise part.fault("maxtext", "has no keys")
    rows = [(name, row, tables["keys"]) for name, row in tables["keys"].items()]
    for parent, inner in tables["nested"].items():
        if not isinstance(inner, dict) or parent not in tables["keys"]:
            raise part.fault("maxtext", f"nests something odd under {shown(parent)}")
        rows += [(name, row, inner) for name, row in inner.items()]
    for name, row, _ in rows:
        if not isinstance(row, dict) or (odd := _odd(row)):
            what = f" ({odd})" if isinstance(row, dict) else ""
            raise part.fault("maxtext", f"declares the key {shown(name)} in no known way{what}")
    for axis, sized in tables["axes"].items():
        if not isinstance(sized, dict) or not set(sized) <= {"ici", "dcn"}:
            raise part.fault("maxtext", f"sizes the axis {shown(axis)} in no known way")
        if not all(isinstance(key, str) for key in sized.values()):
            raise part.fault("maxtext", f"sizes the axis {shown(axis)} in no known way")
    for model, values in tables["models"].items():
        if not isinstance(values, dict):
            raise part.fault("maxtext", f"has no values for the model {shown(model)}")
    release = data.get("release")
    if not isinstance(release, str):
        raise part.fault("maxtext", "does not say its release")
    return Catalogue(
        release=release,
        source=f"probe {part.name}",
        _keys=tables["keys"],
        _nested=tables["nested"],
        _axes=tables["axes"],
        _folder=_Held(
            part.name,
            {"base.json": {"values": tables["base"]}, "models.json": {"models": tables["models"]}},
        ),
    )


def _odd(row: Row) -> str:
    """Return the field of a key's row that no catalogue writes, or ""."""
    checks: Sequence[tuple[set[str] | frozenset[str], Callable[[Any], bool]]] = (
        (_KEY_TEXT, lambda value: isinstance(value, str)),
        (_KEY_FLAGS, lambda value: isinstance(value, bool)),
        (_KEY_LISTS, lambda value: isinstance(value, list) and all(map(_plain, value))),
        (frozenset(BOUNDS), lambda value: isinstance(value, int | float)),
    )
    if "type" not in row:
        return "type"
    for name, value in row.items():
        if name not in _KEY_FIELDS:
            return str(name)
        if any(name in names and not fits(value) for names, fits in checks):
            return name
    return ""


def _plain(value: object) -> bool:
    return isinstance(value, _PLAIN)


def _xla(part: _Parts, data: Mapping[str, Any]) -> XlaCatalogue | None:
    if not data:
        return None
    release, flags = data.get("release"), data.get("flags")
    if not isinstance(release, str) or not isinstance(flags, dict):
        raise part.fault("xla", "has no release or no flags")
    if data.get("columns") != list(COLUMNS[1:]):
        raise part.fault("xla", f"has other columns than {', '.join(COLUMNS[1:])}")
    rows: dict[str, str] = {}
    for name, cells in flags.items():
        whole = isinstance(cells, list) and len(cells) == len(COLUMNS) - 1
        if not whole or not all(
            isinstance(cell, str) and "\t" not in cell and "\n" not in cell for cell in cells
        ):
            raise part.fault("xla", f"has no full row of the flag {shown(name)}")
        rows[name] = "\t".join(cells)
    return XlaCatalogue(release, f"probe {part.name}", rows)


def _gpus(part: _Parts) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    rows = part.data.get("gpus")
    for row in rows if isinstance(rows, list) else ():
        known = row if isinstance(row, dict) else {}
        title, memory = known.get("name"), known.get("memory_mib")
        if not isinstance(title, str) or not isinstance(memory, int) or memory <= 0:
            raise part.fault("gpus", "has a row without name and memory")
        found.append((title, memory))
    return tuple(found)


def _devices(part: _Parts, data: Mapping[str, Any]) -> Mapping[str, Any]:
    if data and not (
        isinstance(data.get("platform"), str)
        and isinstance(data.get("count"), int)
        and isinstance(data.get("kinds"), list)
        and isinstance(data.get("slice_indices"), list)
    ):
        raise part.fault("devices", "has not platform, count, kinds and slice_indices")
    return data
