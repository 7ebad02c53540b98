"""What one reading takes for granted, and what it notes on the way.

A script leaves things open: variables that somebody may set, arguments, branches. A reading
that is certain keeps all of that unknown. Another reading may take what is most likely: that
nobody sets what has a default, that no argument is given, that a branch is taken. What only
such a reading finds is no more than a warning (see `moectl.settings.shell.doubts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from moectl.values import Origin
from moectl.workload import Piece, Text

MAX_BRANCHES = 4
"""Branches of one choice that are read one after the other; further ones are not."""

MAX_FILES = 16
MAX_FILE_DEPTH = 4
MAX_READS = 2
"""How often one file is followed: a helper that is run in every line is no job."""

_DEFAULT = ", default of "


@dataclass(frozen=True, slots=True)
class World:
    """What a reading takes for granted.

    Attributes:
        assumes: whether a variable with a default has it, and what may be no word is none.
        branch: which of its branches an open choice takes, from 0; None when it stays open.
    """

    assumes: bool = False
    branch: int | None = None


CERTAIN = World()
LIKELY = World(assumes=True)


@dataclass(frozen=True, slots=True)
class ShellFault:
    """A command that a shell refuses, or reads otherwise than it looks.

    Attributes:
        kind: see `moectl.rules.shell`.
        subject: the word it is about.
        detail: what else the kind needs to be said.
        origin: where it stands.
        conditional: whether it stands in a branch that may not be taken.
    """

    kind: str
    subject: str
    detail: str
    origin: Origin
    conditional: bool = False


@dataclass(slots=True)
class Notes:
    """What a reading notes.

    Attributes:
        world: what it takes for granted.
        faults: what a shell refuses.
        assumed: variables whose default counts, or would.
        leaned: whether the last verdict rests on a variable that nobody sets.
        dropped: names of words that were taken for none, by the start they belong to.
        bodies: the most branches that an open choice has.
        possible: lines of branches that were taken by choice: (file, first, last).
        files: texts that here-documents wrote, by their path.
        told: sentences about files that could not be had.
        after_start: whether only assignments stand between here and a start of MaxText.
        open_file: gives the text of a file beside the script, or None.
        folder: the folder of the script, as part of its name.
        chain: the files that are being read.
        opened: how often each was.
        texts: what stands in them.
        starts: whether MaxText is started.
    """

    world: World = CERTAIN
    faults: dict[ShellFault, None] = field(default_factory=dict)
    assumed: dict[str, None] = field(default_factory=dict)
    leaned: bool = False
    dropped: dict[Origin, tuple[str, ...]] = field(default_factory=dict)
    bodies: int = 0
    possible: list[tuple[str, int, int]] = field(default_factory=list)
    files: dict[str, Text] = field(default_factory=dict)
    told: dict[str, None] = field(default_factory=dict)
    after_start: bool = False
    open_file: Callable[[str], str | None] | None = None
    folder: str = ""
    chain: list[str] = field(default_factory=list)
    opened: dict[str, int] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    starts: bool = False

    def others(self) -> tuple[World, ...]:
        """Return what else is worth reading; nothing when no setting of a job is in sight."""
        found: list[World] = []
        if self.assumed or self.dropped:
            found.append(LIKELY)
        count = min(self.bodies, MAX_BRANCHES)
        return (*found, *(World(assumes=True, branch=number) for number in range(count)))


def as_default(text: Text, name: str) -> Text:
    """Return a text whose pieces say that they are the default of a variable."""
    return Text(
        tuple(
            Piece(
                piece.text,
                replace(piece.origin, layer=f"{piece.origin.layer}{_DEFAULT}{name}"),
                piece.raw,
            )
            for piece in text.pieces
        )
    )


def defaults_of(pieces: Iterable[Piece]) -> dict[str, None]:
    """Return the variables whose defaults some pieces are, in order."""
    return dict.fromkeys(
        name for piece in pieces for name in piece.origin.layer.split(_DEFAULT)[1:]
    )
