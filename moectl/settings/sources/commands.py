"""Makes parts of the MaxText commands of a script, with the config that each names."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from moectl.facts.maxtext import Catalogue
from moectl.facts.own_configs import BASE, BASE_KEY
from moectl.findings import Finding
from moectl.settings.sources.command_line import LAYER, read_arguments
from moectl.settings.sources.maxtext_variables import read_variables
from moectl.settings.sources.maxtext_yaml import (
    default_config,
    read_config,
    read_own,
)
from moectl.settings.sources.source import MAX_PARTS, Open, Part, split_flags, unjudged
from moectl.settings.sources.templated import HOLE
from moectl.values import Origin, Value
from moectl.workload import MARK, UNKNOWN, Batch, Layout, Step, Text

if TYPE_CHECKING:
    from moectl.settings.shell import MaxTextStart

_LAUNCHERS: Final = frozenset({"srun", "mpirun", "mpiexec", "torchrun", "prun"})
_STEPS: Final = 20_000  # steps that are looked at for all commands together
_CHARACTERS: Final = 80  # of a script's text take as long as one step
_AROUND: Final = 40
_TEXT: Final = 4_000
_IMAGE: Final = "--container-image"
_SUBMIT: Final = frozenset({"sbatch", "salloc"})
_WRAP: Final = "--wrap"
_RANK: Final = "NODE_RANK"  # MaxText 0.2.5 utils/max_utils.py:342
# Of a script in another file the text is not at hand here; it may read variables from a third.
_OTHER_FILE: Final = "\n. script\n"
# What runs in a shell, or in a container that it starts, runs where the shell does.
_LOCAL: Final = frozenset({"python", "shell", "container"})
_REGISTRY_IMAGES: Final = frozenset({"docker", "podman", "nerdctl"})


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
        return _default(start, catalogue)
    from moectl.settings.shell import made_file  # noqa: PLC0415

    path, origin = word.text, word.origin
    if (made := made_file(files, word)) is not None:
        filled, left = _with_holes(made)
        found = read_config(filled, name, open_file, catalogue)
        return (
            dict(found.values),
            list(found.findings),
            [*found.unread, *(["lines of it that are not known"] if left else [])],
            list(found.told),
        )
    if not word.known:
        shown_path = path.replace(MARK, "…")
        told = [f"the config {shown_path} is not known; only the command's words are judged"]
        return {BASE_KEY: Value(UNKNOWN, origin)}, [], [shown_path], told
    text = open_file(path)
    folder = posixpath.dirname(name)
    if text is not None:
        found = read_config(text, posixpath.join(folder, path), open_file, catalogue, folder=folder)
        return dict(found.values), list(found.findings), list(found.unread), list(found.told)
    if posixpath.basename(path) == BASE:
        return {BASE_KEY: Value(BASE, origin)}, [], [], []
    own = read_own(path.rpartition("configs/")[2], origin, catalogue)
    if own is not None:
        return dict(own.values), [], [], list(own.told)
    told = [f"the config {path} is not beside the file; what it says is not known here"]
    return {BASE_KEY: Value(UNKNOWN, origin)}, [], [path], told


def _with_holes(made: str) -> tuple[str, bool]:
    """Return a file with a placeholder for what is not known, and whether keys may be missing.

    A line that is nothing else, or whose key is not known, may be any number of lines.
    """
    lines, left = [], False
    for line in made.replace(MARK, HOLE).split("\n"):
        key = line.partition(":")[0]
        if HOLE in key and not line.lstrip().startswith(("#", "-")):
            line, left = "", True  # noqa: PLW2901
        lines.append(line)
    return "\n".join(lines), left


def _default(
    start: MaxTextStart, catalogue: Catalogue
) -> tuple[dict[str, Value], list[Finding], list[str], list[str]]:
    """Return the config that MaxText takes when a command names none."""
    name = default_config(start.module)
    told = [f"no config is named, so MaxText takes its own {name}"]
    own = read_own(name, start.origin, catalogue)
    if own is not None:
        return dict(own.values), [], [], told
    value = Value(BASE if name == BASE else UNKNOWN, start.origin)
    return {BASE_KEY: value}, [], [] if name == BASE else [name], told


def parts_of_script(
    batch: Batch, name: str, kind: str, open_file: Open, catalogue: Catalogue
) -> tuple[list[Part], list[Finding], list[str]]:
    """Return one part for every MaxText command of a script, or one for the whole script."""
    from moectl.settings.shell import Script  # noqa: PLC0415

    files = batch.files if isinstance(batch, Script) else {}
    findings: list[Finding] = []
    told: list[str] = []
    parts: list[Part] = []
    view, submits = _View(batch), False
    found_all = started(batch.steps)
    starts = Counter(found.origin for found in found_all)
    ranks = _have_ranks(found_all)
    for found in found_all:
        if len(parts) == MAX_PARTS:
            findings.append(unjudged("script", "commands", found.origin))
            break
        said = read_command(found, found.environment, name, open_file, catalogue, files)
        findings += said.findings
        told += said.told
        environment, flags = split_flags(found.environment)
        step = _outer(found)
        seen, chain = _submitted(view.of(len(parts), found.steps[0]), found.steps)
        submits |= len(chain) < len(found.steps)
        again = starts[found.origin] > 1 or ranks
        alone = is_alone(chain) and (seen.scheduled or again)
        again |= found.conditional
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
                image=_image(seen, step) or _image_run(chain),
                layout=_layout(seen, step, alone=alone, again=again),
                unread=said.unread,
                alone=alone,
            )
        )
    if submits:
        # What it hands to sbatch is a job of its own; its other commands are judged as well.
        parts.append(Part(kind=kind, origin=Origin(LAYER, name, 1, 1), batch=batch))
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


def _submitted(batch: Batch, steps: tuple[Step, ...]) -> tuple[Batch, tuple[Step, ...]]:
    """Return the job that a command stands in, and its steps there.

    Args:
        batch: the script that is read.
        steps: the steps the command stands in, outermost first.

    Returns:
        The script itself, or what a command of it submits: the options of sbatch or salloc are
        directives then. They hold for what they start, whatever the script itself asks for.
    """
    at = next((at for at in reversed(range(len(steps))) if steps[at].program in _SUBMIT), None)
    if at is None:
        return batch, steps
    asked = tuple(option for option in steps[at].options if option.name != _WRAP)
    inside = steps[at].inside or steps[at + 1 :]
    other = any(step.origin.file != steps[at].origin.file for step in inside)
    job = replace(
        batch,
        directives=asked,
        steps=inside,
        scheduled=True,
        environment=steps[at].environment,
        text=f"{batch.text}{_OTHER_FILE}" if other else batch.text,
    )
    return job, steps[at + 1 :]


def is_alone(chain: Sequence[Step]) -> bool:
    """Whether the batch script runs a command itself, through shells and containers at most."""
    from moectl.facts.launchers import load  # noqa: PLC0415

    found = [load().program(step.program) for step in chain]
    return all(one is None or (one.role in _LOCAL and not one.elsewhere) for one in found)


def _have_ranks(starts: Sequence[MaxTextStart]) -> bool:
    """Whether the commands of a script say different ranks, so that they run side by side."""
    said = (start.environment.get(_RANK) for start in starts)
    return len({text.text for text in said if text is not None and text.known}) > 1


def _image_run(chain: Sequence[Step]) -> Text | None:
    """Return the image of the container that a command runs in, where a registry has it."""
    for step in reversed(chain):
        if step.program in _REGISTRY_IMAGES and len(step.words) > 1:
            return step.words[1] if step.words[0].text == "run" else None
    return None


def _layout(
    batch: Batch, step: Step | None, *, alone: bool | None = None, again: bool = False
) -> Layout:
    from moectl.settings.layout import script_layout  # noqa: PLC0415

    return script_layout(batch, step, alone=alone, again=again)
