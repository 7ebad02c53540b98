"""What is found only when something is taken for granted, said as the doubt it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from moectl.findings import Finding
from moectl.settings.shell.maxtext import maxtext_commands
from moectl.settings.shell.modules import ARGUMENTS, BRANCHES
from moectl.settings.shell.worlds import CERTAIN, World, defaults_of
from moectl.values import Origin
from moectl.workload import Piece, Step, Text

_TOKEN = re.compile(r"\S+")
_MOST_NAMES = 3
_LARGEST = 200_000

Place = tuple[str, int | None, int | None]


@dataclass(frozen=True, slots=True)
class Doubts:
    """What one reading of a script took for granted.

    Attributes:
        world: what it takes for granted.
        worlds: what else is worth reading; none for a reading that is not certain.
        assumed: the variables whose defaults count.
        dropped: what was taken for no word, by the place of the command's module.
        possible: lines of branches that were taken by choice: (file, first, last).
        places: the variables whose defaults a place rests on.
        names: likewise of an environment variable.
    """

    world: World = CERTAIN
    worlds: tuple[World, ...] = ()
    assumed: frozenset[str] = frozenset()
    dropped: Mapping[Place, tuple[str, ...]] = field(default_factory=dict)
    possible: tuple[tuple[str, int, int], ...] = ()
    places: Mapping[Place, tuple[str, ...]] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def soften(certain: Iterable[Finding], likely: Iterable[Finding], doubts: Doubts) -> list[Finding]:
    """Return what only a reading that takes something for granted has found, as warnings.

    Args:
        certain: what is found anyway.
        likely: what is found when the script is read in the world of `doubts`.
        doubts: what that reading took for granted.

    Returns:
        Findings of `likely` that `certain` has not, each with the condition in words. Of a
        branch that was chosen only those that stand in it; of a command whose last words are
        not known none about what it does not say.
    """
    known = {_key(finding) for finding in certain}
    found: list[Finding] = []
    for finding in likely:
        if _key(finding) in known or finding.severity == "note":
            continue
        known.add(_key(finding))
        condition = _condition(finding, doubts)
        if condition:
            end = "." if finding.message.endswith(".") else ""
            message = f"{finding.message.removesuffix('.')}, {condition}{end}"
            found.append(replace(finding, severity="warning", message=message, fix=None))
    return found


def _key(finding: Finding) -> tuple[str, str, str, int | None]:
    return finding.code, finding.field, finding.file, finding.line


def _condition(finding: Finding, doubts: Doubts) -> str:
    """Return what must be so for a finding to hold; empty when it is not worth saying."""
    line = finding.line or 0
    if doubts.world.branch is not None:
        inside = any(f == finding.file and a <= line <= b for f, a, b in doubts.possible)
        return "if this branch is taken" if inside else ""
    place = (finding.file, finding.line, finding.column)
    if place in doubts.dropped:
        return ""
    names = doubts.places.get(place) or doubts.names.get(finding.field, ())
    if names:
        return _unless(names)
    open_words = tuple(dict.fromkeys(n for names in doubts.dropped.values() for n in names))
    return _unless((*open_words, *sorted(doubts.assumed)))


def _unless(names: Sequence[str]) -> str:
    said = [name for name in names if name in {ARGUMENTS, BRANCHES}]
    variables = [name for name in names if name not in said]
    shown = variables[:_MOST_NAMES]
    parts = [f"{' or '.join(said)} says otherwise"] if said else []
    if said == [ARGUMENTS]:
        parts = [f"{ARGUMENTS} say otherwise"]
    if shown:
        more = " or another variable" if len(variables) > len(shown) else ""
        parts.append(f"{' or '.join(_dollar(name) for name in shown)}{more} is set otherwise")
    return f"unless {' or '.join(parts)}" if parts else ""


def _dollar(name: str) -> str:
    return f"${name}" if name.isdigit() else name


def doubted(
    steps: Sequence[Step],
) -> tuple[dict[Place, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return which places, and which environment variables, rest on defaults."""
    places: dict[Place, tuple[str, ...]] = {}
    names: dict[str, tuple[str, ...]] = {}
    seen: set[int] = set()
    work = 0
    for origin, text in _options(steps):
        if rests := tuple(defaults_of(text.pieces)):
            places[origin.file, origin.line, origin.column] = rests
    for text, name in _texts(steps):
        work += len(text.pieces)
        if id(text) in seen or work > _LARGEST:
            continue
        seen.add(id(text))
        found = tuple(defaults_of(text.pieces))
        if not found:
            continue
        if name:
            names[name] = found
        for token in _tokens(text):
            if rests := tuple(defaults_of(token)):
                for piece in (token[0], *token):
                    origin = piece.origin
                    places.setdefault((origin.file, origin.line, origin.column), rests)
    return places, names


def _options(steps: Sequence[Step]) -> Iterator[tuple[Origin, Text]]:
    for step in steps:
        yield from ((o.origin, o.value) for o in step.options if o.value is not None)
        yield from _options(step.inside)


def _texts(steps: Sequence[Step]) -> Iterator[tuple[Text, str]]:
    for step in steps:
        for option in step.options:
            if option.value is not None:
                yield option.value, ""
        for word in step.words:
            yield word, ""
        for start in maxtext_commands(replace(step, inside=())):
            for word in start.words:
                yield word, ""
        for name, text in step.environment.items():
            yield text, name
        yield from _texts(step.inside)


def _tokens(text: Text) -> Iterator[list[Piece]]:
    """Yield the pieces of every word in a text."""
    token: list[Piece] = []
    for piece in text.pieces:
        blank = piece.text[:1].isspace()
        if blank and token:
            yield token
            token = []
        words = list(_TOKEN.finditer(piece.text))
        for number, word in enumerate(words):
            if number and token:
                yield token
                token = []
            column = piece.origin.column
            moved = 0 if piece.raw or column is None else word.start()
            origin = replace(piece.origin, column=column and column + moved)
            token.append(Piece(word.group(), origin, piece.raw))
        if piece.text[-1:].isspace() and token:
            yield token
            token = []
    if token:
        yield token
