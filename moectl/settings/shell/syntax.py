"""The syntax tree of a shell script, as far as reading a job needs it.

Positions are offsets into the text that was parsed; `moectl.settings.shell.source` turns
them into places of a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

# Nobody compares or prints a node, so no code is made for it when moectl starts.


@dataclass(slots=True, eq=False, repr=False)
class Part:
    """One part of a word.

    Attributes:
        kind: "text" (characters of the source), "char" (an escape; see `text`), "parameter",
            "command" (a substitution), "arithmetic", or "tilde".
        start, end: what it covers in the source; for quoted text without the quotes.
        quoted: whether it stands in quotes, so that it is neither split nor globbed.
        text: what an escape stands for.
        name: the parameter's name.
        operator: what follows the name in braces, e.g. ":-"; "#" first for a length.
        index: the subscript in brackets, or "".
        word: the word after the operator.
        body: the commands of a substitution.
    """

    kind: str
    start: int
    end: int
    quoted: bool = False
    text: str = ""
    name: str = ""
    operator: str = ""
    index: str = ""
    word: Word | None = None
    body: list[Item] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Word:
    """A word: its parts in order."""

    parts: list[Part]
    start: int
    end: int


@dataclass(slots=True, eq=False, repr=False)
class Assignment:
    """NAME=value, NAME+=value or NAME=(a b c).

    Attributes:
        index: the subscript of NAME[index]=value, or "".
        word: the value; None for an array.
        items: the values of an array.
    """

    name: str
    start: int
    append: bool
    index: str = ""
    word: Word | None = None
    items: list[Word] | None = None


@dataclass(slots=True, eq=False, repr=False)
class HereDocument:
    """A here-document.

    Attributes:
        delimiter: the line that ends it.
        literal: whether the delimiter is quoted, so that nothing in it is expanded.
        tabs: whether leading tabs are dropped (`<<-`).
        start, end: its lines in the source.
        parts: its text with expansions, when it is not literal.
    """

    delimiter: str
    literal: bool
    tabs: bool
    start: int = 0
    end: int = 0
    parts: list[Part] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Redirect:
    """A redirection: its operator without the descriptor, and what it goes to."""

    operator: str
    descriptor: str
    target: Word | None
    document: HereDocument | None = None


@dataclass(slots=True, eq=False, repr=False)
class Simple:
    """A simple command.

    Attributes:
        assignments: those in front of the first word.
        words: the words.
        declared: assignments among the words of export, declare and the like.
    """

    start: int
    assignments: list[Assignment] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    declared: list[Assignment] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Group:
    """`{ ...; }`, or `( ... )` when it is a subshell."""

    start: int
    body: list[Item]
    subshell: bool
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class If:
    """`if`: conditions with their bodies, and the `else` body or None."""

    start: int
    branches: list[tuple[list[Item], list[Item]]]
    otherwise: list[Item] | None
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Loop:
    """`while`, `until`, `for` and `select`.

    Attributes:
        condition: of a `while` or `until`.
        name: the variable of a `for`.
        words: what a `for` goes over; None for the positional parameters or anything else.
    """

    start: int
    condition: list[Item]
    name: str
    words: list[Word] | None
    body: list[Item]
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Case:
    """`case`: its patterns with their bodies; `falls` when one ends with `;&` or `;;&`."""

    start: int
    word: Word
    branches: list[tuple[list[Word], list[Item]]]
    falls: bool = False
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Function:
    """A function definition."""

    start: int
    name: str
    body: Command
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Test:
    """`[[ ... ]]` with its words, when they are joined by no operator, or `(( ... ))`."""

    start: int
    end: int
    words: list[Word] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


Command: TypeAlias = Simple | Group | If | Loop | Case | Function | Test


@dataclass(slots=True, eq=False, repr=False)
class Pipeline:
    """Commands joined by `|`; `negated` with a `!` in front."""

    commands: list[Command]
    negated: bool


@dataclass(slots=True, eq=False, repr=False)
class Item:
    """Pipelines joined by `&&` and `||`: the first has the joint "".

    Attributes:
        background: whether it ends with `&`.
    """

    pipelines: list[tuple[str, Pipeline]]
    background: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Slip:
    """Text that a shell reads otherwise than it looks.

    Attributes:
        kind: "blank" (a blank behind the backslash that should continue a line) or "rest" (a
            comment or an empty line ends a continued command, and more of it seems to follow).
        offset: where.
        cause: where the reason stands.
    """

    kind: str
    offset: int
    cause: int


@dataclass(slots=True, eq=False, repr=False)
class Parsed:
    """A script as read.

    Attributes:
        items: its commands.
        trouble: where a shell would stop reading it, or None.
        slips: what is read otherwise than it looks.
        documents: the lines of its here-documents, as offsets.
    """

    items: list[Item]
    trouble: Trouble | None
    slips: list[Slip]
    documents: list[tuple[int, int]]


@dataclass(slots=True, eq=False, repr=False)
class Trouble:
    """Where reading stops, and why, as one clause.

    Attributes:
        certain: whether a shell would stop there, too, and not only this reader.
    """

    offset: int
    clause: str
    certain: bool
