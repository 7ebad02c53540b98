"""Finds what a command starts, and what that starts in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moectl.facts.launchers import Launcher
from moectl.facts.launchers import load as launchers
from moectl.settings.shell.directives import directives
from moectl.settings.shell.options import Split, split, split_slurm, tail
from moectl.settings.shell.paths import script_key
from moectl.settings.shell.source import Source
from moectl.settings.shell.state import State, Variable
from moectl.settings.shell.syntax import Redirect, Simple
from moectl.settings.shell.wrappers import program_of, unwrapped
from moectl.workload import MARK, Option, Piece, Step, Text, last

if TYPE_CHECKING:
    from moectl.settings.shell.fold import Fold

Environment = Mapping[str, Text]
_MAX_CHAIN = 8


class Starts:
    """Notes the steps of a fold.

    Attributes:
        input: what the command before in a pipeline writes, when that is known.
    """

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self.input: Text | None = None
        self._depth = 0

    def start(self, command: Simple, words: Sequence[Text], prefix: Environment) -> None:
        """Note what a command starts."""
        fold = self._fold
        document = fold.expander().document(command.redirects)
        self.redirect(command.redirects, words, document)
        fold.budget.spend(len(fold.state.variables))
        environment = {**fold.state.exported(), **prefix}
        fed = document if document is not None else self.input
        fold.steps.extend(self._steps(words, environment, fed))
        if words[0].text == "exec" and len(words) > 1:
            fold.state.ended = True

    def redirect(
        self, redirects: Sequence[Redirect], words: Sequence[Text], document: Text | None
    ) -> None:
        """Note which files a command writes."""
        fold, program = self._fold, words[0].text if words else ""
        targets = [
            (redirect.operator.endswith(">>"), fold.expander().one(redirect.target))
            for redirect in redirects
            if redirect.operator in {">", ">|", ">>", "&>", "&>>"}
            and redirect.descriptor in {"", "1"}
        ]
        written: Text | None = None
        if program in {"cat", "tee"}:
            written = document if document is not None else self.input
        elif program == "echo" and len(words) > 1 and not words[1].text.startswith("-"):
            written = _line(words[1:])
        if program == "tee":
            appends = any(word.text == "-a" for word in words)
            targets += [(appends, w) for w in words[1:] if not w.text.startswith("-")]
        elif program == "cat" and len(words) > 1:
            written = None
        for appends, target in targets:
            key = script_key(target)
            if written is None:
                fold.state.scripts.pop(key, None)
            elif not appends:
                fold.state.scripts[key] = written
            elif key in fold.state.scripts:
                fold.budget.spend(len(fold.state.scripts[key].pieces))
                fold.state.scripts[key] += written

    def _steps(
        self, words: Sequence[Text], environment: Environment, fed: Text | None
    ) -> tuple[Step, ...]:
        words, environment = unwrapped(words, environment)
        if not words or self._depth > _MAX_CHAIN:
            return ()
        self._depth += 1
        found = self._of_program(words, environment, fed)
        self._depth -= 1
        return found

    def _of_program(
        self, words: Sequence[Text], environment: Environment, fed: Text | None
    ) -> tuple[Step, ...]:
        launcher = program_of(words)
        if launcher is None:
            return self._written(words, environment)
        match launcher.role:
            case "slurm":
                return self._slurm(words, environment, fed)
            case "shell":
                return self._shell(launcher, words, environment, fed)
            case "container":
                return self._container(launcher, words, environment, fed)
            case "launcher":
                found = split(launcher, words[1:])
                inside = self._inner(found.rest, environment, fed)
                return (self._step(words, found.options, found.rest, environment, inside),)
            case "python":
                return (self._step(words, (), tuple(words[1:]), environment),)
        inside = tuple(
            step
            for option in split_all(launcher, words)
            if option.name in launcher.texts and option.value is not None
            for step in self._read(option.value, environment, ())
        )
        return (self._step(words, (), tuple(words[1:]), environment, inside),)

    def _step(
        self,
        words: Sequence[Text],
        options: tuple[Option, ...],
        rest: tuple[Text, ...],
        environment: Environment,
        inside: tuple[Step, ...] = (),
    ) -> Step:
        self._fold.budget.spend(20 + len(environment))
        program = words[0].text.rpartition("/")[2]
        return Step(
            program=program if MARK not in program else "python3",
            options=options,
            words=rest,
            origin=words[0].origin,
            environment=dict(environment),
            inside=inside,
            conditional=self._fold.conditional,
        )

    def _slurm(
        self, words: Sequence[Text], environment: Environment, fed: Text | None
    ) -> tuple[Step, ...]:
        program = words[0].text.rpartition("/")[2]
        steps: list[Step] = []
        for component in _components(words[1:]):
            found = split_slurm(program, component)
            if program == "sbatch":
                options, inside = self._sbatch(found, environment, fed)
                found = Split((*options, *found.options), found.rest)
            else:
                inside = self._inner(found.rest, environment, fed)
            steps.append(self._step(words, found.options, found.rest, environment, inside))
        return tuple(steps)

    def _sbatch(
        self, found: Split, environment: Environment, fed: Text | None
    ) -> tuple[tuple[Option, ...], tuple[Step, ...]]:
        """Return the directives and the commands of the script that sbatch is given."""
        wrapped = last(found.options, ["--wrap"])
        if wrapped is not None and wrapped.value is not None:
            return (), self._read(wrapped.value, environment, ())
        script = fed if not found.rest else self._fold.state.scripts.get(script_key(found.rest[0]))
        if script is None:
            return (), ()
        return directives(Source(script.pieces)), self._read(script, environment, found.rest[1:])

    def _shell(
        self,
        launcher: Launcher,
        words: Sequence[Text],
        environment: Environment,
        fed: Text | None,
    ) -> tuple[Step, ...]:
        rest = tuple(words[1:])
        at, command, reads_input = 0, False, False
        while (
            at < len(rest) and rest[at].text[:1] in {"-", "+"} and rest[at].text not in {"-", "--"}
        ):
            text = rest[at].text
            short = not text.startswith("--")
            command |= short and text.startswith("-") and "c" in text[1:]
            reads_input |= short and text.startswith("-") and "s" in text[1:]
            at += 1 + (launcher.options.get(text, 0) if not command or text != "-c" else 0)
            if short and len(text) > 2 and text.endswith("o"):
                at += 1
        if at < len(rest) and rest[at].text in {"-", "--"}:
            at += 1
        inside: tuple[Step, ...] = ()
        if command and at < len(rest):
            inside = self._read(rest[at], environment, rest[at + 2 :])
        elif not command and at < len(rest) and not reads_input:
            if script := self._fold.state.scripts.get(script_key(rest[at])):
                inside = self._read(script, environment, rest[at + 1 :])
        elif not command and fed is not None:
            inside = self._read(fed, environment, rest[at:])
        return (self._step(words, (), rest, environment, inside),)

    def _container(
        self,
        launcher: Launcher,
        words: Sequence[Text],
        environment: Environment,
        fed: Text | None,
    ) -> tuple[Step, ...]:
        general = split(launcher, words[1:])
        subcommand = launcher.subcommands.get(general.rest[0].text) if general.rest else None
        if subcommand is None:
            return ()
        found = split(subcommand, general.rest[1:])
        given: dict[str, Text] = dict(environment) if launcher.keeps_environment else {}
        for option in found.options:
            if option.name in subcommand.variables and option.value is not None:
                name, equals, _ = option.value.text.partition("=")
                if equals:
                    given[name] = tail(option.value, len(name) + 1)
                elif name in environment:
                    given[name] = environment[name]
        inside: tuple[Step, ...] = ()
        if subcommand.operands:
            inside = self._inner(found.rest[subcommand.operands :], given, fed)
        options = (*general.options, *found.options)
        rest = (general.rest[0], *found.rest)
        return (self._step(words, options, rest, environment, inside),)

    def _written(self, words: Sequence[Text], environment: Environment) -> tuple[Step, ...]:
        script = self._fold.state.scripts.get(script_key(words[0]))
        if script is None:
            return ()
        inside = self._read(script, environment, tuple(words[1:]))
        return (self._step(words, (), tuple(words[1:]), environment, inside),)

    def _inner(
        self, words: Sequence[Text], environment: Environment, fed: Text | None
    ) -> tuple[Step, ...]:
        """Return what stands inside a started command; a plain command is its own words."""
        steps: list[Step] = []
        for step in self._steps(words, environment, fed):
            launcher = launchers().program(step.program)
            if launcher is None or launcher.role == "shell":
                steps.extend(step.inside)
            elif launcher.role not in {"python", "program"}:
                steps.append(step)
        return tuple(steps)

    def _read(
        self, script: Text, environment: Environment, arguments: Sequence[Text]
    ) -> tuple[Step, ...]:
        fold = self._fold
        variables = {name: Variable(text, exported=True) for name, text in environment.items()}
        state = State(variables, scripts=dict(fold.state.scripts), arguments=tuple(arguments))
        return fold.inside(Source(script.pieces), state)


def split_all(launcher: Launcher, words: Sequence[Text]) -> tuple[Option, ...]:
    """Return the options of a program that may have words between them."""
    options: list[Option] = []
    rest: Sequence[Text] = words[1:] if launcher.texts else ()
    while rest:
        if rest[0].text.split("=")[0] in launcher.texts:
            value = rest[1] if "=" not in rest[0].text and len(rest) > 1 else None
            if "=" in rest[0].text:
                value = tail(rest[0], rest[0].text.index("=") + 1)
            options.append(Option(rest[0].text.split("=")[0], value, rest[0].origin, ""))
        rest = rest[1:]
    return tuple(options)


def _components(words: Sequence[Text]) -> list[list[Text]]:
    """Split at the colons between the parts of a heterogeneous job."""
    components: list[list[Text]] = [[]]
    for word in words:
        if word.text == ":":
            components.append([])
        else:
            components[-1].append(word)
    return [component for component in components if component] or [[]]


def _line(words: Sequence[Text]) -> Text:
    pieces: list[Piece] = []
    for number, word in enumerate(words):
        if number:
            pieces.append(Piece(" ", word.origin, " "))
        pieces.extend(word.pieces)
    return Text((*pieces, Piece("\n", words[-1].origin, "\n")))
