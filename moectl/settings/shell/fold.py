"""Follows a script through its syntax tree, and notes what it would start.

Nothing is run: assignments are folded, what cannot be told stays unknown, and a branch that
may not be taken makes what it changes unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from moectl.facts.launchers import load as launchers
from moectl.settings.shell.branches import Branches
from moectl.settings.shell.builtins import Builtins
from moectl.settings.shell.expand import Expander
from moectl.settings.shell.grammar import parse
from moectl.settings.shell.slips import lost_arguments, not_found, slipped
from moectl.settings.shell.source import Source, unknown
from moectl.settings.shell.starts import Starts
from moectl.settings.shell.state import Budget, Definition, ReadingStopped, State, merge
from moectl.settings.shell.syntax import (
    Assignment,
    Case,
    Command,
    Function,
    Group,
    If,
    Item,
    Loop,
    Part,
    Pipeline,
    Simple,
    Test,
    Trouble,
    Word,
)
from moectl.settings.shell.verdicts import verdict as certain_verdict
from moectl.workload import MARK, Step, Text

MAX_FOLD_DEPTH = 64
MAX_CALLS = 3


class Fold:
    """A shell that reads one source.

    Attributes:
        steps: what was found, in order.
        strays: words of export and the like that name no variable.
        trouble: where a shell would stop reading the source.
        probing: whether only the names it changes matter, and not their values.
        chosen: whether it follows a branch that was chosen, and may not be taken.
    """

    def __init__(
        self, source: Source, state: State, budget: Budget, *, conditional: bool = False
    ) -> None:
        self.source, self.state, self.budget = source, state, budget
        self.conditional = conditional
        self.steps: list[Step] = []
        self.strays: list[Text] = []
        self.trouble: Trouble | None = None
        self.probing = False
        self.chosen = False
        self._calls: list[str] = []
        self._branches = Branches(self)
        self._builtins = Builtins(self)
        self._starts = Starts(self)

    def run(self) -> None:
        """Follow the whole source."""
        self.budget.spend(len(self.source.text) // 4)
        parsed = parse(self.source.text)
        self.trouble = parsed.trouble
        slipped(self, parsed.slips)
        self.items(parsed.items)

    def expander(self) -> Expander:
        """Return what expands words with the variables as they are now."""
        return Expander(self.source, self.state, self.budget)

    def items(self, items: Sequence[Item]) -> None:
        """Follow commands one after the other, until the shell has ended."""
        self.budget.depth += 1
        if self.budget.depth > MAX_FOLD_DEPTH:
            raise ReadingStopped
        for item in items:
            if self.state.gone:
                break
            self._item(item)
        self.budget.depth -= 1

    def probe(self) -> Fold:
        """Return a shell like this one that can be thrown away."""
        shell = Fold(self.source, self.state.copy(self.budget), self.budget)
        shell.probing = True
        return shell

    def inside(self, source: Source, state: State) -> tuple[Step, ...]:
        """Return what another shell starts that reads `source`."""
        if self.budget.depth > MAX_FOLD_DEPTH // 2:
            return ()
        depth = self.budget.depth
        self.budget.depth += 4
        shell = Fold(source, state, self.budget, conditional=self.conditional)
        shell.chosen = self.chosen
        shell.run()
        self.budget.depth = depth
        return tuple(shell.steps)

    def here(self, source: Source) -> None:
        """Follow `source` in this shell, as `eval` and `source` do."""
        outer, self.source = self.source, source
        try:
            parsed = parse(source.text)
            slipped(self, parsed.slips)
            self.items(parsed.items)
        finally:
            self.source = outer

    def sourced(self, source: Source, arguments: Sequence[Text]) -> None:
        """Follow another file in this shell; arguments behind its name are its own."""
        outer = self.state.arguments
        if arguments:
            self.state.arguments = tuple(arguments)
        self.budget.spend(len(source.text) // 4)
        self._builtins.enter_file()
        self.here(source)
        returns = self._builtins.leave_file()
        for state in (*returns, self.state):
            state.returned = False
        if returns:
            self.meet([*returns, self.state])
        if arguments:
            self.state.arguments = outer

    def _item(self, item: Item) -> None:
        if item.background:
            outer, self.state = self.state, self.state.copy(self.budget)
            self._joined(item)
            self.state = outer
        else:
            self._joined(item)

    def _joined(self, item: Item) -> None:
        """Follow `a && b || c`: what is meant to succeed is taken to do so."""
        before: Pipeline | None = None
        for joint, pipeline in item.pipelines:
            if self.state.gone:
                return
            if joint and before is not None and (joint == "||" or self._asks(before)):
                known = self.verdict(before)
                if known is not None and known != (joint == "&&"):
                    continue
                if known is None:
                    self._maybe(pipeline)
                    continue
                if self.budget.notes.leaned:
                    self._unless_it_ends(pipeline)
                    before = pipeline
                    continue
            self._pipeline(pipeline)
            before = pipeline

    def verdict(self, pipeline: Pipeline) -> bool | None:
        """Return what a command certainly answers as a condition, or None."""
        command = pipeline.commands[-1]
        self.budget.notes.leaned = False
        if len(pipeline.commands) > 1 or not isinstance(command, Simple | Test):
            return None
        found = certain_verdict(command, self.expander())
        return found if found is None else found != pipeline.negated

    def _maybe(self, pipeline: Pipeline) -> None:
        without = self.state.copy(self.budget)
        with self.branch():
            self._pipeline(pipeline)
            if self.choice(1) == 0 and not self.state.gone:
                return
        self.meet([without, self.state])

    def _unless_it_ends(self, pipeline: Pipeline) -> None:
        """Follow what runs when nobody sets a variable, but for `[ -z "$X" ] && exit`.

        A script that ends without the variable counts on somebody who sets it.
        """
        before = self.state.copy(self.budget)
        self._pipeline(pipeline)
        if self.state.gone:
            self.state.become(before)
            self.state.ended = self.state.returned = False

    def choice(self, bodies: int) -> int | None:
        """Return which of the bodies of an open choice is taken; None when that stays open."""
        notes = self.budget.notes
        notes.bodies = max(notes.bodies, bodies)
        branch = notes.world.branch
        return None if branch is None or self.probing else min(branch, bodies - 1)

    def meet(self, states: Sequence[State]) -> None:
        """Go on with what is known where several ways meet."""
        met = merge(states, self.budget)
        if met is None:
            self.state.ended = all(state.ended for state in states)
            self.state.returned = True
        elif met is not self.state:
            self.state.become(met)

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Follow what may not be taken."""
        outer, self.conditional = self.conditional, True
        chosen, self.chosen = self.chosen, self.budget.notes.world.branch is not None
        yield
        self.conditional, self.chosen = outer, chosen

    def _asks(self, pipeline: Pipeline) -> bool:
        """Whether failing is one of the answers a command gives."""
        command = pipeline.commands[-1]
        if pipeline.negated or isinstance(command, Test):
            return True
        if not isinstance(command, Simple) or not command.words:
            return False
        first = command.words[0]
        return self.source.text[first.start : first.end] in launchers().questions

    def _pipeline(self, pipeline: Pipeline) -> None:
        if len(pipeline.commands) == 1:
            self._command(pipeline.commands[0])
            return
        fed: Text | None = None
        for command in pipeline.commands:
            outer, self.state = self.state, self.state.copy(self.budget)
            self._starts.input = fed
            self._command(command)
            fed = self._written(command)
            self.state = outer
        self._starts.input = None

    def _written(self, command: Command) -> Text | None:
        """Return what `cat <<EOF` writes into a pipe."""
        if isinstance(command, Simple) and len(command.words) == 1:
            word = command.words[0]
            if self.source.text[word.start : word.end] == "cat":
                return self.expander().document(command.redirects)
        return None

    def _command(self, command: Command) -> None:
        self.budget.spend(1)
        if isinstance(command, Simple):
            self._simple(command)
        elif isinstance(command, Group):
            self._group(command)
        elif isinstance(command, If):
            self._branches.follow_if(command)
        elif isinstance(command, Loop):
            self._branches.follow_loop(command)
        elif isinstance(command, Case):
            self._branches.follow_case(command)
        elif isinstance(command, Function):
            self.state.functions[command.name] = Definition(command, self.source)

    def _group(self, group: Group) -> None:
        if not group.subshell:
            self.items(group.body)
            return
        outer, self.state = self.state, self.state.copy(self.budget)
        self.items(group.body)
        self.state = outer

    def _substitutions(self, words: Sequence[Word]) -> None:
        """Follow the commands of `$(...)`, in a shell of their own."""
        for word in words:
            for part in word.parts:
                if part.body:
                    self._substitution(part)
                if part.word is not None:
                    self._substitutions([part.word])

    def _substitution(self, part: Part) -> None:
        outer, self.state = self.state, self.state.copy(self.budget)
        fed, self._starts.input = self._starts.input, None
        self.items(part.body)
        self._starts.input = fed
        self.state = outer

    def value(self, assignment: Assignment) -> tuple[Text, tuple[Text, ...] | None]:
        """Return the text and the items that an assignment gives its variable."""
        origin = self.source.origin(assignment.start)
        before = self.state.variables.get(assignment.name)
        if assignment.index:
            return unknown(origin), None
        if assignment.items is not None:
            self._substitutions(assignment.items)
            items = tuple(self.expander().fields(assignment.items))
            if assignment.append:
                if before is None or before.items is None:
                    return unknown(origin), None
                items = (*before.items, *items)
            self.budget.spend(len(items))
            if any(item.text == MARK for item in items):
                # It may stand for any number of items; the others keep their order.
                return items[0], items
            return (items[0] if items else Text(())), items
        if assignment.word is not None:
            self._substitutions([assignment.word])
        text = self.expander().one(assignment.word)
        if assignment.append and before is None:
            text = Text((*unknown(origin, f"${assignment.name}").pieces, *text.pieces))
        elif assignment.append and before is not None and before.text is not None:
            if before.items is not None:
                return unknown(origin), None
            text = before.text + text
        self.budget.spend(len(text.pieces))
        return text, None

    def _simple(self, command: Simple) -> None:
        self._substitutions(command.words)
        words = self.expander().fields(command.words)
        self._choose(command)
        if not words:
            for assignment in command.assignments:
                text, items = self.value(assignment)
                self.state.assign(assignment.name, text, items)
            self._starts.redirect(command.redirects, [], None)
            if self.budget.notes.after_start and not command.words:
                lost_arguments(self, command.assignments)
            return
        self.budget.notes.after_start = False
        prefix: dict[str, Text] = {}
        for assignment in command.assignments:
            prefix[assignment.name] = self.value(assignment)[0]
        name = words[0].text
        function = self.state.functions.get(name)
        if function is not None and function.certain:
            self._call(function, words, prefix)
        elif function is not None:
            without = self.state.copy(self.budget)
            with self.branch():
                self._call(function, words, prefix)
            self.meet([without, self.state])
        elif not self._builtins.run(command, words):
            not_found(self, command, words)
            self._starts.start(command, words, prefix)

    def _choose(self, command: Simple) -> None:
        """Note the lines of a command that runs because a branch was chosen."""
        if not self.chosen or self.probing:
            return
        ends = [word.end for word in command.words]
        ends += [a.word.end for a in command.assignments + command.declared if a.word is not None]
        first = self.source.origin(command.start)
        last = self.source.origin(max([command.start, *ends]) - 1 if ends else command.start)
        lines = (first.file, first.line or 0, last.line or 0)
        self.budget.notes.possible.append(lines)

    def _call(self, definition: Definition, words: Sequence[Text], prefix: dict[str, Text]) -> None:
        """Follow a function where it is called; one that calls itself only a few times."""
        self.budget.spend(20)
        if self._calls.count(definition.function.name) >= MAX_CALLS:
            return
        outer, arguments = self.source, self.state.arguments
        kept = {name: self.state.variables.get(name) for name in prefix}
        for name, text in prefix.items():
            self.state.assign(name, text, export=True)
        self.source, self.state.arguments = definition.source, tuple(words[1:])
        self._builtins.enter()
        self._calls.append(definition.function.name)
        self._command(definition.function.body)
        self._calls.pop()
        local, returns = self._builtins.leave()
        for state in (*returns, self.state):
            state.returned = False
        if returns:
            self.meet([*returns, self.state])
        for name, variable in {**kept, **local}.items():
            if variable is None:
                self.state.variables.pop(name, None)
            else:
                self.state.variables[name] = variable
        self.source, self.state.arguments = outer, arguments
