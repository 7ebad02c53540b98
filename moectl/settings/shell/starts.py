"""Finds what a command starts, and what that starts in turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from moectl.facts.launchers import Launcher
from moectl.facts.launchers import load as launchers
from moectl.settings.shell.directives import directives
from moectl.settings.shell.environments import env_files, exported, given, of_file
from moectl.settings.shell.modules import note_module, without_open_words
from moectl.settings.shell.options import Split, split, split_slurm, tail
from moectl.settings.shell.others import opened, reading, source_of
from moectl.settings.shell.paths import script_key
from moectl.settings.shell.source import Source, joined
from moectl.settings.shell.state import ReadingStopped, State, Variable
from moectl.settings.shell.syntax import Redirect, Simple
from moectl.settings.shell.wrappers import program_of, python_words, started_in, unwrapped
from moectl.workload import MARK, Option, Piece, Step, Text, last

if TYPE_CHECKING:
    from moectl.settings.shell.interfaces import Following

Environment = Mapping[str, Text]
_MAX_CHAIN = 8
_SCRIPT_ENDINGS = (".sh", ".bash", ".sbatch", ".slurm")


class Starts:
    """Notes the steps of a fold.

    Attributes:
        input: what the command before in a pipeline writes, when that is known.
    """

    def __init__(self, fold: Following) -> None:
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
        words = without_open_words(fold, words)
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
            written = joined(words[1:]) + Text((Piece("\n", words[-1].origin, "\n"),))
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
                fold.budget.notes.files[key] = written
            elif key in fold.state.scripts:
                fold.budget.spend(len(fold.state.scripts[key].pieces))
                fold.state.scripts[key] += written
                fold.budget.notes.files[key] = fold.state.scripts[key]

    def _steps(
        self, words: Sequence[Text], environment: Environment, fed: Text | None
    ) -> tuple[Step, ...]:
        words, environment, through = unwrapped(words, environment)
        if not words or self._depth > _MAX_CHAIN:
            return ()
        self._depth += 1
        found = self._of_program(words, environment, fed)
        self._depth -= 1
        if through:
            found = tuple(replace(step, through=(*through, *step.through)) for step in found)
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
                environment = {**environment, **given(launcher, found.options, environment, {})}
                inside = self._inner(found.rest, environment, fed)
                return (self._step(words, found.options, found.rest, environment, inside),)
            case "remote":
                return self._remote(launcher, words, environment, fed)
            case "python":
                note_module(self._fold, words)
                inside = self._of_file(words, environment)
                return (self._step(words, (), tuple(words[1:]), environment, inside),)
        inside = self._of_texts(launcher, words, environment)
        return (self._step(words, (), tuple(words[1:]), environment, inside),)

    def _of_texts(
        self, launcher: Launcher, words: Sequence[Text], environment: Environment
    ) -> tuple[Step, ...]:
        """Return what options with a shell command in them start."""
        return tuple(
            step
            for option in split_all(launcher, words)
            if option.name in launcher.texts and option.value is not None
            for step in self._read(option.value, environment, ())
        )

    def _of_file(self, words: Sequence[Text], environment: Environment) -> tuple[Step, ...]:
        """Return what a program starts whose Python file is run: `python3 xpk.py ...`."""
        found = python_words(words[1:])
        if found is None or found[0] != "file":
            return ()
        name = found[1].text.rpartition("/")[2].removesuffix(".py")
        launcher = launchers().programs.get(name)
        if launcher is None or launcher.role != "program":
            return ()
        return self._of_texts(launcher, (found[1], *found[2]), environment)

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
        outer = environment
        steps: list[Step] = []
        for component in _components(words[1:]):
            found = split_slurm(program, component)
            environment = exported(found.options, outer)
            if program == "sbatch":
                options, inside = self._sbatch(found, environment, fed)
                # What its command line says counts before the directives.
                said = {option.name for option in found.options}
                options = tuple(option for option in options if option.name not in said)
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
        if not found.rest:
            if fed is None:
                return (), ()
            own = directives(Source(fed.pieces))
            return own, self._read(fed, exported(own, environment), ())
        options: tuple[Option, ...] = ()
        inside: tuple[Step, ...] = ()
        with self._script(found.rest[0]) as script:
            if script is not None:
                options = directives(Source(script.pieces))
                inside = self._read(script, exported(options, environment), found.rest[1:])
        return options, inside

    @contextmanager
    def _script(self, path: Text, *, tells: bool = True) -> Iterator[Text | None]:
        """Give the text of a script: one that this script wrote, or a file beside it."""
        notes = self._fold.budget.notes
        if (written := self._fold.state.scripts.get(script_key(path))) is not None:
            yield written
        elif (found := opened(notes, path, tells=tells)) is not None:
            with reading(notes, found[0]), self._share(path):
                source = source_of(*found)
                self._fold.budget.spend(len(source.text) // 4)
                yield Text(source.pieces(0, len(source.text)))
        else:
            yield None

    @contextmanager
    def _share(self, path: Text) -> Iterator[None]:
        """Follow a file with half of the work that is left, so that the script goes on."""
        budget = self._fold.budget
        left, depth = budget.left, budget.depth
        budget.left = left // 2
        try:
            yield
        except ReadingStopped:
            budget.left, budget.depth = 0, depth
            budget.notes.told[f"the file {path.text[:100]} is too large to be followed"] = None
        finally:
            budget.left += left - left // 2

    def _remote(
        self,
        launcher: Launcher,
        words: Sequence[Text],
        environment: Environment,
        fed: Text | None,
    ) -> tuple[Step, ...]:
        """Return what a shell on another machine reads: it has none of these variables."""
        found = split(launcher, words[1:])
        command = found.rest[launcher.operands :]
        script = joined(command) if command else fed
        shell = program_of(command) if command and fed is not None else None
        if shell is not None and shell.role == "shell":
            inside = self._steps(command, {}, fed)  # `ssh host bash -s <<EOF`
        else:
            inside = () if script is None else self._read(script, {}, ())
        return (self._step(words, found.options, found.rest, environment, inside),)

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
            with self._script(rest[at]) as script:
                if script is not None:
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
        inside: tuple[Step, ...] = ()
        if subcommand.operands:
            kept = environment if launcher.keeps_environment else {}
            files = self._env_files(found.options) if subcommand.variables else {}
            environment = {**kept, **given(subcommand, found.options, environment, files)}
            inside = self._inner(started_in(subcommand, found.rest), environment, fed)
        options = (*general.options, *found.options)
        rest = (general.rest[0], *found.rest)
        return (self._step(words, options, rest, environment, inside),)

    def _env_files(self, options: Sequence[Option]) -> dict[str, Text]:
        found: dict[str, Text] = {}
        for path in env_files(options):
            if (file := opened(self._fold.budget.notes, path)) is not None:
                self._fold.budget.spend(len(file[1]) // 4)
                found |= of_file(file[1], file[0])
        return found

    def _written(self, words: Sequence[Text], environment: Environment) -> tuple[Step, ...]:
        # A word with a slash is a path; any other is looked for where programs are.
        text = words[0].text
        path = "/" in text and (not text.startswith("/") or text.endswith(_SCRIPT_ENDINGS))
        known = script_key(words[0]) in self._fold.state.scripts
        if not path and not known:
            return ()
        inside: tuple[Step, ...] | None = None
        with self._script(words[0], tells=text.endswith(_SCRIPT_ENDINGS)) as script:
            if script is not None and _is_shell(script):
                inside = self._read(script, environment, tuple(words[1:]))
        if inside is None:
            return ()
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


def _is_shell(script: Text) -> bool:
    """Whether a file that is run is a shell script: its first line says another program else."""
    first = script.text.partition("\n")[0]
    return not first.startswith("#!") or "sh" in first.rpartition("/")[2]
