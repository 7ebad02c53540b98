"""Whole lines of a file in blocks, with their numbers: the cheapest way through a large log."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from moectl.logs.maxtext import opened

_BLOCK = 1 << 18
# Bytes of a line without an end that are kept; nothing that counts is as long.
_LONGEST = 1 << 16


@dataclass(slots=True)
class Blocks:
    """Reads a file to its present end, and at every further call what it gained.

    Attributes:
        path: the file.
        replaced: how often it was found to be another file, or shorter, and begun anew.
        rest: the beginning of a line that has no end yet.
        line: number of the next line, from 1.
        damaged: whether a compressed file broke off.
    """

    path: Path
    replaced: int = 0
    rest: bytes = b""
    line: int = 1
    damaged: bool = False
    _offset: int = 0
    _inode: int = field(default=0)
    _packed: bool = False

    def gained(self) -> Iterator[tuple[bytes, int]]:
        """Yield blocks of whole lines, each with the number of its first line.

        Raises:
            OSError: it cannot be opened or is no regular file.
        """
        if not self.path.is_file():  # a pipe would never end
            raise FileNotFoundError(2, "is no file", str(self.path))
        status = self.path.stat()
        if self._offset == status.st_size > 0 and self._inode == status.st_ino:
            return  # nothing was gained, and a look may come ten times a second
        with opened(self.path) as stream:
            status = self.path.stat()
            if self._offset and (status.st_ino != self._inode or self._shrunk(status.st_size)):
                self.replaced += 1
                self._offset, self.rest, self.line = 0, b"", 1
            self._inode = status.st_ino
            self._packed = isinstance(stream, gzip.GzipFile)
            try:
                if self._offset:
                    stream.seek(self._offset)
                yield from self._blocks(stream)
            except (EOFError, gzip.BadGzipFile, zlib.error):
                self.damaged = True  # what came before counts

    def _shrunk(self, size: int) -> bool:
        return not self._packed and size < self._offset

    def _blocks(self, stream: BinaryIO) -> Iterator[tuple[bytes, int]]:
        # `read` of a compressed file that breaks off would lose what came before.
        read: Callable[[int], bytes] = stream.read1  # type: ignore[attr-defined]
        while chunk := read(_BLOCK):
            self._offset += len(chunk)
            end = chunk.rfind(b"\n") + 1
            if not end:
                self.rest = (self.rest + chunk)[:_LONGEST]
                continue
            block = self.rest + chunk[:end]
            self.rest = chunk[end:][:_LONGEST]
            first = self.line
            self.line += block.count(b"\n")
            yield block, first
