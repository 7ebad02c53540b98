"""Asks a real jaxlib whether it takes an XLA_FLAGS text, and what it made of it.

The parser of a CPU wheel knows every GPU flag of its release, so no GPU is needed. It says
which flags it refuses, and the serialized compile options tell the value every flag has
afterwards: that is how a flag shows that was dropped without a message.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from moectl.errors import BackendError, shown
from moectl.evidence.xla_proto import Schema, Value, WireError, debug_options, schema
from moectl.evidence.xla_session import TEXT_SECONDS, Answer, ParserSession
from moectl.xla_text import FlagToken, ParsedFlags, parse

Outcome: TypeAlias = Literal["accepted", "refused", "crashed", "timeout"]
Problem: TypeAlias = Literal["unknown", "value", "bare", "file", "crash"]

# The three ways in which XLA gives up on purpose (xla/parse_flags_from_env.cc). A process that
# dies without one of them has crashed.
_UNKNOWN = "Unknown flag"
_BAD_VALUE = "Flag parsing failed"
_NO_FILE = "Could not open file"
_GIVES_UP = (_UNKNOWN, _BAD_VALUE, _NO_FILE)
_LARGEST_FLAG_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class XlaFault:
    """One flag that the parser refuses.

    Attributes:
        flag: its name without dashes; empty when the parser names none.
        value: its value as XLA sees it; None for a bare flag.
        problem: "unknown" to this release, "value" (known, value refused), "bare" (known, but
            it needs a value), "file" (the text names a file that cannot be read), "crash".
        line: the parser's own words.
    """

    flag: str
    value: str | None
    problem: Problem
    line: str

    @property
    def sentence(self) -> str:
        """Return the fault as one clause."""
        if not self.flag:
            return f"says: {self.line or 'nothing'}"
        name = self.flag if self.flag.startswith("-") else f"--{self.flag}"
        clauses = {
            "unknown": f"does not know {name}",
            "value": f"does not take {name}"
            + ("" if self.value is None else f" with {shown(self.value)}"),
            "bare": f"needs a value for {name}",
            "crash": f"dies of {name}",
        }
        return clauses.get(self.problem, f"says: {self.line}")


@dataclass(frozen=True, slots=True)
class _Release:
    """What is known of the parser that was asked, besides its answers about whole texts."""

    jaxlib: str
    alone: Mapping[str, Answer]
    known: Schema | None
    defaults: Mapping[str, Value]
    note: str


@dataclass(frozen=True, slots=True)
class XlaVerdict:
    """What one jaxlib made of one text.

    Attributes:
        text: the text.
        outcome: "accepted"; "refused" with the parser's own reason; "crashed" when it died
            without one; "timeout". Only the first is good.
        jaxlib: the release that judged.
        faults: every flag it refuses, each found by asking for that flag alone, because one
            bad value hides the list of unknown names.
        lines: what the parser wrote about the whole text, without time stamps.
        values: flag -> effective value after parsing; empty unless accepted.
        changed: the part of `values` that differs from the release's defaults.
        dropped: flags of the text that this parser never saw.
        note: why `values` is empty although the text was accepted.
    """

    text: str
    outcome: Outcome
    jaxlib: str
    faults: tuple[XlaFault, ...] = ()
    lines: tuple[str, ...] = ()
    values: Mapping[str, Value] = field(default_factory=dict)
    changed: Mapping[str, Value] = field(default_factory=dict)
    dropped: tuple[FlagToken, ...] = ()
    note: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the parser took the text."""
        return self.outcome == "accepted"

    @property
    def sentence(self) -> str:
        """Return the verdict as one sentence."""
        if self.accepted:
            lost = ", ".join(f"--{token.name}" for token in self.dropped)
            tail = f", but silently drops {lost}" if lost else ""
            return f"jaxlib {self.jaxlib} accepts the flags{tail}"
        if self.outcome == "timeout":
            return f"jaxlib {self.jaxlib} did not finish parsing the flags"
        if self.outcome == "crashed":
            said = self.lines[-1] if self.lines else "no message"
            return f"jaxlib {self.jaxlib} died while parsing the flags: {said}"
        return f"jaxlib {self.jaxlib} {'; '.join(fault.sentence for fault in self.faults)}"


def judge(
    text: str,
    python: str = sys.executable,
    *,
    seconds: float = TEXT_SECONDS,
    cwd: Path | None = None,
) -> XlaVerdict:
    """Ask the jaxlib of `python` about one XLA_FLAGS text.

    Args:
        text: the value of XLA_FLAGS.
        python: an interpreter that has jaxlib; its release is the one that judges.
        seconds: the time a parse may take.
        cwd: the folder against which a relative name of a flag file counts.

    Raises:
        BackendError: the interpreter cannot be started, has no jaxlib, or died.
    """
    return judge_many([text], python, seconds=seconds, cwd=cwd)[0]


