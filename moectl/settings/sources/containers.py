"""Reads a container of a manifest: its variables, its command, and the script in its command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moectl.settings.sources.config_maps import Maps, from_key, from_maps
from moectl.settings.sources.manifest import Reading, scalar_pieces
from moectl.settings.sources.pods import Path, entries
from moectl.values import Origin
from moectl.workload import MARK, Piece, Text

REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_SHELL: Final = re.compile(r"(?:\S*/)?(?:ba|da|z|k|a)?sh")
_RUNS_TEXT: Final = re.compile(r"-[a-z]*c[a-z]*")
_LONGEST: Final = 20_000
_CHUNKS: Final = re.compile(f"{MARK}|[^{MARK}]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a container's `env`.

    Attributes:
        name: the variable.
        value: as written; None when it comes from elsewhere.
        path: of the entry in the document.
        index: its place in the list.
    """

    name: str
    value: str | None
    path: Path
    index: int


def variables(path: Path, container: Mapping[str, Any]) -> list[Entry]:
    """Return the entries of `env` in order."""
    found = []
    for index, entry in enumerate(entries(container.get("env"))):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            continue
        value = entry.get("value", "" if "valueFrom" not in entry else None)
        text = None if value is None else value if isinstance(value, str) else _plain(value)
        found.append(Entry(entry["name"], text, (*path, "env", index), index))
    return found


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def environment(
    reading: Reading, path: Path, container: Mapping[str, Any], maps: Maps
) -> dict[str, Text]:
    """Return the variables of a container as its processes get them.

    `$(NAME)` is replaced by what an earlier entry says, as Kubernetes does (core/v1 EnvVar,
    Kubernetes 1.33). Without one it is unknown here: `envFrom` may define it, and where nothing
    does a rule of its own says so.
    """
    found, _ = from_maps(container, maps)
    listed = entries(container.get("env"))
    own: dict[str, Text] = {}
    for entry in variables(path, container):
        if entry.value is None:
            text = from_key(listed[entry.index], maps)
            origin = reading.manifest.at(*entry.path)
            own[entry.name] = text or Text((Piece(MARK, origin, "valueFrom"),))
            continue
        where = (*entry.path, "value")
        own[entry.name] = said(reading, where, entry.value, own, others=True)
    return {**found, **own}


def said(
    reading: Reading, path: Path, value: str, known: Mapping[str, Text], *, others: bool
) -> Text:
    """Return the text of a scalar with its references replaced, each line at its place."""
    pieces: list[Piece] = []
    for piece in scalar_pieces(reading, path, value):
        made = (piece,) if piece.raw else _expanded(piece, known, others=others)
        pieces += made
    return Text(tuple(pieces) or (Piece("", reading.manifest.at(*path)),))


def _expanded(piece: Piece, known: Mapping[str, Text], *, others: bool) -> tuple[Piece, ...]:
    return expanded(piece.text, piece.origin, known, others=others).pieces


def expanded(text: str, origin: Origin, known: Mapping[str, Text], *, others: bool) -> Text:
    """Return a text with its `$(NAME)` references replaced.

    Args:
        text: as written.
        origin: where it begins.
        known: the variables defined so far.
        others: whether variables may be defined that are not known here.
    """
    pieces: list[Piece] = []
    start = 0
    for found in REFERENCE.finditer(text):
        pieces += _pieces(text[start : found.start()], origin, start)
        start = found.end()
        name = found[1]
        if name is None:
            pieces.append(Piece("$", _moved(origin, found.start()), "$$"))
        elif name in known:
            inside = known[name].text
            if len(inside) > _LONGEST:
                inside = MARK  # references to references grow without end
            pieces += [
                Piece(chunk, _moved(origin, found.start()), found[0])
                for chunk in _CHUNKS.findall(inside)
            ]
        elif others:
            pieces.append(Piece(MARK, _moved(origin, found.start()), found[0]))
        else:
            pieces += _pieces(found[0], origin, found.start())
    pieces += _pieces(text[start:], origin, start)
    return Text(tuple(pieces) or (Piece("", origin),))


def _pieces(text: str, origin: Origin, offset: int) -> Iterator[Piece]:
    at = offset
    for chunk in _CHUNKS.findall(text):
        raw = "{{…}}" if chunk == MARK else ""
        yield Piece(chunk, _moved(origin, at), raw)
        at += len(chunk)


def _moved(origin: Origin, columns: int) -> Origin:
    if origin.column is None:
        return origin
    return Origin(origin.layer, origin.file, origin.line, origin.column + columns)


def words(
    reading: Reading,
    path: Path,
    container: Mapping[str, Any],
    known: Mapping[str, Text],
    *,
    others: bool,
) -> list[Text]:
    """Return the words of `command` and `args`.

    Args:
        reading: the document.
        path: of the container in it.
        container: its data.
        known: its variables.
        others: whether it has others, which are not known.
    """
    texts: list[Text] = []
    for key in ("command", "args"):
        for index, word in enumerate(entries(container.get(key))):
            where = (*path, key, index)
            text = word if isinstance(word, str) else _plain(word)
            texts.append(said(reading, where, text, known, others=others))
    return texts


def script(texts: Sequence[Text]) -> Text | None:
    """Return what `bash -c` runs, None when the command is another one."""
    if not texts or not _SHELL.fullmatch(texts[0].text):
        return None
    for index, text in enumerate(texts[1:-1], 1):
        if _RUNS_TEXT.fullmatch(text.text):
            return texts[index + 1]
        if not text.text.startswith("-"):
            return None
    return None


def file_run(texts: Sequence[Text]) -> str | None:
    """Return the path of the script that a command runs: `bash x.sh`, or `/x.sh`; None else."""
    words = [text.text for text in texts]
    if words and _SHELL.fullmatch(words[0]):
        words = words[1:]
        while words and words[0].startswith("-") and not _RUNS_TEXT.fullmatch(words[0]):
            words = words[1:]
    return words[0] if words and MARK not in words[0] else None


def image(reading: Reading, path: Path, container: Mapping[str, Any]) -> Text | None:
    """Return the image of a container."""
    name = container.get("image")
    if not isinstance(name, str) or not name:
        return None
    return said(reading, (*path, "image"), name, {}, others=False)
