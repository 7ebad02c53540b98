"""Reads a container of a manifest: its variables, its command, and the script in its command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moectl.job import Origin
from moectl.settings.sources.manifest import LAYER, Reading
from moectl.settings.sources.pods import Path, entries
from moectl.workload import MARK, Piece, Text

REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_SHELL: Final = re.compile(r"(?:\S*/)?(?:ba|da|z|k|a)?sh")
_RUNS_TEXT: Final = re.compile(r"-[a-z]*c[a-z]*")
_UNKNOWN: Final = "${NOT_KNOWN_HERE}"
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


def environment(reading: Reading, path: Path, container: Mapping[str, Any]) -> dict[str, Text]:
    """Return the variables of a container as its processes get them.

    `$(NAME)` is replaced by what an earlier entry says, as Kubernetes does (core/v1 EnvVar,
    Kubernetes 1.33). Without one it is unknown here: `envFrom` may define it, and where nothing
    does a rule of its own says so.
    """
    found: dict[str, Text] = {}
    for entry in variables(path, container):
        if entry.value is None:
            origin = reading.manifest.at(*entry.path)
            found[entry.name] = Text((Piece(MARK, origin, "valueFrom"),))
            continue
        where = (*entry.path, "value")
        found[entry.name] = said(reading, where, entry.value, found, others=True)
    return found


def said(
    reading: Reading, path: Path, value: str, known: Mapping[str, Text], *, others: bool
) -> Text:
    """Return the text of a scalar with its references replaced, each line at its place."""
    origin = place(reading, path)
    scalar = reading.scalars.get(path)
    if scalar is None or scalar.style not in {"|", ">"}:
        return expanded(value, origin, known, others=others)
    pieces: list[Piece] = []
    for part, line, column in _block(value, scalar.style, origin.line or 1, reading.lines):
        where = Origin(LAYER, origin.file, line, column)
        pieces += expanded(part, where, known, others=others).pieces
    return Text(tuple(pieces))


def _block(
    value: str, style: str, first: int, lines: Sequence[str]
) -> Iterator[tuple[str, int, int]]:
    """Yield the parts of a block scalar with line and column; one part when they differ."""
    parts = value.splitlines(keepends=True) if style == "|" else value.split(" ")
    found: list[tuple[str, int, int]] = []
    number, column, end = first, 1, ""
    for part in parts:
        if style == ">":
            # A folded line goes on in the same line of the file, or begins the next one.
            line = lines[number - 1] if number <= len(lines) else ""
            at = line.find(part.rstrip("\n"), column - 1) if found else -1
            if at < 0 and found:
                number += 1
                line = lines[number - 1] if number <= len(lines) else ""
            at = max(at, line.find(part.rstrip("\n")))
            end = " "
        else:
            line = lines[number - 1] if number <= len(lines) else ""
            at = line.find(part.rstrip("\n"))
        found.append((part, number, max(at, 0) + 1))
        column = max(at, 0) + 1
        number += style == "|"
    last = len(found) - 1
    for index, (part, line_number, where) in enumerate(found):
        yield part + (end if index < last else ""), line_number, where


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


def place(reading: Reading, path: Path) -> Origin:
    """Return where the characters of a scalar begin, past its quote."""
    scalar = reading.scalars.get(path)
    near = reading.manifest.at(*path)
    if scalar is None:
        return near
    quote = 1 if scalar.style in {"'", '"'} else 0
    line = scalar.place.line + (1 if scalar.style in {"|", ">"} else 0)
    return Origin(LAYER, near.file, line, scalar.place.column + quote)


def words(
    reading: Reading, path: Path, container: Mapping[str, Any], known: Mapping[str, Text]
) -> tuple[list[Text], list[Path]]:
    """Return the words of `command` and `args`, and the path of each."""
    others = bool(container.get("envFrom"))
    texts: list[Text] = []
    paths: list[Path] = []
    for key in ("command", "args"):
        for index, word in enumerate(entries(container.get(key))):
            where = (*path, key, index)
            text = word if isinstance(word, str) else _plain(word)
            texts.append(said(reading, where, text, known, others=others))
            paths.append(where)
    return texts, paths


def script(texts: list[Text], paths: list[Path]) -> tuple[Path, str] | None:
    """Return path and text of what `bash -c` runs, None when the command is another one."""
    if not texts or not _SHELL.fullmatch(texts[0].text):
        return None
    for index, text in enumerate(texts[1:-1], 1):
        if _RUNS_TEXT.fullmatch(text.text):
            return paths[index + 1], texts[index + 1].text
        if not text.text.startswith("-"):
            return None
    return None


def laid_out(reading: Reading, path: Path, text: str) -> str:
    """Return a script with blank lines before it, so that its lines are those of the file.

    Args:
        reading: the document.
        path: of the scalar that holds the script.
        text: the script.
    """
    keeps = "<<" not in text and MARK not in text and "$(" not in text
    text = text.replace(MARK, _UNKNOWN)
    scalar = reading.scalars.get(path)
    if scalar is None:
        return text
    above = scalar.place.line - 1
    if scalar.style == "|":
        count = text.count("\n") + (not text.endswith("\n"))
        original = "\n".join(reading.lines[above + 1 : above + 1 + count])
        # Indentation means nothing to a shell but in here-documents; with it columns are right.
        return "\n" * (above + 1) + (original if keeps else text)
    if scalar.style == ">":
        return "\n" * (above + 1) + text
    quote = 1 if scalar.style in {"'", '"'} else 0
    return "\n" * above + " " * (scalar.place.column - 1 + quote) + text


def image(reading: Reading, path: Path, container: Mapping[str, Any]) -> Text | None:
    """Return the image of a container."""
    said = container.get("image")
    if not isinstance(said, str) or not said:
        return None
    return expanded(said, place(reading, (*path, "image")), {}, others=False)
