"""Variables from outside: their defaults, and tests whether somebody set them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from moectl.facts.launchers import load as launchers
from moectl.settings.shell.syntax import Part, Word
from moectl.settings.shell.worlds import as_default, defaults_of
from moectl.workload import MARK, Text

if TYPE_CHECKING:
    from moectl.settings.shell.interfaces import Expanding

DEFAULTS = frozenset({":-", "-", ":=", "="})
_PARAMETER = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*|[1-9])\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def outside(expander: Expanding, part: Part) -> Text | None:
    """Return the default of a variable that the script has not set; None when unknown."""
    if part.operator not in DEFAULTS or part.word is None:
        return None
    notes = expander.budget.notes
    found = None
    if _nobody_sets(expander, part):
        notes.assumed[part.name] = None
        if notes.world.assumes:
            found = as_default(expander.one(part.word), part.name)
    if part.operator in {":=", "="}:
        expander.state.assign(part.name, found or expander.unknown(part))
        if part.operator == ":=" and expander.one(part.word).text.replace(MARK, ""):
            variables = expander.state.variables
            variables[part.name] = replace(variables[part.name], filled=True)
    return found


def of_outside(expander: Expanding, part: Part, text: Text) -> Text | None:
    """Return the default of a variable that was set to one from outside: `X=$1`."""
    found = _PARAMETER.fullmatch(text.pieces[0].raw) if len(text.pieces) == 1 else None
    outside = Part("parameter", part.start, part.end, name=found[1]) if found else None
    if outside is None or part.word is None or not _nobody_sets(expander, outside):
        return None
    expander.budget.notes.assumed[outside.name] = None
    if not expander.budget.notes.world.assumes:
        return None
    default = as_default(expander.one(part.word), outside.name)
    if part.operator in {":=", "="}:
        expander.state.assign(part.name, default)
    return default


def _nobody_sets(expander: Expanding, part: Part) -> bool:
    """Whether a parameter comes from outside, and may well not be set there."""
    name = part.name
    if part.index or name in expander.state.variables:
        return False
    if name.isdigit():
        return name != "0" and expander.state.arguments is None
    return bool(_NAME.fullmatch(name)) and not launchers().set_elsewhere(name)


def tested(expander: Expanding, words: Sequence[Word], *, split: bool) -> list[str]:
    """Return the words of a test; see `World.assumes` for what nobody sets.

    Args:
        expander: what expands them.
        words: the words.
        split: whether they are split at blanks, as those of `[` are.
    """
    texts: list[str] = []
    for word in words:
        part = next((p for p in word.parts if p.kind == "parameter"), None)
        alone = part is not None and all(p is part or p.start == p.end for p in word.parts)
        open_name = part is not None and alone and not part.operator and part.name[0].isalpha()
        if part is not None and open_name and _nobody_sets(expander, part):
            expander.budget.notes.assumed[part.name] = None
            world = expander.budget.notes.world
            if world.assumes and world.branch is None:
                expander.budget.notes.leaned = True
                texts += [""] if part.quoted or not split else []
                continue
        open_choice = expander.budget.notes.world.branch is not None
        texts += [
            MARK if open_choice and defaults_of(w.pieces) else w.text
            for w in (expander.fields([word]) if split else [expander.one(word)])
        ]
    return texts
