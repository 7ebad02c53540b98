"""Finds the MaxText command lines in a script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from moectl.facts.launchers import load as launchers
from moectl.settings.shell.modules import meant
from moectl.settings.shell.wrappers import program_of, python_words, started_in, unwrapped
from moectl.values import Origin
from moectl.workload import Step, Text


@dataclass(frozen=True, slots=True)
class MaxTextStart:
    """One start of MaxText.

    Attributes:
        module: e.g. "maxtext.trainers.pre_train.train", also where its file is started, or
            where its name is misspelt.
        words: its arguments: the config's path, then key=value words.
        origin: where the module or file is named.
        environment: the variables of its process.
        steps: the step it stands in, outermost first (e.g. srun, then python3 inside it).
        through: the programs that its process runs under, outermost first, e.g. "nsys".
    """

    module: str
    words: tuple[Text, ...]
    origin: Origin
    environment: Mapping[str, Text]
    steps: tuple[Step, ...]
    through: tuple[str, ...] = ()

    @property
    def step(self) -> Step:
        """Return the outermost step: what a batch script itself starts."""
        return self.steps[0]

    @property
    def conditional(self) -> bool:
        """Whether it stands in a branch that may not be taken."""
        return any(step.conditional for step in self.steps)


# Their processes are no children of the command: what it runs under does not see them.
_OTHERS_START: Final = frozenset({"slurm", "container", "remote"})


def maxtext_commands(
    step: Step, outer: tuple[Step, ...] = (), through: tuple[str, ...] = ()
) -> Iterator[MaxTextStart]:
    """Yield the MaxText starts of a step and of what stands inside it, in order."""
    steps = (*outer, step)
    launcher = launchers().program(step.program)
    other = launcher is not None and launcher.role in _OTHERS_START
    through = () if other else (*through, *step.through)
    words, environment = step.words, step.environment
    if launcher is not None and launcher.role == "container" and not step.inside and words:
        subcommand = launcher.subcommands.get(words[0].text)
        words = started_in(subcommand, words[1:]) if subcommand is not None else ()
    if launcher is None or launcher.role != "python":
        words, environment, more = unwrapped(words, environment)
        through = (*through, *more)
        started = program_of(words) if words else None
        words = words[1:] if started is not None and started.role == "python" else ()
    if words and (found := python_words(words)):
        kind, name, arguments = found
        table = launchers()
        module = table.maxtext(module=name.text) if kind == "-m" else table.maxtext(path=name.text)
        if module is None and kind == "-m":
            module = meant(name)
        if module is not None:
            yield MaxTextStart(module, arguments, name.origin, environment, steps, through)
    for inside in step.inside:
        yield from maxtext_commands(inside, steps, through)
