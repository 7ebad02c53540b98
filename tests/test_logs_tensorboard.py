"""Event files of TensorBoard: the format itself, and what spoils it.

Files that real MaxText wrote are read in `test_report_real`; here they are built by hand.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from moectl.logs.columns import ABSENT
from moectl.logs.tensorboard import EventFile, _masked, looks_like


def varint(value: int) -> bytes:
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def scalar(tag: str, value: float) -> bytes:
    return field(1, field(1, tag.encode()) + varint(2 << 3 | 5) + struct.pack("<f", value))


def tensor(tag: str, value: float) -> bytes:
    data = varint(1 << 3) + varint(1) + field(4, struct.pack("<f", value))
    return field(1, field(1, tag.encode()) + field(8, data))


def event(step: int, *values: bytes, time: float = 1e9) -> bytes:
    head = varint(1 << 3 | 1) + struct.pack("<d", time)
    return head + varint(2 << 3) + varint(step) + field(5, b"".join(values))


def framed(*records: bytes) -> bytes:
    return b"".join(
        struct.pack("<Q", len(record))
        + struct.pack("<I", _masked(struct.pack("<Q", len(record))))
        + record
        + b"\0\0\0\0"
        for record in records
    )


def read(path: Path, data: bytes) -> EventFile:
    path.write_bytes(data)
    found = EventFile(path)
    found.update()
    return found


def test_the_checksum_is_crc32c() -> None:
    # RFC 3720, B.4: 32 bytes of zeroes have the CRC-32C 0x8A9136AA.
    crc = 0x8A9136AA
    assert _masked(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_scalars_of_a_step_are_one_row(tmp_path: Path) -> None:
    version = varint(1 << 3 | 1) + struct.pack("<d", 1e9) + field(3, b"brain.Event:2")
    data = framed(
        version,
        event(0, scalar("learning/loss", 3.5)),
        event(0, scalar("perf/step_time_seconds", 5.75), scalar("who/knows", 1.0)),
        event(1, tensor("learning/loss", 3.25), time=1e9 + 6),
    )
    found = read(tmp_path / "e", data)
    assert looks_like(data)
    assert list(found.table.steps) == [0, 1]
    assert list(found.table.columns["loss"]) == [3.5, 3.25]
    assert list(found.table.columns["seconds"]) == [5.75, ABSENT]
    assert list(found.table.times) == [1e9, 1e9 + 6]
    assert list(found.table.lines) == [2, 4]
    assert not found.damaged


def test_a_record_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    data = framed(event(0, scalar("learning/loss", 3.5)), event(1, scalar("learning/loss", 3.0)))
    for cut in (len(data) - 1, len(data) - 30, len(data) // 2 + 5):
        found = read(tmp_path / "e", data[:cut])
        assert list(found.table.steps) == [0]
        assert not found.damaged


def test_a_broken_length_ends_the_file_with_a_word(tmp_path: Path) -> None:
    data = framed(event(0, scalar("learning/loss", 3.5)))
    found = read(tmp_path / "e", data + b"\xff" * 40)
    assert list(found.table.steps) == [0]
    assert found.damaged


@pytest.mark.parametrize("seed", range(300))
def test_no_bytes_make_it_fail(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - repeatable, not secret
    record = bytearray(event(7, scalar("learning/loss", 3.5), tensor("learning/grad_norm", 1.0)))
    for _ in range(draw.randrange(1, 5)):
        record[draw.randrange(len(record))] = draw.randrange(256)
    found = read(tmp_path / "e", framed(bytes(record), event(8, scalar("learning/loss", 3.0))))
    assert 8 in found.table.steps
