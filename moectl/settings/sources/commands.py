"""Makes parts of the MaxText commands of a script, with the config that each names."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from moectl.facts.maxtext import Catalogue
from moectl.findings import Finding
from moectl.settings.sources.command_line import LAYER, read_arguments
from moectl.settings.sources.maxtext_variables import read_variables
from moectl.settings.sources.maxtext_yaml import (
    BASE,
    BASE_KEY,
    default_config,
    own_configs,
    read_config,
)
from moectl.settings.sources.source import MAX_PARTS, Open, Part, split_flags, unjudged
from moectl.values import Value
from moectl.workload import MARK, UNKNOWN, Batch, Layout, Step, Text

if TYPE_CHECKING:
    from moectl.settings.shell import MaxTextStart

_LAUNCHERS: Final = frozenset({"srun", "mpirun", "mpiexec", "torchrun", "prun"})
_STEPS: Final = 20_000  # steps that are looked at for all commands together
_CHARACTERS: Final = 80  # of a script's text take as long as one step
_AROUND: Final = 40
_TEXT: Final = 4_000
_IMAGE: Final = "--container-image"


@dataclass(frozen=True, slots=True)
class Told:
    """What a MaxText command says, its config read.

    Attributes:
        config: what its YAML says.
        arguments: what its words and M_* variables say.
        findings: what is wrong with either.
        unread: configs and words that are not known.
        told: sentences about how it was read.
    """

    config: Mapping[str, Value]
    arguments: Mapping[str, Value]
    findings: tuple[Finding, ...]
    unread: tuple[str, ...]
    told: tuple[str, ...]


def started(steps: Iterable[Step]) -> list[MaxTextStart]:
    """Return the MaxText commands of steps in order, those inside others included."""
    from moectl.settings.shell import maxtext_commands  # noqa: PLC0415

    found = (start for step in steps for start in maxtext_commands(step))
    return list(islice(found, MAX_PARTS + 1))


def read_command(
    start: MaxTextStart,
    environment: Mapping[str, Text],
    name: str,
    open_file: Open,
    catalogue: Catalogue,
    files: Mapping[str, Text] | None = None,
) -> Told:
    """Return what a MaxText command says.

    Args:
        start: the command.
        environment: the variables of its process.
        name: the file it stands in; its config is looked for beside it.
        open_file: gives the text of a file beside it.
        catalogue: keys of the MaxText release.
        files: files that the script writes by here-documents, by their path.
    """
    arguments = read_arguments(start.words, catalogue)
    config, findings, unread, told = _config(
        arguments.config, start, name, open_file, catalogue, files or {}
    )
    values = dict(arguments.values)
    variables, wrong = read_variables(environment, config, values, catalogue)
    if arguments.open:
        unread.append("words of the command that are not known")
    return Told(
        config,
        {**variables, **values},
        (*findings, *arguments.findings, *wrong),
        tuple(unread),
        tuple(told),
    )


def _config(
    word: Text | None,
    start: MaxTextStart,
    name: str,
    open_file: Open,
    catalogue: Catalogue,
    files: Mapping[str, Text],
) -> tuple[dict[str, Value], list[Finding], list[str], list[str]]:
    if word is None:
        return _default(start)
    from moectl.settings.shell import made_file  # noqa: PLC0415

    path, origin = word.text, word.origin
    if not word.known:
        shown_path = path.replace(MARK, "…")
        told = [f"the config {shown_path} is not known; only the command's words are judged"]
        return {BASE_KEY: Value(UNKNOWN, origin)}, [], [shown_path], told
    if (made := made_file(files, path)) is not None:
        found = read_config(made, name, open_file, catalogue)
        return dict(found.values), list(found.findings), list(found.unread), list(found.told)
    text = open_file(path)
    folder = posixpath.dirname(name)
    if text is not None:
        found = read_config(text, posixpath.join(folder, path), open_file, catalogue, folder=folder)
        return dict(found.values), list(found.findings), list(found.unread), list(found.told)
    if posixpath.basename(path) == BASE:
        return {BASE_KEY: Value(BASE, origin)}, [], [], []
    inside = path.rpartition("configs/")[2]
    whose = "MaxText's own" if inside in own_configs() else "not beside the file"
    told = [f"the config {path} is {whose}; what it says is not known here"]
    return {BASE_KEY: Value(UNKNOWN, origin)}, [], [path], told


def _default(
    start: MaxTextStart,
) -> tuple[dict[str, Value], list[Finding], list[str], list[str]]:
    """Return the config that MaxText takes when a command names none."""
    own = default_config(start.module)
    value = Value(BASE if own == BASE else UNKNOWN, start.origin)
    unread = [] if own == BASE else [own]
    return {BASE_KEY: value}, [], unread, [f"no config is named, so MaxText takes its own {own}"]


def parts_of_script(
    batch: Batch, name: str, kind: str, open_file: Open, catalogue: Catalogue
) -> tuple[list[Part], list[Finding], list[str]]:
    """Return one part for every MaxText command of a script, or one for the whole script."""
    from moectl.settings.shell import Script  # noqa: PLC0415

    files = batch.files if isinstance(batch, Script) else {}
    findings: list[Finding] = []
    told: list[str] = []
    parts: list[Part] = []
    view = _View(batch)
    for found in started(batch.steps):
        if len(parts) == MAX_PARTS:
            findings.append(unjudged("script", "commands", found.origin))
            break
        said = read_command(found, found.environment, name, open_file, catalogue, files)
        findings += said.findings
        told += said.told
        environment, flags = split_flags(found.environment)
        step, seen = _outer(found), view.of(len(parts), found.steps[0])
        parts.append(
            Part(
                kind=kind,
                origin=found.origin,
                config=said.config,
                arguments=said.arguments,
                is_maxtext=True,
                environment=environment,
                flags=flags,
                batch=seen,
                step=step,
                image=_image(seen, step),
                layout=_layout(seen, step),
                unread=said.unread,
            )
        )
    return parts or [_whole(batch, name, kind)], findings, told


class _View:
    """What a command sees of its script: all of it, or in a long one what stands around it.

    Rules look at every step for every command, which would take the square of a script's
    length; what is wrong with the other steps is found with the first commands.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._text = batch.text[:_TEXT]
        self._index = {id(step): at for at, step in enumerate(batch.steps)}
        self._others: list[int] | None = None

    def of(self, number: int, own: Step) -> Batch:
        """Return the script for its command `number`, from 0, which stands in the step `own`."""
        seen = (number + 1) * max(len(self._batch.steps), len(self._batch.text) // _CHARACTERS)
        if seen <= _STEPS or id(own) not in self._index:
            return self._batch
        if self._others is None:
            self._others = _without_maxtext(self._batch.steps)
        at = self._index[id(own)]
        chosen = sorted({*self._others, at})
        steps = tuple(self._batch.steps[index] for index in chosen)
        return replace(self._batch, steps=steps, text=self._text)


def _without_maxtext(steps: Sequence[Step]) -> list[int]:
    """Return the places of the first steps that start no MaxText."""
    from moectl.settings.shell import maxtext_commands  # noqa: PLC0415

    found = (
        at for at, step in enumerate(steps) if next(iter(maxtext_commands(step)), None) is None
    )
    return list(islice(found, _AROUND))


def _outer(start: MaxTextStart) -> Step:
    """Return the launcher it stands in, else the step itself."""
    return next((step for step in start.steps if step.program in _LAUNCHERS), start.step)


def _whole(batch: Batch, name: str, kind: str) -> Part:
    from moectl.values import Origin  # noqa: PLC0415

    launched = next((step for step in batch.steps if step.program in _LAUNCHERS), None)
    environment, flags = split_flags((launched or batch).environment)
    return Part(
        kind=kind,
        origin=launched.origin if launched else Origin(LAYER, name, 1, 1),
        environment=environment,
        flags=flags,
        batch=batch,
        step=launched,
        image=_image(batch, launched),
        layout=_layout(batch, launched),
    )


def _image(batch: Batch, step: Step | None) -> Text | None:
    option = step.option(_IMAGE) if step is not None else None
    option = option or batch.directive(_IMAGE)
    return None if option is None else option.value


def _layout(batch: Batch, step: Step | None) -> Layout:
    from moectl.settings.layout import script_layout  # noqa: PLC0415

    return script_layout(batch, step)
