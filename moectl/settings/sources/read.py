"""Reads a file of any kind, and hands on what it starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from moectl.errors import SourceError, shown
from moectl.findings import Finding
from moectl.settings.sources.detect import TAKES_BYTES, detect
from moectl.settings.sources.kinds import UNKNOWN_KIND
from moectl.settings.sources.source import Open, Part, Source, finding, split_flags
from moectl.settings.text_file import MAX_BYTES, foreign_byte
from moectl.values import Origin, Value

if TYPE_CHECKING:
    from moectl.settings.shell import World

LONGEST_LINE: Final = 1_000_000
_YAML_NAMES: Final = (".yml", ".yaml", ".json")
_TEMPLATES: Final = ("{{", "{%", "<%")
_LARGEST_UNKNOWN: Final = 200_000
_BOM: Final = "\ufeff"
_UNIX_ONLY: Final = frozenset({"script", "MaxText command", "variables"})


def read_source(
    name: str,
    text: str,
    open_file: Open,
    kind: str = "",
    *,
    maxtext: str | None = None,
    world: World | None = None,
) -> Source:
    """Read a file that is not of moectl.

    Args:
        name: its name, for places; "-" for standard input.
        text: its content.
        open_file: gives the text of a file by its path from the folder of `name`, None when it
            cannot be had.
        kind: what it is, when that is known; see `detect`.
        world: what a script's reading takes for granted; see `moectl.settings.shell`.
        maxtext: release whose keys tell what a word is; the newest of the catalogue when None.

    Returns:
        The source. A run file, preset or cluster profile is only recognised; it has no parts.
    """
    text = text.removeprefix(_BOM)
    broken = _broken(name, text)
    if broken is not None:
        return Source(name, kind or "unknown", (), (broken,))
    kind = kind or detect(name, text)
    findings: list[Finding] = []
    if kind in TAKES_BYTES and (at := foreign_byte(text)) is not None:
        findings.append(_other_encoding(name, kind, text, at))
    if "\r" in text:
        text = _unix(name, kind, text, findings)
    reader = _READERS.get(kind)
    if reader is None:
        if kind == UNKNOWN_KIND:
            findings += _not_yaml(name, text)
        return Source(name, kind, (), tuple(findings))
    try:
        source = reader(_File(name, text, open_file, kind, maxtext, world))
    except SourceError as error:
        origin = Origin(kind, name, error.line, None)
        hint = "mend the line" if error.line is not None else "give a smaller text file"
        stop = finding("SRC104", "error", kind, f"{error.sentence}.", hint, origin)
        return Source(name, kind, (), (*findings, stop))
    return Source(
        name, kind, source.parts, (*findings, *source.findings), source.told, source.doubts
    )


def _not_yaml(name: str, text: str) -> list[Finding]:
    """Return where a file that is called YAML, and is nobody's that is known, is none."""
    template = any(mark in text for mark in _TEMPLATES)
    if not name.lower().endswith(_YAML_NAMES) or template or len(text) > _LARGEST_UNKNOWN:
        return []
    from moectl.settings.sources.config_findings import of_trouble  # noqa: PLC0415
    from moectl.settings.sources.yaml_loose import read_documents  # noqa: PLC0415

    _, troubles = read_documents(text, name)
    stops = [trouble for trouble in troubles if trouble.kind in {"syntax", "tab"}]
    return [of_trouble(trouble, name) for trouble in stops[:1]]


def _broken(name: str, text: str) -> Finding | None:
    """Return why a text cannot be any of these files."""
    sentence, at = "", 0
    if len(text) > MAX_BYTES:
        sentence = f"the file is larger than {MAX_BYTES >> 20} MiB."
    elif "\0" in text:
        sentence, at = "the file is binary: it holds a NUL character.", text.index("\0")
    elif (longest := max(map(len, text.split("\n")))) > LONGEST_LINE:
        sentence = f"the file has a line of {longest} characters, and no such file has."
    if not sentence:
        return None
    origin = Origin("file", name, text.count("\n", 0, at) + 1 if at else 1, None)
    return finding("SRC101", "error", "file", sentence, "give a text file", origin)


def _other_encoding(name: str, kind: str, text: str, at: int) -> Finding:
    """Return the note on a script that is not UTF-8."""
    line = text.count("\n", 0, at) + 1
    return finding(
        "SRC106",
        "note",
        "encoding",
        "from here on it is not UTF-8 text: a shell takes the bytes as they are, and MaxText "
        "reads its configs as UTF-8 only.",
        "save it as UTF-8 text",
        Origin(kind, name, line, at - text.rfind("\n", 0, at)),
    )


