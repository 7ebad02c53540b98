"""What the parts of the shell reader ask of the whole, so that they need not import it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from moectl.settings.shell.source import Source
from moectl.settings.shell.state import Budget, State
from moectl.settings.shell.syntax import Assignment, Item, Part, Pipeline, Redirect, Word
from moectl.workload import Step, Text


class Expanding(Protocol):
    """Expands words that stand in `source` with the variables of `state`."""

    source: Source
    state: State
    budget: Budget

    def fields(self, words: Iterable[Word]) -> list[Text]:
        """Return the words a command gets; an unknown one may stand for any number of words."""

    def one(self, word: Word | None) -> Text:
        """Return a word that is not split: of an assignment, a redirection, a case."""

    def parts(self, parts: Iterable[Part], start: int) -> Text:
        """Return the text of parts that are not split, as in a here-document."""

    def document(self, redirects: Sequence[Redirect]) -> Text | None:
        """Return the text of the last here-document or here-string; None without one."""

    def unknown(self, part: Part) -> Text:
        """Return a part of which nothing is known."""


class Following(Protocol):
    """A shell that follows a source; see `moectl.settings.shell.fold.Fold`."""

    source: Source
    state: State
    budget: Budget
    conditional: bool
    steps: list[Step]
    strays: list[Text]
    probing: bool
    chosen: bool

    def expander(self) -> Expanding:
        """Return what expands words with the variables as they are now."""

    def items(self, items: Sequence[Item]) -> None:
        """Follow commands one after the other, until the shell has ended."""

    def probe(self) -> Following:
        """Return a shell like this one that can be thrown away."""

    def inside(self, source: Source, state: State) -> tuple[Step, ...]:
        """Return what another shell starts that reads `source`."""

    def here(self, source: Source) -> None:
        """Follow `source` in this shell, as `eval` and `source` do."""

    def sourced(self, source: Source, arguments: Sequence[Text]) -> None:
        """Follow another file in this shell; arguments behind its name are its own."""

    def verdict(self, pipeline: Pipeline) -> bool | None:
        """Return what a command certainly answers as a condition, or None."""

    def choice(self, bodies: int) -> int | None:
        """Return which body of an open choice is taken; None when that stays open."""

    def meet(self, states: Sequence[State]) -> None:
        """Go on with what is known where several ways meet."""

    def branch(self) -> AbstractContextManager[None]:
        """Follow what may not be taken."""

    def value(self, assignment: Assignment) -> tuple[Text, tuple[Text, ...] | None]:
        """Return the text and the items that an assignment gives its variable."""
