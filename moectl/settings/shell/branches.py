"""Follows branches and loops: what may not happen makes unknown what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from moectl.settings.shell.source import unknown
from moectl.settings.shell.state import State
from moectl.settings.shell.syntax import Case, Command, Group, If, Item, Loop, Simple, Word
from moectl.settings.shell.worlds import defaults_of
from moectl.workload import MARK, Text

if TYPE_CHECKING:
    from moectl.settings.shell.interfaces import Following

MAX_ROUNDS = 64
"""A loop over more words than this is not followed word by word."""


class Branches:
    """Follows the compound commands of a fold that branch."""

    def __init__(self, fold: Following) -> None:
        self._fold = fold

    def follow_if(self, command: If) -> None:
        """Follow the branches that may be taken, and meet behind them."""
        ways: list[State] = []
        certain = self._fold.conditional
        notes = self._fold.budget.notes
        bodies = len(command.branches) + (command.otherwise is not None)
        chosen: State | None = None
        for number, (condition, body) in enumerate(command.branches):
            self._fold.items(condition)
            known = self._answer(condition)
            leaned = notes.leaned
            if known is False:
                continue
            entered = self._fold.state.copy(self._fold.budget)
            outer, self._fold.state = self._fold.state, entered
            if known is None:
                with self._fold.branch():
                    self._fold.items(body)
            else:
                self._fold.items(body)
            self._fold.state = outer
            if known and leaned and entered.gone:
                # It asks for a variable that must be set: so somebody sets it.
                continue
            ways.append(entered)
            if known:
                break
            if self._fold.choice(bodies) == number and not entered.gone:
                chosen = entered
            self._fold.conditional = True
        else:
            open_choice = bool(ways)
            if command.otherwise is not None:
                with self._fold.branch() if open_choice else nullcontext():
                    self._fold.items(command.otherwise)
                last = open_choice and self._fold.choice(bodies) == bodies - 1
                if last and not self._fold.state.gone:
                    chosen = self._fold.state
            ways.append(self._fold.state)
        self._fold.conditional = certain
        self._fold.meet(ways if chosen is None else [chosen])

    def _answer(self, condition: Sequence[Item]) -> bool | None:
        """Return what a condition certainly says, or None."""
        if len(condition) != 1 or len(condition[0].pipelines) != 1:
            return None
        return self._fold.verdict(condition[0].pipelines[0][1])

    def follow_loop(self, loop: Loop) -> None:
        """Follow every round of a loop over known words; of any other, one that may happen."""
        words = self._fold.expander().fields(loop.words) if loop.words is not None else None
        certain = words is not None and len(words) <= MAX_ROUNDS and all(w.known for w in words)
        if words is not None and certain and not _leaves(loop.body, self._fold.source.text):
            for word in words:
                if not self._fold.state.gone:
                    self._fold.state.assign(loop.name, word)
                    self._fold.items(loop.body)
            return
        before = self._fold.state.copy(self._fold.budget)
        if not self._fold.probing:
            self._forget(loop)
        outer, self._fold.conditional = self._fold.conditional, True
        self._fold.items(loop.condition)
        self._fold.items(loop.body)
        self._fold.conditional = outer
        self._fold.meet([before, self._fold.state])

    def _forget(self, loop: Loop) -> None:
        """Make unknown what the loop changes: nobody knows how often it has run."""
        probe = self._fold.probe()
        if loop.name:
            probe.state.assign(loop.name, unknown(self._fold.source.origin(loop.start)))
        probe.items(loop.condition)
        probe.items(loop.body)
        if probe.state.arguments != self._fold.state.arguments:
            self._fold.state.arguments = None
        for name, variable in probe.state.variables.items():
            if self._fold.state.variables.get(name) is not variable:
                origin = (
                    variable.text.origin if variable.text else self._fold.source.origin(loop.start)
                )
                self._fold.state.variables[name] = replace(
                    variable, text=unknown(origin), items=None
                )

    def follow_case(self, case: Case) -> None:
        """Follow the branches whose patterns may match, and meet behind them."""
        ways: list[State] = []
        everything = False
        chosen: State | None = None
        value = self._fold.expander().one(case.word)
        if self._fold.budget.notes.world.branch is not None and defaults_of(value.pieces):
            value = unknown(value.origin)  # somebody sets it, so that the branch is taken
        for number, (patterns, body) in enumerate(case.branches):
            matches = [self._matches(value, pattern) for pattern in patterns]
            if not case.falls and not any(match is not False for match in matches):
                continue
            entered = self._fold.state.copy(self._fold.budget)
            outer, self._fold.state = self._fold.state, entered
            sure = not case.falls and not ways and True in matches
            if sure:
                self._fold.items(body)
            else:
                with self._fold.branch():
                    self._fold.items(body)
                if self._fold.choice(len(case.branches)) == number and not entered.gone:
                    chosen = entered
            self._fold.state = outer
            ways.append(entered)
            if True in matches and not case.falls:
                everything = True
                break
        if not everything:
            ways.append(self._fold.state)
        self._fold.meet(ways if chosen is None else [chosen])

    def _matches(self, value: Text, pattern: Word) -> bool | None:
        raw = self._fold.source.text[pattern.start : pattern.end]
        if raw == "*":
            return True
        text = self._fold.expander().one(pattern).text
        if not value.known or MARK in text or any(char in raw for char in "*?[$`"):
            return None
        return value.text == text


def _leaves(items: Sequence[Item], text: str) -> bool:
    """Whether a loop's body may leave it before its end."""
    return any(
        _jumps(command, text)
        for item in items
        for _, pipeline in item.pipelines
        for command in pipeline.commands
    )


def _jumps(command: Command, text: str) -> bool:
    bodies: list[Sequence[Item]] = []
    if isinstance(command, Simple):
        first = command.words[0] if command.words else None
        return first is not None and text[first.start : first.end] in {"break", "continue"}
    if isinstance(command, Group | Loop):
        bodies = [command.body]
    elif isinstance(command, If):
        bodies = [*(body for _, body in command.branches), command.otherwise or []]
    elif isinstance(command, Case):
        bodies = [body for _, body in command.branches]
    return any(_leaves(body, text) for body in bodies)
