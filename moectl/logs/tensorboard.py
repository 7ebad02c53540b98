"""Reads the scalars of TensorBoard's event files.

A file is a sequence of records: length (8 bytes), a checksum of the length (4), the data, and a
checksum of the data (4), all little-endian (tensorflow/core/lib/io/record_writer.cc). The data is
an Event message (tensorflow/core/util/event.proto, framework/summary.proto), of which a dozen
fields matter. Reading them by hand costs less than TensorBoard with its servers and tables.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

from moectl.logs.columns import by_sink
from moectl.logs.maxtext import opened
from moectl.logs.table import Batch, Table

_HEAD = struct.Struct("<QI")
_MOST_BYTES = 1 << 24  # of a record; an image may be larger, and is no scalar
_MASK = 0xA282EAD8
# Fields: Event wall_time, step, summary; Summary value; Value tag, simple_value, tensor;
# TensorProto dtype, tensor_content, float_val, double_val.
_WALL_TIME, _STEP, _SUMMARY, _VALUE, _TAG, _SIMPLE, _TENSOR = 1, 2, 5, 1, 1, 2, 8
_DTYPE, _CONTENT, _FLOATS, _DOUBLES = 1, 4, 5, 6
_KINDS = {1: "<f", 2: "<d"}
_Field: TypeAlias = tuple[int, int, int | bytes]


@dataclass(slots=True)
class EventFile:
    """An event file.

    Attributes:
        path: the file.
        table: its steps; the place of a value is the number of its record.
        damaged: whether a record is broken, after which nothing can be read.
        size: bytes of the file when it was read.
    """

    path: Path
    table: Table = field(default_factory=Table)
    damaged: bool = False
    size: int = 0

    def update(self) -> int:
        """Read the file from its beginning; return how many steps it has.

        Raises:
            OSError: the file cannot be read.
        """
        self.table, self.damaged = Table(), False
        self.size = self.path.stat().st_size
        step: int | None = None
        values: dict[str, float] = {}
        time, place = float("nan"), 0
        for number, record in enumerate(self._records(), 1):
            said = _event(record)
            if said is None or not said[2]:
                continue
            if said[0] != step:
                self._add(step, place, time, values)
                step, values, time, place = said[0], {}, said[1], number
            values |= said[2]
        self._add(step, place, time, values)
        return self.table.count

    def _add(self, step: int | None, place: int, time: float, values: dict[str, float]) -> None:
        if step is not None and values:
            columns = [(value,) for value in values.values()]
            self.table.extend(Batch(tuple(values), (step,), (place,), (time,), columns))

    def _records(self) -> Iterator[bytes]:
        if not self.path.is_file():  # a pipe would never end
            raise FileNotFoundError(2, "is no file", str(self.path))
        with opened(self.path) as stream:
            while len(head := stream.read(_HEAD.size)) == _HEAD.size:
                length, checksum = _HEAD.unpack(head)
                if checksum != _masked(head[:8]) or length > _MOST_BYTES:
                    self.damaged = True
                    return
                data = stream.read(length)
                if len(data) < length or len(stream.read(4)) < 4:
                    return  # being written, or the process was killed at it
                yield data


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so is an event file: the checksum of the first length is right."""
    return len(head) >= _HEAD.size and _HEAD.unpack(head[: _HEAD.size])[1] == _masked(head[:8])


def _event(record: bytes) -> tuple[int, float, dict[str, float]] | None:
    """Return step, time in s since the epoch and the scalars that a table names."""
    step, time = 0, float("nan")
    values: dict[str, float] = {}
    try:
        for number, _, value in _fields(record):
            if number == _STEP and isinstance(value, int):
                step = value
            elif number == _WALL_TIME and isinstance(value, bytes):
                (time,) = struct.unpack("<d", value)
            elif number == _SUMMARY and isinstance(value, bytes):
                values |= dict(_scalars(value))
    except (ValueError, struct.error):
        return None
    return (step, time, values) if 0 <= step < 10**12 else None


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    known = by_sink()
    for number, _, value in _fields(summary):
        if number != _VALUE or not isinstance(value, bytes):
            continue
        tag, said = "", None
        for inner, _, held in _fields(value):
            if inner == _TAG and isinstance(held, bytes):
                tag = held.decode("utf-8", "replace")
            elif inner == _SIMPLE and isinstance(held, bytes):
                (said,) = struct.unpack("<f", held)
            elif inner == _TENSOR and isinstance(held, bytes):
                said = _tensor(held)
        if said is not None and tag in known:
            yield known[tag].name, said


def _tensor(data: bytes) -> float | None:
    """Return the one number of a tensor; None of any other tensor."""
    form, content = "", b""
    for number, _, value in _fields(data):
        if number == _DTYPE and isinstance(value, int):
            form = _KINDS.get(value, "")
        elif number in {_CONTENT, _FLOATS, _DOUBLES} and isinstance(value, bytes):
            content = value
    if not form or len(content) != struct.calcsize(form):
        return None
    (said,) = struct.unpack(form, content)
    return float(said)


def _fields(data: bytes) -> Iterator[_Field]:
    """Yield number, wire type and value of each field of a message.

    Raises:
        ValueError: it is none.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == 2:
            length, at = _varint(data, at)
        elif kind in {1, 5}:
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(kind)
        if at + length > end:
            raise ValueError(length)
        yield number, kind, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(at)


def _masked(data: bytes) -> int:
    """Return the masked CRC-32C of a few bytes, as record_writer.cc stores it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _crc_table()[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 if crc & 1 else crc >> 1
        table.append(crc)
    return tuple(table)
