"""Makes parts of one container: of its command, or of the script that it runs."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from moectl.facts.maxtext import Catalogue
from moectl.findings import Finding
from moectl.settings.sources.commands import parts_of_script, read_command, started
from moectl.settings.sources.config_maps import Item, Maps, from_maps, laid_out, mounted
from moectl.settings.sources.containers import (
    environment,
    file_run,
    image,
    script,
    words,
)
from moectl.settings.sources.detect import is_shell
from moectl.settings.sources.manifest import Reading
from moectl.settings.sources.placed import UNKNOWN_WORD, Inner, Mover
from moectl.settings.sources.pods import Path, Pod, known
from moectl.settings.sources.scripts import faults_of
from moectl.settings.sources.source import Open, Part, split_flags
from moectl.workload import MARK, Piece, Step, Text

if TYPE_CHECKING:
    from moectl.settings.shell import Doubts, World

KIND = "manifest"
_SPECIAL = re.compile(r'[\\"$`]')  # to a shell in double quotes
Found = tuple[list[Part], list[Finding], list[str]]


@dataclass(slots=True)
class Files:
    """What the containers of a manifest can open.

    Attributes:
        name: the manifest.
        beside: gives the text of a file beside it.
        maps: its ConfigMaps.
        used: the entries of them that some container has opened.
        world: what the reading of their scripts takes for granted; nothing when None.
        doubts: what those readings took for granted, with places in the manifest.
    """

    name: str
    beside: Open
    maps: Maps
    used: list[Item] = field(default_factory=list)
    world: World | None = None
    doubts: list[Doubts] = field(default_factory=list)


class _Inside:
    """The files of one container; remembers what was opened, for the places in it."""

    def __init__(self, files: Files, mounts: Mapping[str, Item], folder: str) -> None:
        self._files, self._mounts = files, mounts
        self.folders = [folder]  # where a relative path may begin, the likelier one first
        self.inner: dict[str, Inner] = {}

    def item(self, path: str) -> Item | None:
        whole = (posixpath.normpath(posixpath.join(folder, path)) for folder in self.folders)
        return next((self._mounts[name] for name in whole if name in self._mounts), None)

    def __call__(self, path: str) -> str | None:
        item = self.item(path)
        if item is None:
            # An absolute path is one of the container, not of this machine.
            return None if path.startswith("/") else self._files.beside(path)
        self._files.used.append(item)
        inner = item.inner()
        beside = posixpath.join(posixpath.dirname(self._files.name), path)
        self.inner |= dict.fromkeys((path, beside, posixpath.normpath(beside)), inner)
        return inner.text


def parts_of_container(
    reading: Reading,
    pod: Pod,
    path: Path,
    container: Mapping[str, Any],
    files: Files,
    catalogue: Catalogue,
) -> Found:
    """Return what a container starts: a part for every MaxText command, or one for all of it."""
    variables = environment(reading, path, container, files.maps)
    _, others = from_maps(container, files.maps)
    texts = words(reading, path, container, variables, others=others)
    own, flags = split_flags(variables)
    part = Part(
        kind=KIND,
        origin=reading.manifest.at(*path),
        environment=own,
        flags=flags,
        manifest=reading.manifest,
        image=image(reading, path, container),
    )
    mounts = mounted(pod.spec, container, files.maps)
    inside = _Inside(files, mounts, known(container.get("workingDir")) or "/")
    if (text := script(texts) or _mounted_script(texts, inside, files)) is not None:
        return _of_script(part, text, variables, inside, files, catalogue)
    step = Step("", (), tuple(texts), part.origin, variables)
    start = next(iter(started([step])), None)
    if start is None and (text := _as_script(texts)) is not None:
        return _of_script(part, text, variables, inside, files, catalogue)
    if start is None:
        return [part], [], []
    said = read_command(start, variables, files.name, inside, catalogue)
    part = replace(
        part,
        config=said.config,
        arguments=said.arguments,
        is_maxtext=True,
        unread=said.unread,
    )
    move = Mover(inside.inner)
    return [move(part)], list(move(said.findings)), list(said.told)


def _as_script(texts: list[Text]) -> Text | None:
    """Return the words of a command that starts processes as a shell would be told them."""
    from moectl.facts.launchers import load  # noqa: PLC0415

    launcher = load().program(texts[0].text) if texts else None
    if launcher is None or launcher.role != "launcher":
        return None
    pieces: list[Piece] = []
    for text in texts:
        if not text.pieces:
            continue
        quote = Piece('"', text.origin, '"')
        inside = [
            piece
            if piece.text == MARK
            else Piece(_SPECIAL.sub(r"\\\g<0>", piece.text), piece.origin, piece.raw)
            for piece in text.pieces
        ]
        pieces += [quote, *inside, quote, Piece(" ", text.origin, " ")]
    return Text(tuple(pieces))


def _mounted_script(texts: list[Text], inside: _Inside, files: Files) -> Text | None:
    """Return the script of a ConfigMap that the command runs."""
    path = file_run(texts)
    item = inside.item(path) if path else None
    if item is None or not is_shell(item.value):
        return None
    files.used.append(item)
    inside.folders.append(posixpath.dirname(path or ""))
    return item.text


def _of_script(
    part: Part,
    text: Text,
    variables: Mapping[str, Text],
    inside: _Inside,
    files: Files,
    catalogue: Catalogue,
) -> Found:
    """Read a script of a container, which begins with the container's variables."""
    from moectl.settings.shell import CERTAIN, read  # noqa: PLC0415

    inner = laid_out(text)
    # A name that no file has, in the folder of the manifest.
    name = f"{files.name}{MARK}"
    reading = read(inner.text, name, inside, files.world or CERTAIN, environment=variables)
    above = "\n" * ((text.origin.line or 1) - 1)
    batch = replace(reading.batch, text=above + text.text.replace(MARK, UNKNOWN_WORD))
    found, findings, told = parts_of_script(batch, files.name, KIND, inside, catalogue)
    findings += faults_of(reading, name, inner.text)
    # What the reading of a script lost of its variables, the container still has.
    below = {} if reading.complete else part.environment
    parts = [
        replace(
            part,
            origin=started.origin if started.is_maxtext else part.origin,
            config=started.config,
            arguments=started.arguments,
            is_maxtext=started.is_maxtext,
            environment={**below, **started.environment},
            flags=started.flags if reading.complete else started.flags or part.flags,
            batch=started.batch,
            step=started.step,
            unread=started.unread,
            layout=started.layout,
        )
        for started in found
    ]
    move = Mover({name: inner, **inside.inner})
    files.doubts.append(move.doubts(reading.doubts))
    return [move(one) for one in parts], [move(one) for one in findings], [*reading.told, *told]
