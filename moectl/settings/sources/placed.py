"""Moves what was read of a text inside a file to the lines of that file.

A script in a manifest is read as a text of its own, from line 1. The places in what comes of it
are then those of the text, and are put where its characters stand in the manifest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from moectl.findings import Finding
from moectl.values import Origin
from moectl.workload import MARK, Manifest, Piece

if TYPE_CHECKING:
    from moectl.settings.shell import Doubts

T = TypeVar("T")
Place = tuple[str, int | None, int | None]
UNKNOWN_WORD: Final = "${NOT_KNOWN_HERE}"
"""Stands in a script for what is not known: the shell gets it from outside."""


class Inner:
    """A text put together from pieces of a file.

    Attributes:
        text: its characters, `UNKNOWN_WORD` for what is not known.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        made = [
            Piece(UNKNOWN_WORD, piece.origin, piece.raw or MARK) if piece.text == MARK else piece
            for piece in pieces
            if piece.text
        ]
        self._pieces = made
        self._starts = list(accumulate((len(piece.text) for piece in made), initial=0))
        self.text = "".join(piece.text for piece in made)
        ends = (at for at, char in enumerate(self.text, 1) if char == "\n")
        self._lines = [0, *ends]

    def place(self, line: int | None, column: int | None) -> Origin:
        """Return where a place of the text, line and column from 1, stands in the file."""
        if not self._pieces:
            return Origin("nowhere")
        number = min(max((line or 1) - 1, 0), len(self._lines) - 1)
        offset = min(self._lines[number] + (column or 1) - 1, max(len(self.text) - 1, 0))
        index = min(bisect_right(self._starts, offset), len(self._pieces)) - 1
        piece = self._pieces[index]
        origin = piece.origin
        if piece.raw or origin.column is None:
            return origin
        return replace(origin, column=origin.column + offset - self._starts[index])


class Mover:
    """Puts everything that names one of some texts where it stands in the file.

    Args:
        inner: the texts, by the name under which they were read.
    """

    def __init__(self, inner: Mapping[str, Inner]) -> None:
        self._inner = inner
        self._made: dict[int, tuple[Any, Any]] = {}  # the original is kept, so that ids stay

    def __call__(self, thing: T) -> T:
        """Return a thing (a finding, step, text, mapping of values, ...) with its places moved."""
        if isinstance(thing, str | int | float | bool | None | Manifest):
            return thing  # what a manifest knows of its places is right
        if id(thing) not in self._made:
            self._made[id(thing)] = thing, self._moved(thing)
        return cast("T", self._made[id(thing)][1])

    def doubts(self, doubts: Doubts) -> Doubts:
        """Return what a reading took for granted with its places moved."""
        return replace(
            doubts,
            dropped=self._keys(doubts.dropped),
            places=self._keys(doubts.places),
            possible=tuple(map(self._lines, doubts.possible)),
        )

    def _keys(self, found: Mapping[Place, tuple[str, ...]]) -> dict[Place, tuple[str, ...]]:
        moved: dict[Place, tuple[str, ...]] = {}
        for (file, line, column), names in found.items():
            at = self(Origin(file, file, line, column))
            moved[at.file or file, at.line, at.column] = names
        return moved

    def _lines(self, branch: tuple[str, int, int]) -> tuple[str, int, int]:
        file, first, last = branch
        ends = [self(Origin(file, file, line, 1)) for line in (first, last)]
        return ends[0].file or file, ends[0].line or first, ends[1].line or last

    def _moved(self, thing: Any) -> Any:
        if isinstance(thing, Origin):
            inner = self._inner.get(thing.file or "")
            if inner is None:
                return thing
            at = inner.place(thing.line, thing.column)
            return replace(at, layer=thing.layer if thing.layer != thing.file else at.layer)
        if isinstance(thing, Finding):
            inner = self._inner.get(thing.file)
            if inner is None:
                return thing
            at = inner.place(thing.line, thing.column)
            # What a fix replaces is not what stands in the file.
            return replace(
                thing,
                message=thing.message.replace(MARK, ""),
                file=at.file or at.layer,
                line=at.line,
                column=at.column,
                fix=None,
            )
        if isinstance(thing, tuple | list):
            return type(thing)(self(entry) for entry in thing)
        if isinstance(thing, Mapping):
            return {key: self(value) for key, value in thing.items()}
        if is_dataclass(thing) and not isinstance(thing, type):
            changed = {
                field.name: moved
                for field in fields(thing)
                if field.init and (moved := self(old := getattr(thing, field.name))) is not old
            }
            return replace(thing, **changed) if changed else thing
        return thing
