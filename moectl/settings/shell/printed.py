"""What substitutions print that can be told without running them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moectl.settings.shell import patterns
from moectl.settings.shell.source import cut, joined
from moectl.settings.shell.syntax import Command, Part, Simple
from moectl.workload import MARK, Piece, Text

if TYPE_CHECKING:
    from moectl.settings.shell.interfaces import Expanding

Pieces = tuple[Piece, ...]


def printed(expander: Expanding, part: Part) -> Pieces | None:
    """Return what `$(cat <<EOF ...)` and `$(echo ... | tr a b)` print.

    The line ends behind it are cut off.
    """
    if len(part.body) != 1 or len(part.body[0].pipelines) != 1 or part.body[0].background:
        return None
    first, *rest = part.body[0].pipelines[0][1].commands
    text = _output(expander, first)
    for command in rest:
        text = _filtered(expander, text, command)
    return None if text is None else cut(text.pieces, 0, len(text.text.rstrip("\n")))


def _program(expander: Expanding, command: Command) -> tuple[str, Simple] | None:
    """Return the name of a plain command that no function stands for."""
    if not isinstance(command, Simple) or not command.words or command.assignments:
        return None
    word = command.words[0]
    name = expander.source.text[word.start : word.end]
    return None if name in expander.state.functions else (name, command)


def _output(expander: Expanding, command: Command) -> Text | None:
    found = _program(expander, command)
    if found is None:
        return None
    name, simple = found
    if name == "cat" and len(simple.words) == 1:
        return expander.document(simple.redirects)
    if name != "echo" or simple.redirects:
        return None
    words = expander.fields(simple.words[1:])
    odd = any(not word.known or "\\" in word.text for word in words)
    if odd or (words and words[0].text.startswith("-n")) or not words:
        return None
    end = Text((Piece("\n", words[-1].origin, "\n"),))
    return None if words[0].text in {"-e", "-E"} else joined(words) + end


def _filtered(expander: Expanding, text: Text | None, command: Command) -> Text | None:
    """Return what `tr a b` makes of a text; None for any other filter."""
    found = _program(expander, command)
    if text is None or not text.known or found is None or found[0] != "tr":
        return None
    words = [word.text for word in expander.fields(found[1].words[1:])]
    if found[1].redirects or len(words) != 2 or any(MARK in word for word in words):
        return None
    return patterns.translated(text, *words)
