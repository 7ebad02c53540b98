"""The module of MaxText that a command starts, and the words behind it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moectl.facts.launchers import is_package, missing_module
from moectl.facts.launchers import load as launchers
from moectl.settings.shell.slips import note
from moectl.settings.shell.wrappers import python_words
from moectl.workload import MARK, Piece, Text

if TYPE_CHECKING:
    from moectl.settings.shell.interfaces import Following

ARGUMENTS = "the arguments"
BRANCHES = "a branch"
_MODULE = "-m"
_NAME = re.compile(r"\$\{?(@|\*|[A-Za-z_][A-Za-z0-9_]*|[1-9])(?:\[[@*]\])?(?::?[-+][^{}$]*)?\}?")


def meant(name: Text) -> str | None:
    """Return the program of MaxText that a misspelt module was meant to be, or None."""
    found = missing_module(name.text) if name.known else None
    return found[0] if found is not None and found[0] in launchers().modules else None


def note_module(fold: Following, words: Sequence[Text]) -> None:
    """Note a module that MaxText does not have."""
    found = python_words(words[1:])
    if found is None or found[0] != _MODULE or not found[1].known:
        return
    name = found[1]
    if (missing := missing_module(name.text)) is not None:
        near, certain = missing
        kind = "no module" if certain else "old module"
        note(fold, "package" if is_package(name.text) else kind, name.text, near, name)


def without_open_words(fold: Following, words: Sequence[Text]) -> Sequence[Text]:
    """Leave out what may be no word at all behind a config of MaxText: "$@", $EXTRA_ARGS.

    Only a reading that assumes does so (see `World`); any other notes that one may.
    """
    start = next((at for at, word in enumerate(words) if _starts(words, at, word)), None)
    if start is None:
        return words
    notes = fold.budget.notes
    notes.after_start = notes.starts = True
    kept = list(words[: start + 2])
    names: dict[str, None] = {}
    for word in words[start + 2 :]:
        name = _open(word)
        if name is not None:
            names[name] = None
        elif word.text.endswith("="):
            # An empty default says that somebody sets it; no value is likely.
            kept.append(Text((*word.pieces, Piece(MARK, word.origin))))
        else:
            kept.append(word)
    if fold.probing:
        return words
    if names:
        notes.dropped[words[start].origin] = tuple(names)
    return kept if notes.world.assumes else words


def _starts(words: Sequence[Text], at: int, word: Text) -> bool:
    if MARK in word.text or not ("axtext" in word.text or "axText" in word.text or at == 1):
        return False
    table = launchers()
    if at and words[at - 1].text == _MODULE:
        return table.maxtext(module=word.text) is not None or meant(word) is not None
    return word.text.endswith(".py") and table.maxtext(path=word.text) is not None


def _open(word: Text) -> str | None:
    """Return what decides whether an unknown word is one at all; None for any other word."""
    if word.text != MARK or len(word.pieces) != 1:
        return None
    raw = word.pieces[0].raw.strip('"')
    if not raw:
        return BRANCHES
    found = _NAME.fullmatch(raw)
    if found is None:
        return None
    return ARGUMENTS if found[1] in {"@", "*"} else found[1]