def _unix(name: str, kind: str, text: str, findings: list[Finding]) -> str:
    """Return the text with Unix line ends; a shell does not take the others."""
    at = text.find("\r\n")
    if kind in _UNIX_ONLY and at >= 0:
        directives = "\n#SBATCH" in text or text.startswith("#SBATCH")
        what = "sbatch refuses it" if directives else "a shell keeps the CR as part of the line"
        findings.append(
            finding(
                "SRC102",
                "error" if kind != "variables" else "warning",
                "line ends",
                f"the file has Windows line ends (CR LF), and {what}.",
                f"dos2unix {name}" if name != "-" else "dos2unix FILE",
                Origin(kind, name, 1, None),
            )
        )
    return text.replace("\r\n", "\n").replace("\r", "\n" if kind not in _UNIX_ONLY else " ")


class _File:
    """What a reader gets."""

    def __init__(
        self,
        name: str,
        text: str,
        open_file: Open,
        kind: str,
        maxtext: str | None,
        world: World | None,
    ) -> None:
        self.world = world
        from moectl.facts.maxtext import load, releases  # noqa: PLC0415

        self.name, self.text, self.open_file, self.kind = name, text, open_file, kind
        self.catalogue = load(maxtext if maxtext in releases() else releases()[-1])

    def source(self, *parts: Part, told: tuple[str, ...] = ()) -> Source:
        return Source(self.name, self.kind, parts, (), told)

    @property
    def start(self) -> Origin:
        return Origin(self.kind, self.name, 1, 1)


def _config(file: _File) -> Source:
    from moectl.settings.sources.maxtext_yaml import read_config  # noqa: PLC0415

    found = read_config(file.text, file.name, file.open_file, file.catalogue)
    part = Part(
        kind=file.kind,
        origin=file.start,
        config=found.values,
        is_maxtext=file.kind == "MaxText config",
        unread=found.unread,
    )
    parts = (part,) if found.values else ()
    told = found.told
    if not part.is_maxtext:
        told = (*told, "a model file of MaxText, which starts no run: its keys are judged")
    return Source(file.name, file.kind, parts, found.findings, told)


def _script(file: _File) -> Source:
    from moectl.settings.sources.scripts import read_script  # noqa: PLC0415

    parts, findings, told, doubts = read_script(
        file.text, file.name, file.kind, file.open_file, file.catalogue, file.world
    )
    return Source(file.name, file.kind, tuple(parts), tuple(findings), tuple(told), doubts)


def _manifest(file: _File) -> Source:
    from moectl.settings.sources.workloads import parts_of_manifests  # noqa: PLC0415

    parts, findings, told, doubts = parts_of_manifests(
        file.text, file.name, file.open_file, file.catalogue, file.world
    )
    return Source(file.name, file.kind, tuple(parts), tuple(findings), tuple(told), doubts)


def _flags(file: _File) -> Source:
    from moectl.settings.sources.flags_text import read_flags  # noqa: PLC0415

    return file.source(Part(file.kind, file.start, flags=read_flags(file.text, file.name)))


def _variables(file: _File) -> Source:
    from moectl.settings.sources.variables import read_pairs  # noqa: PLC0415

    environment, flags = split_flags(read_pairs(file.text, file.name))
    part = Part(file.kind, file.start, environment=environment, flags=flags)
    if not any(name.startswith("M_") for name in environment):
        return file.source(part)
    from moectl.settings.sources.maxtext_variables import (  # noqa: PLC0415
        judge_alone,
        read_variables,
    )

    values, findings = read_variables(environment, {}, {}, file.catalogue)
    findings += judge_alone(values, environment, file.catalogue)
    return Source(file.name, file.kind, (part,), tuple(findings))


def _hosts(file: _File) -> Source:
    from moectl.errors import UsageError  # noqa: PLC0415
    from moectl.hostlist import expand  # noqa: PLC0415
    from moectl.workload import Layout  # noqa: PLC0415

    try:
        hosts = expand(file.text.strip())
    except UsageError as error:
        raise SourceError(file.name, 1, str(error)) from None
    layout = Layout(nodes=Value(len(hosts), file.start))
    first = f", the first is {shown(hosts[0])}" if hosts else ""
    told = f"a list of {len(hosts)} hosts{first}"
    return file.source(Part(file.kind, file.start, layout=layout), told=(told,))


_READERS: Final[dict[str, Callable[[_File], Source]]] = {
    "MaxText config": _config,
    "MaxText model file": _config,
    "script": _script,
    "MaxText command": _script,
    "manifest": _manifest,
    "flags": _flags,
    "variables": _variables,
    "host list": _hosts,
}
