"""What a checked file starts: its settings as found, whatever kind of file said them.

A job (`moectl.job`) is complete by construction; a workload is what can be told from
somebody's file, and may lack anything. Rules read workloads, so a rule holds for a run file,
a MaxText config, a script and a manifest alike. What a file leaves to the moment it runs is
unknown, and stays so: a rule that needs it says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from moectl.values import Hardware, Image, Origin, Value


class Unknown(Enum):
    """The type of `UNKNOWN`."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown.UNKNOWN
"""A value that only the running file would know."""

MARK: Final = "\0"
"""Stands in `Text.text` for a piece that is not known; no file can say this character."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of characters that stand side by side in one line of a file.

    Attributes:
        text: the characters as the reading program gets them; MARK for an unknown piece.
        origin: where the first one stands.
        raw: as it stands in the file, where that differs (quotes, an expansion).
    """

    text: str
    origin: Origin
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """Text put together from pieces, so that every character knows its place."""

    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, text: str, origin: Origin) -> Text:
        """Return a text of one piece."""
        return cls((Piece(text, origin),))

    @property
    def text(self) -> str:
        """Return the characters, with MARK for what is not known."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def known(self) -> bool:
        """Whether nothing of it is left to the moment it runs."""
        return MARK not in self.text

    @property
    def origin(self) -> Origin:
        """Return where it begins."""
        return self.pieces[0].origin if self.pieces else Origin("nowhere")

    def at(self, offset: int) -> Origin:
        """Return where the character at `offset` stands; past the end, where the last does."""
        start = 0
        for piece in self.pieces:
            if offset < start + len(piece.text):
                return _moved(piece.origin, offset - start if not piece.raw else 0)
            start += len(piece.text)
        return self.pieces[-1].origin if self.pieces else Origin("nowhere")

    def __add__(self, other: Text) -> Text:
        return Text(self.pieces + other.pieces)


def _moved(origin: Origin, columns: int) -> Origin:
    return origin if origin.column is None else replace(origin, column=origin.column + columns)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of sbatch, srun, or another launcher, in its long spelling.

    Attributes:
        name: e.g. "--ntasks-per-node", also where the file says "--tasks-per-node" or "-n";
            as written when there is no such option.
        value: its value; None for an option without one.
        origin: where it stands.
        raw: as it stands in the file.
    """

    name: str
    value: Text | None
    origin: Origin
    raw: str


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a script that starts or prepares processes.

    Attributes:
        program: e.g. "srun", "python3", "enroot", "mpirun", "docker".
        options: the launcher's own options, as far as they are known by name.
        words: what it starts: the command and its arguments, the launcher's options left out;
            the inside of `bash -c '...'` is a step of its own (see `inside`).
        origin: where it stands.
        environment: the variables as they are there, those of the shell it stands in included.
        inside: commands inside `bash -c '...'`, or a script written by a here-document.
        conditional: whether it stands in a branch that may not be taken.
        through: the programs in front of it that only run it, e.g. "numactl" and "nsys".
    """

    program: str
    options: tuple[Option, ...]
    words: tuple[Text, ...]
    origin: Origin
    environment: Mapping[str, Text] = field(default_factory=dict)
    inside: tuple[Step, ...] = ()
    conditional: bool = False
    through: tuple[str, ...] = ()

    def option(self, *names: str) -> Option | None:
        """Return the last of the options with one of these long names, or None."""
        return last(self.options, names)


def last(options: Iterable[Option], names: Iterable[str]) -> Option | None:
    """Return the last of `options` that has one of the names: the one that counts."""
    wanted = set(names)
    return next((o for o in reversed(tuple(options)) if o.name in wanted), None)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch script: its directives, and its commands in order.

    Attributes:
        directives: the #SBATCH lines, in order.
        steps: the commands that matter, in order (see `Step`).
        scheduled: whether it is a batch script (it has directives), or a shell script.
        environment: the variables at its end.
        text: the script as it stands, for rules about its lines.
    """

    directives: tuple[Option, ...]
    steps: tuple[Step, ...]
    scheduled: bool
    environment: Mapping[str, Text] = field(default_factory=dict)
    text: str = ""

    def directive(self, *names: str) -> Option | None:
        """Return the last directive with one of these long names, or None."""
        return last(self.directives, names)


