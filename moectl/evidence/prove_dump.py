"""Reads what XLA writes of a compile into its dump folder: its options, and its buffers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

OPTIONS_FILE = "*.jit_train_step.config.pbtxt"
BUFFERS_FILE = "*.jit_train_step.*memory-usage-report.txt"
_OPTIONS = "debug_options {"
_SPACE = re.compile(r"^Memory Space: (\S+)")
_TOTAL = re.compile(r"^Total bytes: (\d+)")
_ROW = re.compile(
    r"^\s*[\d.]+\s*(?:[KMGT]i)?B\(\s*\d+%\);\s*([\d.]+)\s*((?:[KMGT]i)?B);\s*(\d+);\s*(\d+);\s*(.+)$"
)
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SHAPE = re.compile(r"(?:(\d+)×)?(\S+\[[\d,]*\])")


def options(text: str) -> dict[str, Any]:
    """Return the DebugOptions a module was compiled with, out of its config's text proto.

    A field that is said more than once becomes a list; enums are their names.
    """
    found: dict[str, Any] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if line == _OPTIONS:
            break
    for line in _own(lines):
        name, colon, value = line.strip().partition(": ")
        if not colon:
            continue
        read = _value(value)
        if name not in found:
            found[name] = read
        elif isinstance(found[name], list):
            found[name].append(read)
        else:
            found[name] = [found[name], read]
    return found


def _own(lines: Iterator[str]) -> Iterator[str]:
    """Yield the fields of the message itself, those of messages inside it left out."""
    depth = 1
    for line in lines:
        if line.endswith("{"):
            depth += 1
        elif line.strip() == "}":
            depth -= 1
            if not depth:
                return
        elif depth == 1:
            yield line


def _value(text: str) -> Any:
    if text.startswith('"'):
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if text in {"true", "false"}:
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True, slots=True)
class Buffer:
    """One stretch of a program's memory.

    Attributes:
        space: the memory it is in: "default" is the GPU's, the others are named as XLA does.
        bytes: its size.
        shapes: what lies there at one time or another, the same shape once.
    """

    space: str
    bytes: int
    shapes: tuple[str, ...]


def buffers(text: str, count: int = 24) -> tuple[dict[str, int], list[Buffer]]:
    """Return the bytes of every memory space and the largest buffers, out of XLA's report.

    Args:
        text: XLA's memory-usage-report.
        count: buffers at most, over all spaces.
    """
    totals: dict[str, int] = {}
    found: list[Buffer] = []
    space = ""
    for line in text.splitlines():
        if match := _SPACE.match(line):
            space = match[1]
        elif match := _TOTAL.match(line):
            totals.setdefault(space, int(match[1]))
        elif space and (match := _ROW.match(line)):
            size = int(float(match[1]) * _UNITS[match[2]])
            shapes = tuple(dict.fromkeys(shape for _, shape in _SHAPE.findall(match[5])))
            found.append(Buffer(space, size, shapes))
    return totals, sorted(found, key=lambda buffer: -buffer.bytes)[:count]


def differs(said: str, held: Any) -> bool:
    """Whether a scalar option holds another value than its flag says.

    Lists and enums are not compared: they have several spellings.
    """
    if isinstance(held, bool):
        return {"true": True, "1": True, "false": False, "0": False}.get(said.lower()) is not held
    if isinstance(held, (int, float)):
        try:
            return abs(float(said) - held) > 1e-6 * max(1.0, abs(held))
        except ValueError:
            return True
    return False


def shown(held: Any) -> str:
    """Return an option's value as a flag would say it."""
    if isinstance(held, bool):
        return "true" if held else "false"
    if isinstance(held, Sequence) and not isinstance(held, str):
        return ",".join(shown(item) for item in held)
    return "" if held is None else str(held)
