"""What a line of MaxText's log says. Formats are data, by release."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from moectl.facts.yaml_facts import read
from moectl.logs.prefixes import LONGEST, strip

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|nan|inf)", re.ASCII)
_STEP = re.compile(r"\d{1,12}", re.ASCII)
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class StepLine:
    """One training step, as a process wrote it down.

    Attributes:
        step: its number, from 0.
        seconds: host time between two dispatches, in s; None where the line does not say.
        tflops: model TFLOP/s a device, by MaxText's own count.
        tokens_per_s: tokens a second and device.
        loss: may be nan or inf.
        total_weights: weights of the tokens that counted.
        extra: the other fields that are numbers, by the name in the line.
        rampup: whether the batch still grows.
        boundary: whether a profile began or ended here, so that nothing else was said.
        rank: the process, where the line says it.
    """

    step: int
    seconds: float | None = None
    tflops: float | None = None
    tokens_per_s: float | None = None
    loss: float | None = None
    total_weights: float | None = None
    extra: Mapping[str, float] = field(default_factory=dict)
    rampup: bool = False
    boundary: bool = False
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Another line worth knowing.

    Attributes:
        kind: which, as in the table: steps, parameters, evaluation, evaluation step, stopped.
        value: its number, None when it has none.
        text: its text, "" when it has none.
    """

    kind: str
    value: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """How a release writes its steps."""

    rampup: str
    step: str
    boundary: str
    fields: Mapping[str, str]
    unsteady_steps: int


@cache
def log_format(release: str = "") -> Format:
    """Return the format of a MaxText release; of one that is not known, the newest."""
    facts = read("log_formats.yaml")
    row = facts["releases"].get(release) or facts["releases"][facts["default"]]
    return Format(
        row["rampup"],
        row["step"],
        row["boundary"],
        {name: attribute for attribute, name in row["fields"].items()},
        row["unsteady_steps"],
    )


@cache
def _events() -> tuple[tuple[str, re.Pattern[str]], ...]:
    rows = read("log_formats.yaml")["events"]
    return tuple((kind, re.compile(pattern, re.ASCII)) for kind, pattern in rows.items())


@cache
def _interesting() -> re.Pattern[str]:
    """Return what every line that says something holds; most lines are settled by it."""
    heads = {pattern.pattern.partition("(")[0].rstrip(" :") for _, pattern in _events()}
    formats = [log_format(release) for release in read("log_formats.yaml")["releases"]]
    heads |= {each.step for each in formats} | {each.boundary for each in formats}
    return re.compile("|".join(map(re.escape, sorted(heads, key=len, reverse=True))))


def read_line(text: str, release: str = "") -> StepLine | Event | None:
    """Return what a line says, None when it is none of those that are known. Never raises.

    Args:
        text: a line of any origin, with or without its prefixes.
        release: the MaxText release that wrote it; "" is the newest known.
    """
    if not _interesting().search(text, 0, LONGEST):
        return None
    line = strip(text)
    form = log_format(release)
    message = line.text
    rampup = message.startswith(form.rampup)
    if rampup:
        message = message[len(form.rampup) :].lstrip(", ")
    for head, boundary in ((form.step, False), (form.boundary, True)):
        if message.startswith(f"{head}:"):
            return _step(message[len(head) + 1 :], form, line.rank, rampup, boundary)
    for kind, pattern in _events():
        if match := pattern.match(message):
            said = match.groupdict()
            return Event(kind, number(said.get("value") or ""), said.get("text") or "")
    return None


def _step(
    text: str, form: Format, rank: int | None, rampup: bool, boundary: bool
) -> StepLine | None:
    first, *rest = text.split(", ")
    if not _STEP.fullmatch(first.strip()):
        return None
    known: dict[str, Any] = {}
    extra: dict[str, float] = {}
    for part in rest:
        name, colon, said = part.partition(": ")
        value = number(said) if colon else None
        if value is None:
            continue
        attribute = form.fields.get(name)
        if attribute is None:
            extra.setdefault(name, value)
        else:
            known.setdefault(attribute, value)
    return StepLine(int(first), **known, extra=extra, rampup=rampup, boundary=boundary, rank=rank)


def number(text: str) -> float | None:
    """Return a number as Python's format writes it, nan and inf included; None for others."""
    stripped = text.strip()
    return float(stripped) if len(stripped) < 64 and _NUMBER.fullmatch(stripped) else None


def lines(stream: BinaryIO, longest: int = LONGEST, errors: str = "replace") -> Iterator[str]:
    """Yield the lines of a stream with their ends, as text whatever their bytes are.

    Args:
        stream: where to read from.
        longest: bytes of a line; the rest is cut off, so memory stays flat.
        errors: what becomes of bytes that are no UTF-8, as of `bytes.decode`.

    A last line without its end has none here either.
    """
    held = b""
    while chunk := stream.read(_CHUNK):
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield (held + line)[:longest].decode("utf-8", errors) + "\n"
            held = b""
        held = (held + rest)[:longest]
    if held:
        yield held.decode("utf-8", errors)


def opened(path: Path) -> BinaryIO:
    """Open a log for reading, compressed by gzip or not: its first two bytes say.

    Raises:
        OSError: it cannot be opened.
    """
    with path.open("rb") as stream:
        compressed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if compressed else path.open("rb")  # type: ignore[return-value]


def read_log(path: Path, release: str = "") -> Iterator[StepLine | Event]:
    """Yield what the lines of a whole log say, in order and with flat memory.

    The end of a damaged gzip file ends the log; what came before counts.

    Raises:
        OSError: it cannot be opened.
    """
    with opened(path) as stream:
        try:
            for line in lines(stream):
                said = read_line(line, release) if line.endswith("\n") else None
                if said is not None:
                    yield said
        except (EOFError, gzip.BadGzipFile, zlib.error, OSError):
            return
