"""Reads Kubernetes manifests: every document of a file, lists opened, templates made plain."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from moectl.errors import shown
from moectl.facts.yaml_facts import read as read_fact
from moectl.findings import Finding
from moectl.settings.sources.scalars import placed_scalar
from moectl.settings.sources.source import MAX_PARTS, finding, unjudged
from moectl.settings.sources.templated import HOLE, Plain, make_plain
from moectl.settings.sources.yaml_loose import LooseDocument, Scalar, Trouble, read_documents
from moectl.settings.yaml_source import Place
from moectl.values import Origin
from moectl.workload import MARK, Manifest, Piece

LAYER: Final = "manifest"
TEMPLATE: Final = (MARK,)
"""A path in `Manifest.places` that is there when the document is a template, so that nothing
can be told from what it does not say."""

SEEN: Final = (MARK, "seen")
"""A path in `Manifest.places` that is there when an earlier part of the file stands in the same
document, so that what is wrong with the document is found already."""

FACTS: Final = "kubernetes.yaml"
_CODES: Final = {"syntax": "YAML101", "duplicate": "YAML102", "tab": "YAML103"}
MAX_ITEMS: Final = MAX_PARTS
Path = tuple[str | int, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """One document as read.

    Attributes:
        manifest: the document.
        scalars: how its scalars stand in the file.
        lines: the lines of the file.
        template: what kind of template it is; empty when it is none.
    """

    manifest: Manifest
    scalars: Mapping[Path, Scalar]
    lines: Sequence[str] = ()
    template: str = ""


def read_manifests(text: str, path: str) -> tuple[list[Reading], list[Finding]]:
    """Return the documents of a file, and what is wrong with them as YAML.

    A placeholder of a template is an unknown piece, `MARK`, in the text it stands in.
    """
    plain = make_plain(text)
    documents, troubles = read_documents(plain.text, path)
    findings = list(_of_template(plain, path))
    findings += [_of_trouble(trouble, plain, path) for trouble in troubles]
    lines = plain.text.split("\n")
    readings = []
    for document in documents:
        readings += [replace(reading, lines=lines) for reading in _readings(document, plain, path)]
        if (item := document.places.get(("items", MAX_ITEMS))) is not None:
            origin = Origin(LAYER, path, item.line, item.column)
            findings.append(unjudged("items", "items in a list", origin))
    return readings, findings


def scalar_pieces(reading: Reading, path: Path, value: str) -> list[Piece]:
    """Return the text of a scalar in pieces, each at its place in the file."""
    near = reading.manifest.at(*path)
    scalar = reading.scalars.get(path)
    if scalar is None:
        return [Piece(value, near)]
    line = scalar.place.line + (1 if scalar.style in {"|", ">"} else 0)
    return placed_scalar(value, scalar.style, reading.lines, line, scalar.place.column, near)


def steers_between(manifest: Manifest, one: Origin, two: Origin) -> bool:
    """Whether a template decides, between two places, which of them is rendered."""
    first, last = sorted((one.line or 0, two.line or 0))
    return any((MARK, line) in manifest.places for line in range(first + 1, last))


def is_template(manifest: Manifest) -> bool:
    """Whether a document is a template, so that what it lacks may come when it is rendered."""
    return TEMPLATE in manifest.places


def _of_template(plain: Plain, path: str) -> Iterator[Finding]:
    if plain.tool:
        yield finding(
            "K8S101",
            "note",
            "template",
            f"this is {plain.tool}: what is filled in later is not known, and rules that need "
            "it are silent.",
            "render it and check the result, e.g. helm template … | moectl validate -",
            Origin(LAYER, path, plain.line, 1),
        )


def _of_trouble(trouble: Trouble, plain: Plain, path: str) -> Finding:
    origin = Origin(LAYER, path, trouble.line, trouble.column)
    severity: Any = "error"
    hint = "mend the line"
    sentence = f"{trouble.sentence[0].upper()}{trouble.sentence[1:]}."
    if plain.tool:
        severity = "note"
        hint = "render it and check the result"
        sentence = f"from here on it cannot be read before it is rendered ({trouble.sentence})."
    code = _CODES.get(trouble.kind, "YAML110")
    return finding(code, severity, trouble.key or "YAML", sentence, hint, origin)


def _readings(document: LooseDocument, plain: Plain, path: str) -> Iterator[Reading]:
    data = _marked(document.data, document.unread)
    if not isinstance(data, dict) or not data:
        return
    items = data.get("items")
    if not (str(data.get("kind", "")).endswith("List") and isinstance(items, list)):
        yield _reading(data, document.places, document.scalars, plain, path)
        return
    places = _by_item(document.places)
    scalars = _by_item(document.scalars)
    for index, item in enumerate(items[:MAX_ITEMS]):
        if isinstance(item, dict):
            yield _reading(item, places.get(index, {}), scalars.get(index, {}), plain, path)


def _by_item(found: Mapping[Path, T]) -> dict[int, dict[Path, T]]:
    """Return what stands in each item of a list, its path counted from the item."""
    items: dict[int, dict[Path, T]] = {}
    for where, thing in found.items():
        if len(where) > 1 and where[0] == "items" and isinstance(where[1], int):
            items.setdefault(where[1], {})[where[2:]] = thing
    return items


def _reading(
    data: dict[str, Any],
    places: Mapping[Path, Place],
    scalars: Mapping[Path, Scalar],
    plain: Plain,
    path: str,
) -> Reading:
    origins = {
        where: Origin(LAYER, path, place.line, place.column) for where, place in places.items()
    }
    if plain.tool:
        origins[TEMPLATE] = Origin(LAYER, path, plain.line, 1)
        origins |= {(MARK, line): Origin(LAYER, path, line, 1) for line in plain.controls}
    return Reading(Manifest(data, origins), scalars, template=plain.tool)


def _marked(value: Any, unread: Collection[Path], at: Path = ()) -> Any:
    """Return the data with `MARK` for every placeholder, and for what cannot be read."""
    if isinstance(value, str):
        return value.replace(HOLE, MARK)
    if isinstance(value, dict):
        return {
            key.replace(HOLE, MARK): _marked(inside, unread, (*at, key))
            for key, inside in value.items()
        }
    if isinstance(value, list):
        return [_marked(entry, unread, (*at, index)) for index, entry in enumerate(value)]
    return MARK if value is None and at and at in unread else value


def unread_kind(manifest: Manifest) -> Finding | None:
    """Return a note on a kind that is recognised and not read in depth."""
    kind = str(manifest.data.get("kind", ""))
    starter = read_fact(FACTS)["others"].get(kind)
    if starter is None:
        return None
    return finding(
        "K8S102",
        "note",
        "kind",
        f"{shown(kind)} is started by {starter}; its containers are looked at, its layout of "
        "processes is not read.",
        "give --gpus and --gpus-per-node for what the layout would say",
        manifest.at("kind"),
    )