def judge_many(
    texts: Sequence[str],
    python: str = sys.executable,
    *,
    seconds: float = TEXT_SECONDS,
    cwd: Path | None = None,
) -> list[XlaVerdict]:
    """Ask about several texts; jaxlib is imported once and each text gets a fork of its own.

    Args and errors are those of `judge`; the verdicts come in the order of the texts.
    """
    with ParserSession(python, cwd=cwd) as session:
        default, *answers = session.ask(["", *texts], seconds)
        parsed = [_tokens(text, cwd) for text in texts]
        parts = [
            () if answer.accepted else tuple(_parts(flags.kept))
            for answer, flags in zip(answers, parsed, strict=True)
        ]
        distinct = list(dict.fromkeys(part for group in parts for part in group))
        alone = dict(zip(distinct, session.ask(distinct, seconds), strict=True)) if distinct else {}
        known, note = _schema(session.library)
    defaults = _values(default, known)[0] if default.accepted else {}
    release = _Release(session.jaxlib, alone, known, defaults, note)
    return [
        _verdict(text, answer, flags, release)
        for text, answer, flags in zip(texts, answers, parsed, strict=True)
    ]


def _verdict(text: str, answer: Answer, flags: ParsedFlags, release: _Release) -> XlaVerdict:
    outcome, lines = _outcome(answer), tuple(_lines(answer.said))
    if outcome != "accepted":
        faults = tuple(_faults(flags.kept, release.alone)) or (_whole_fault(answer, lines),)
        return XlaVerdict(text, outcome, release.jaxlib, faults, lines, dropped=flags.dropped)
    values, problem = _values(answer, release.known)
    absent = object()
    changed = {k: v for k, v in values.items() if release.defaults.get(k, absent) != v}
    note = release.note or problem
    return XlaVerdict(
        text, outcome, release.jaxlib, (), lines, values, changed, flags.dropped, note
    )


def _outcome(answer: Answer) -> Outcome:
    if answer.accepted:
        return "accepted"
    if answer.timeout:
        return "timeout"
    gave_up = any(reason in line for line in _lines(answer.said) for reason in _GIVES_UP)
    return "refused" if answer.code != 0 and gave_up else "crashed"


def _faults(tokens: Iterable[FlagToken], alone: Mapping[str, Answer]) -> Iterable[XlaFault]:
    for token in dict.fromkeys(tokens):
        answer = alone[token.source]
        if answer.accepted:
            continue
        lines = list(_lines(answer.said))
        yield XlaFault(token.name, token.value, _problem(token, answer, alone), _named(lines))


def _problem(token: FlagToken, answer: Answer, alone: Mapping[str, Answer]) -> Problem:
    if _outcome(answer) != "refused":
        return "crash"
    if _UNKNOWN not in answer.said:
        return "value"
    # A known flag without the value it needs is reported as unknown, too.
    with_value = alone.get(f"{token.source}=")
    return "bare" if with_value is not None and _UNKNOWN not in with_value.said else "unknown"


def _whole_fault(answer: Answer, lines: Sequence[str]) -> XlaFault:
    problem: Problem = "crash" if _outcome(answer) != "refused" else "value"
    return XlaFault("", None, "file" if _NO_FILE in answer.said else problem, _named(lines))


def _parts(tokens: Iterable[FlagToken]) -> Iterable[str]:
    """Return the texts that tell which of the flags is at fault."""
    for token in tokens:
        yield token.source
        if token.value is None:
            yield f"{token.source}="


def _named(lines: Sequence[str]) -> str:
    """Return the line that says most: the first, since the last one is the same for all."""
    return lines[0] if lines else ""


def _lines(said: str) -> Iterable[str]:
    """Return the parser's messages without time stamp, thread and file; no usage dump."""
    for line in said.splitlines():
        head, bracket, message = line.partition("] ")
        if bracket and ".cc:" in head:
            yield message
        elif not line.startswith(("\t", "usage:", "Flags:")) and ".cc:" not in head:
            yield line


def _tokens(text: str, cwd: Path | None) -> ParsedFlags:
    """Read the flags as XLA does, out of the file that the text names if it names one."""
    flags = parse(text)
    if flags.file is None or flags.fatal:
        return flags
    try:
        with (cwd or Path()).joinpath(flags.file).open("rb") as file:
            content = file.read(_LARGEST_FLAG_FILE)
    except (OSError, ValueError):
        return flags
    return parse(content.decode("utf-8", "surrogateescape"), content=True)


def _schema(library: Path) -> tuple[Schema | None, str]:
    try:
        return schema(library), ""
    except BackendError as error:
        return None, str(error)


def _values(answer: Answer, known: Schema | None) -> tuple[Mapping[str, Value], str]:
    if known is None:
        return {}, ""
    try:
        return debug_options(answer.options, known), ""
    except WireError as error:
        return {}, f"the effective values could not be read back: {error}"