@dataclass(frozen=True, slots=True)
class Layout:
    """Nodes, processes and GPUs as far as they are said; None where nobody said anything.

    A value may be UNKNOWN, where it is said but cannot be told without running the file.
    """

    nodes: Value | None = None
    processes: Value | None = None
    processes_per_node: Value | None = None
    gpus: Value | None = None
    gpus_per_node: Value | None = None
    gpus_per_process: Value | None = None
    cpus_per_process: Value | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A Kubernetes document.

    Attributes:
        data: the document as read.
        place: gives the origin of a path of keys and indices in it.
    """

    data: Mapping[str, Any]
    places: Mapping[tuple[str | int, ...], Origin]

    def at(self, *path: str | int) -> Origin:
        """Return where `path` stands, or the nearest parent that is known."""
        for end in range(len(path), -1, -1):
            if found := self.places.get(path[:end]):
                return found
        return Origin("nowhere")


Values: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What one file, or one command of a script, starts.

    Attributes:
        kind: "run file", "MaxText config", "MaxText command", "script", "manifest", "flags"
            or "variables".
        origin: where it begins.
        maxtext: MaxText release whose catalogue judges it.
        jaxlib: jaxlib release whose flags judge it.
        image: the container image; moectl's default stands for one that nobody names.
        image_said: where the image is named; None when nobody names one.
        jaxlib_said: whether a person named the jaxlib release, whatever the image.
        container: whether it runs in a container; None when that cannot be told.
        is_maxtext: whether MaxText is started, so that rules about its keys hold.
        config: what its YAML says, `base_config` chain included, MaxText key to value.
        arguments: what its command line says, and M_* variables.
        effective: every MaxText value as it counts: base.yml < YAML < model file < command
            line; a key nobody said has its default. A value may be UNKNOWN.
        derived: values MaxText computes from them, by MaxText's own names; see
            `moectl.resolve.derived`.
        environment: variables of the processes, without XLA_FLAGS.
        flags: XLA_FLAGS; None when nobody sets it.
        layout: nodes, processes, GPUs.
        devices: GPUs the mesh must cover; None when nobody says.
        slices: slices the hardware makes of them; None when it follows the DCN degrees.
        hardware: the platform; None when nobody says.
        batch: the script it stands in.
        step: the command of that script that starts it.
        manifest: the Kubernetes document it stands in.
        alone: whether the batch script starts it itself, on its own node, by no launcher.
    """

    kind: str
    origin: Origin
    maxtext: str
    jaxlib: str
    image: Image | None = None
    image_said: Origin | None = None
    jaxlib_said: bool = False
    container: bool | None = None
    is_maxtext: bool = False
    config: Values = field(default_factory=dict)
    arguments: Values = field(default_factory=dict)
    effective: Mapping[str, Any] = field(default_factory=dict)
    derived: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Text] = field(default_factory=dict)
    flags: Text | None = None
    layout: Layout = field(default_factory=Layout)
    devices: int | None = None
    slices: int | None = None
    hardware: Hardware | None = None
    batch: Batch | None = None
    step: Step | None = None
    manifest: Manifest | None = None
    alone: bool = False

    def value(self, key: str) -> Any:
        """Return the value of a MaxText key as it counts, or what MaxText derives by that name.

        UNKNOWN when the file leaves it to the moment it runs; None when the release has no
        such key, or leaves it to its code.
        """
        if key in self.derived:
            return self.derived[key]
        return self.effective.get(key)

    def said(self, key: str) -> Value | None:
        """Return what the file itself says of a MaxText key (command line first), or None."""
        return self.arguments.get(key) or self.config.get(key)

    def variable(self, name: str) -> str | None:
        """Return the text of a variable; None when it is not set, or not known."""
        text = self.environment.get(name)
        return text.text if text is not None and text.known else None

    def where(self, *keys: str) -> Origin:
        """Return where the first of these keys or variables is said, else where it begins."""
        for key in keys:
            if (said := self.said(key)) is not None:
                return said.origin
            if key in self.environment:
                return self.environment[key].origin
        return self.origin
