"""Reads the text of a compiled HLO module: computations, instructions, shapes and calls.

Only what a count of collectives needs is read; the form is that of openxla/xla
xla/hlo/ir/hlo_instruction.cc (`HloInstruction::Print`) and hlo_computation.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{$")
_ARRAY = re.compile(r"\b([a-z]+[0-9][a-z0-9]*|pred)\[([0-9,<= ]*)\]")
_BITS = re.compile(r"[a-z]+([0-9]+)")
_CALLEES = re.compile(
    r"\b(?:body|condition|calls|to_apply|true_computation|false_computation)=%?([\w.\-]+)"
)
_MANY = re.compile(r"\b(?:branch_computations|called_computations|calls)=\{([^{}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"?(\d+)')
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        name: its name without the percent sign.
        shape: text of what it makes, e.g. "(bf16[8]{0}, f32[])".
        opcode: e.g. "all-gather-start".
        operands: names of what it takes.
        attributes: the text after its operands.
    """

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str

    @property
    def callees(self) -> tuple[str, ...]:
        """Return the names of the computations it runs, each as often as it is named."""
        found = _CALLEES.findall(self.attributes)
        for names in _MANY.findall(self.attributes):
            found += [name.strip().lstrip("%") for name in names.split(",") if name.strip()]
        return tuple(found)

    @property
    def trips(self) -> int | None:
        """Return how often a loop runs, where the compiler knows."""
        match = _TRIPS.search(self.attributes)
        return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class Module:
    """A module.

    Attributes:
        entry: the name of the computation that is run.
        computations: name to instructions.
    """

    entry: str
    computations: Mapping[str, Mapping[str, Instruction]]


class HloError(ValueError):
    """A text that is no HLO module: one sentence."""


def module(text: str) -> Module:
    """Read a module.

    Raises:
        HloError: it has no entry computation.
    """
    found: dict[str, dict[str, Instruction]] = {}
    entry, current = "", None
    for line in text.splitlines():
        if not line.startswith(" "):
            match = _HEADER.match(line) if line.endswith("{") else None
            current = None
            if match:
                current = found.setdefault(match[2], {})
                entry = match[2] if match[1] else entry
        elif current is not None and (instruction := _instruction(line)):
            current[instruction.name] = instruction
    if not entry:
        raise HloError("the text holds no entry computation, so it is no HLO module")
    return Module(entry, found)


def _instruction(line: str) -> Instruction | None:
    name, equals, rest = line.strip().removeprefix("ROOT ").partition(" = ")
    if not equals:
        return None
    end = _closed(rest, 0) if rest.startswith("(") else rest.find(" ")
    opening = rest.find("(", end)
    if end <= 0 or opening < 0:
        return None
    after = _closed(rest, opening)
    operands = tuple(part.split()[-1].lstrip("%") for part in _split(rest[opening + 1 : after - 1]))
    return Instruction(
        name.lstrip("%"), rest[:end], rest[end:opening].strip(), operands, rest[after:]
    )


def _closed(text: str, start: int) -> int:
    """Return the index just past the bracket that closes the one at `start`."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in _OPENING:
            depth += 1
        elif text[at] in _CLOSING:
            depth -= 1
            if depth == 0:
                return at + 1
    return len(text)


def _split(text: str) -> Iterator[str]:
    """Yield the parts of a list at its own commas, comments and empty parts left out."""
    depth, start = 0, 0
    text = re.sub(r"/\*.*?\*/", "", text)
    for at, character in enumerate(text):
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            if text[start:at].strip():
                yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


@cache
def shape_bytes(shape: str) -> int:
    """Return the bytes of a shape, the parts of a tuple together; layouts do not count.

    Types under 8 bits are packed (XLA packs s4 and f4 in memory), rounded up by array.
    """
    total = 0
    for kind, dimensions in _ARRAY.findall(shape):
        sizes = [int(item.strip(" <=") or 0) for item in dimensions.split(",") if item.strip()]
        total += (prod(sizes) * _bits(kind) + 7) // 8
    return total


def _bits(kind: str) -> int:
    match = _BITS.match(kind)
    return int(match[1]) if match else 8  # pred


def attribute(text: str, name: str) -> str:
    """Return the value of an attribute, "" when it is not there.

    A value that is a list of device groups is returned whole, in each of its forms.
    """
    match = re.search(rf"(?:^|[,{{ ]){re.escape(name)}=", text)
    if not match:
        return ""
    start = at = match.end()
    if text.startswith("mesh[", at):
        at = _closed(text, at + len("mesh"))
        if text.startswith(", device_ids=(", at):
            at = _closed(text, at + len(", device_ids="))
        brace = text.find("{", at)
        return text[start : _closed(text, brace)] if brace >= 0 else ""
    while at < len(text) and text[at] not in ", }":
        at = _closed(text, at) if text[at] in _OPENING else at + 1
    return text[start:at]
