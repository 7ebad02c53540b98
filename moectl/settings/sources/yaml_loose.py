"""Reads YAML as far as it can be read, and lists all that a strict reader would stop at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from moectl.errors import SourceError
from moectl.settings.yaml_source import MAX_NODES, TAB, Node, Place, Reader, nodes

MAX_TROUBLES = 200
"""Faults listed of one file; nobody reads more."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar as it stands in the file.

    Attributes:
        raw: its characters, quotes left out.
        style: "" for a plain one, else the quote or the block indicator it stands in.
        place: where it begins; for an alias, where its anchor stands.
    """

    raw: str
    style: str
    place: Place


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something a strict reader would stop at: what it is, one sentence, and where.

    Attributes:
        kind: "duplicate", "tab", "syntax" (the rest of the file is unread), "size" or "form".
        sentence: what is wrong.
        line: line from 1, when known.
        column: column from 1, when known.
        key: the key it is about, when it is about one.
    """

    kind: str
    sentence: str
    line: int | None = None
    column: int | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class LooseDocument:
    """One YAML document of any shape, read as far as it can be.

    Attributes:
        data: what it says; None stands for what cannot be read.
        line: the line it begins in, from 1.
        places: where the values stand, by their paths.
        scalars: the scalars as they stand in the file, by their paths.
        merges: where `<<` stands.
        unread: the paths of what cannot be read, of a value inside another as well as of it.
    """

    data: Any
    line: int
    places: dict[tuple[str | int, ...], Place]
    scalars: dict[tuple[str | int, ...], Scalar]
    merges: tuple[Place, ...] = ()
    unread: frozenset[tuple[str | int, ...]] = frozenset()


def read_documents(text: str, path: str) -> tuple[list[LooseDocument], list[Trouble]]:
    """Read every document of a YAML stream, and list all that is wrong with it.

    Of a key that stands twice the later one counts. What cannot be read is left out.

    Args:
        text: the file's content.
        path: its name, for messages.
    """
    documents: list[LooseDocument] = []
    troubles: list[Trouble] = []
    try:
        for node in nodes(text, path):
            reader = _LooseReader(path, troubles)
            try:
                data = reader.construct(node, ())
            except SourceError as error:
                troubles.append(Trouble("size", error.sentence, error.line))
                continue
            line = node.start_mark.line + 1
            documents.append(
                LooseDocument(
                    data,
                    line,
                    reader.places,
                    reader.scalars,
                    tuple(reader.merges),
                    frozenset(reader.unread),
                )
            )
    except SourceError as error:
        kind = "tab" if error.sentence == TAB else "syntax"
        troubles.append(Trouble(kind, error.sentence, error.line))
    return documents, troubles


class _LooseReader(Reader):
    """Leaves out what cannot be read, lists it, and keeps scalars as they stand."""

    def __init__(self, path: str, troubles: list[Trouble]) -> None:
        super().__init__(path)
        self.troubles = troubles
        self.scalars: dict[tuple[str | int, ...], Scalar] = {}
        self.merges: list[Place] = []
        self.unread: set[tuple[str | int, ...]] = set()

    def construct(self, node: Node, at: tuple[str | int, ...]) -> Any:
        mark = node.start_mark
        if node.id == "scalar":
            place = Place(mark.line + 1, mark.column + 1)
            self.scalars[at] = Scalar(node.value, node.style or "", place)
        try:
            return super().construct(node, at)
        except SourceError as error:
            if self.count > MAX_NODES:
                raise
            self.unread.update(at[:end] for end in range(len(at) + 1))
            if len(self.troubles) >= MAX_TROUBLES:
                return None
            column = mark.column + 1 if error.line == mark.line + 1 else None
            self.troubles.append(Trouble("form", error.sentence, error.line, column))
            return None

    def twice(self, node: Node, sentence: str) -> None:
        """List a key that stands twice."""
        mark = node.start_mark
        if len(self.troubles) >= MAX_TROUBLES:
            return
        self.troubles.append(
            Trouble("duplicate", sentence, mark.line + 1, mark.column + 1, node.value)
        )

    def merged(self, node: Node, at: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
        self.merges.append(Place(node.start_mark.line + 1, node.start_mark.column + 1))
        return super().merged(node, at)
