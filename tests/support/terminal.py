"""A real terminal for programs that behave otherwise on one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 60.0


class Terminal:
    """A program whose standard input, output and error are a terminal.

    Args:
        process: its process id.
        descriptor: the other end of its terminal.
    """

    def __init__(self, process: int, descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self.screen = ""

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._descriptor, text.encode())

    def wait_for(self, pattern: str, since: int = 0) -> None:
        """Read until something was written that a pattern finds."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.screen[since:]):
            assert time.monotonic() < end, self.screen[-2000:]
            assert self._read(0.2), self.screen[-2000:]

    def until_end(self) -> int:
        """Read to the end, and return the exit code."""
        while self._read(PATIENCE):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def _read(self, seconds: float) -> bool:
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return True
        try:
            found = os.read(self._descriptor, 65536)
        except OSError:  # Linux says so when the program has left
            return False
        self.screen += found.decode("utf-8", "replace")
        return bool(found)


@contextmanager
def terminal(
    words: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Run a program on a terminal of 100 columns; it has ended afterwards.

    Args:
        words: program and arguments.
        folder: where it runs.
        environment: variables beside those of this process.
    """
    left = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables = {**left, "TERM": "xterm-256color", **(environment or {})}
    process, descriptor = pty.fork()
    if process == 0:
        try:
            os.chdir(folder)
            os.execvpe(words[0], list(words), variables)  # noqa: S606
        finally:
            os._exit(127)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    try:
        yield Terminal(process, descriptor)
    finally:
        try:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(descriptor)
