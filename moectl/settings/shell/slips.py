"""Commands that a shell refuses, or reads otherwise than they look."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from moectl.facts.launchers import load as launchers
from moectl.settings.shell.source import Source
from moectl.settings.shell.state import State
from moectl.settings.shell.syntax import Assignment, Simple, Slip
from moectl.settings.shell.worlds import ShellFault
from moectl.workload import MARK, Piece, Step, Text

if TYPE_CHECKING:
    from moectl.settings.shell.interfaces import Following

_SETTING = re.compile(r"[A-Z_][A-Z0-9_]*")
_SMALL = re.compile(r"[a-z][a-z0-9_]*")
_EXPANDED_NAME = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?\+?=")
_STATUS = re.compile(r"\$(?:\?|!|\(|\{!|\{\?)|`")
_LONGEST = 80


def note(fold: Following, kind: str, subject: str, detail: str, text: Text) -> None:
    """Note a fault at the beginning of a text."""
    if fold.probing:
        return
    fault = ShellFault(kind, subject[:_LONGEST], detail, text.origin, fold.conditional)
    fold.budget.notes.faults.setdefault(fault)


def slipped(fold: Following, slips: Iterable[Slip]) -> None:
    """Note what the text of a script already shows."""
    for slip in slips:
        place = Text((Piece("", fold.source.origin(slip.offset)),))
        cause = fold.source.origin(slip.cause).line
        kind = {"blank": "blank behind a backslash", "rest": "rest of a command"}[slip.kind]
        note(fold, kind, _word_at(fold.source.text, slip.offset), str(cause or ""), place)


def _word_at(text: str, offset: int) -> str:
    found = re.compile(r"\S+").match(text, offset)
    return found.group() if found else ""


def not_found(fold: Following, command: Simple, words: Sequence[Text]) -> None:
    """Note a command whose name cannot be that of a program."""
    raw = fold.source.text[command.words[0].start : command.words[0].end] if command.words else ""
    name = words[0].text
    second = words[1].text if len(words) > 1 else ""
    if raw.lstrip("\"'").startswith("-") and words[0].text.startswith("-"):
        if any(
            f.kind == "rest of a command" and f.origin == words[0].origin
            for f in fold.budget.notes.faults
        ):
            return
        before = command.assignments[-1].name if command.assignments else ""
        note(fold, "option as a command", name, before, words[0])
    elif _SETTING.fullmatch(name) and second[:2] in {"=", "+="} | {f"={c}" for c in second[1:2]}:
        if launchers().program(name) is None:
            note(fold, "blanks around =", name, second, words[0])
    elif (found := _EXPANDED_NAME.match(raw)) and name.startswith(MARK):
        note(fold, "expanded name", found[1], "", words[0])


def not_names(fold: Following, command: str, words: Sequence[Text]) -> None:
    """Note the words of `export` and the like that name no variable."""
    if words:
        first = words[0]
        note(fold, "no name", first.text, f"{command}\0{len(words)}", first)


def expanded_name(fold: Following, command: str, word: Text) -> None:
    """Note `export $XLA_FLAGS=...`: it is no name of a setting, but what it holds."""
    found = _EXPANDED_NAME.match("".join(p.raw or p.text for p in word.pieces))
    if found and launchers().setting(found[1]):
        note(fold, "expanded name", found[1], command, word)


def lost_arguments(fold: Following, assignments: Sequence[Assignment]) -> None:
    """Note assignments right behind a start of MaxText that nothing reads: its arguments."""
    source = fold.source
    cause = {(f.kind, f.origin.file, f.origin.line) for f in fold.budget.notes.faults}
    for assignment in assignments:
        place = source.origin(assignment.start)
        line = place.line or 0
        if ("rest of a command", place.file, line) in cause:
            return
        if ("blank behind a backslash", place.file, line - 1) in cause:
            return
        raw = source.text[assignment.start : assignment.word.end] if assignment.word else ""
        if not _SMALL.fullmatch(assignment.name) or _STATUS.search(raw) or not raw:
            continue
        if re.search(rf"\$\{{?{assignment.name}\b", source.text):
            continue
        text = Text((Piece("", place),))
        note(fold, "argument behind a command", assignment.name, raw[:_LONGEST], text)


def unexported(
    state: State, steps: Sequence[Step], source: Source, others: Sequence[str]
) -> list[ShellFault]:
    """Return the settings that are set, and that no started process gets.

    A name that is read again, as in `env XLA_FLAGS="$XLA_FLAGS"`, may be handed on by hand.

    Args:
        state: of the shell at its end.
        steps: what it starts.
        source: the script.
        others: the texts of other files that it reads.
    """
    found: list[ShellFault] = []
    for name, variable in state.variables.items():
        text = variable.text
        if text is None or variable.exported or not launchers().setting(name):
            continue
        line = text.origin.line or 0
        here = source.origin(0).file
        later = [s for s in steps if (s.origin.line or 0) > line or s.origin.file != here]
        if not later or any(_gets(step, name) for step in later):
            continue
        read = rf"^(?!\s*{name}\+?=).*\$\{{?{name}\b"
        if any(re.search(read, text, re.MULTILINE) for text in (source.text, *others)):
            continue
        found.append(ShellFault("not exported", name, later[0].program, text.origin))
    return found


def _gets(step: Step, name: str) -> bool:
    return name in step.environment or any(_gets(inside, name) for inside in step.inside)
