"""The variables of a shell as far as they can be told without running it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from moectl.settings.shell.source import Source, cut, unknown
from moectl.settings.shell.syntax import Function
from moectl.settings.shell.worlds import Notes
from moectl.workload import MARK, Piece, Text

MAX_PIECES = 4096
MAX_CHARACTERS = 1 << 20
MAX_WORK = 400_000


class ReadingStopped(Exception):  # noqa: N818 - the reading stops, nothing is wrong
    """The script is too large or too deep to be followed further; never leaves this package."""


@dataclass(slots=True)
class Budget:
    """How much work a reading may still do, which keeps hostile scripts linear; and its notes."""

    left: int = MAX_WORK
    depth: int = 0
    notes: Notes = field(default_factory=Notes)

    def spend(self, amount: int) -> None:
        """Count work, or stop."""
        self.left -= amount + 1
        if self.left < 0:
            raise ReadingStopped


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that the script has set or unset.

    Attributes:
        text: its value; None when it is certainly unset.
        items: the values of an array.
        exported: whether started commands get it.
        filled: whether it is certainly not empty, although nobody knows its value.
    """

    text: Text | None
    items: tuple[Text, ...] | None = None
    exported: bool = False
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, the source it stands in, and whether it is certainly the one called."""

    function: Function
    source: Source
    certain: bool = True


@dataclass(slots=True)
class State:
    """What a shell knows at one point of a script.

    Attributes:
        variables: those that were set or unset; any other comes from outside.
        functions: the functions by name.
        scripts: texts that here-documents wrote, by the path as written.
        arguments: the positional parameters; None when they come from outside.
        exports_all: whether `set -a` holds.
        ended: whether the shell has ended here, so that nothing after it runs.
        returned: whether the function has, likewise.
    """

    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Definition] = field(default_factory=dict)
    scripts: dict[str, Text] = field(default_factory=dict)
    arguments: tuple[Text, ...] | None = None
    exports_all: bool = False
    ended: bool = False
    returned: bool = False

    @property
    def gone(self) -> bool:
        """Whether what comes next does not run."""
        return self.ended or self.returned

    def copy(self, budget: Budget) -> State:
        """Return a state that can change by itself."""
        budget.spend(len(self.variables) + len(self.functions) + len(self.scripts))
        return replace(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            scripts=dict(self.scripts),
        )

    def become(self, other: State) -> None:
        """Take over everything from another state."""
        self.variables, self.functions = other.variables, other.functions
        self.scripts, self.arguments = other.scripts, other.arguments
        self.exports_all = other.exports_all
        self.ended, self.returned = other.ended, other.returned

    def assign(
        self, name: str, text: Text, items: tuple[Text, ...] | None = None, *, export: bool = False
    ) -> None:
        """Set a variable; it stays exported when it was."""
        before = self.variables.get(name)
        exported = export or self.exports_all or (before is not None and before.exported)
        if len(text.pieces) > MAX_PIECES or sum(len(p.text) for p in text.pieces) > MAX_CHARACTERS:
            text = unknown(text.origin)
        self.variables[name] = Variable(text, items, exported)

    def exported(self) -> dict[str, Text]:
        """Return the variables that a started command gets from here."""
        return {
            name: variable.text
            for name, variable in self.variables.items()
            if variable.exported and variable.text is not None
        }


def merge(states: Iterable[State], budget: Budget) -> State | None:
    """Return what is known where several ways meet; None when none of them goes on.

    A variable keeps its value when all ways agree; else it keeps what they begin with.
    """
    alive = [state for state in states if not state.gone]
    if len(alive) <= 1:
        return alive[0] if alive else None
    first, *others = alive
    names = dict.fromkeys(name for state in alive for name in state.variables)
    budget.spend(len(names) * len(alive))
    variables: dict[str, Variable] = {}
    for name in names:
        found = [state.variables.get(name) for state in alive]
        merged = found[0]
        for other in found[1:]:
            if merged is not other:
                merged = _either(merged, other)
        if merged is not None:
            variables[name] = merged
    return State(
        variables,
        _functions(alive),
        {n: t for n, t in first.scripts.items() if all(s.scripts.get(n) is t for s in others)},
        first.arguments if all(s.arguments == first.arguments for s in others) else None,
        exports_all=first.exports_all and all(state.exports_all for state in others),
    )


def _functions(states: Sequence[State]) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for state in states:
        for name, definition in state.functions.items():
            same = all(other.functions.get(name) is definition for other in states)
            found[name] = definition if same else replace(definition, certain=False)
    return found


def _either(one: Variable | None, two: Variable | None) -> Variable | None:
    if one is None or two is None:
        # On the other way it comes from outside: anything, or nothing.
        there = one or two
        assert there is not None  # noqa: S101 - the caller asks for two that differ
        if there.text is None:
            return None
        return Variable(unknown(there.text.origin), exported=there.exported)
    exported = one.exported or two.exported
    if one.text is None or two.text is None:
        text = one.text or two.text
        return Variable(text and unknown(text.origin), exported=exported)
    if one.text.text == two.text.text and one.text.known and _items(one) == _items(two):
        return Variable(one.text, one.items, exported)
    if one.items and two.items is not None:
        return _common(one.items, two.items, exported=exported)
    return Variable(_beginning(one.text, two.text), exported=exported)


def _items(variable: Variable) -> list[str] | None:
    return None if variable.items is None else [item.text for item in variable.items]


def _common(one: Sequence[Text], two: Sequence[Text], *, exported: bool) -> Variable:
    """Return the items that both arrays begin with, and one that stands for any others."""
    length = 0
    for a, b in zip(one, two, strict=False):
        if a.text != b.text or not a.known:
            break
        length += 1
    place = (one if len(one) > len(two) else two)[min(length, max(len(one), len(two)) - 1)].origin
    items = (*one[:length], unknown(place))
    return Variable(items[0], items, exported)


def _beginning(one: Text, two: Text) -> Text:
    """Return what both texts begin with, and an unknown rest.

    A rest that is a word of its own stays so, or its last word would be lost.
    """
    left, right = one.text, two.text
    length = 0
    for a, b in zip(left, right, strict=False):
        if a != b or a == MARK:
            break
        length += 1
    separate = all(not rest or rest[0].isspace() for rest in (left[length:], right[length:]))
    longer = one if len(left) > len(right) else two
    place = longer.at(length)
    rest = [Piece(" ", place, " ")] if separate and length else []
    return Text((*cut(one.pieces, 0, length), *rest, Piece(MARK, place)))
