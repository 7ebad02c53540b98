"""A bar on the terminal while a command that was silent for a second goes on.

It is no command's business: whatever takes long shows it, and it is gone before the next word
is written. It shows on a terminal's standard error only, without --quiet and without JSON.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from moectl.cli.manner import NOW

if TYPE_CHECKING:
    from rich.progress import Progress

SILENT = 1.0
_TICK = 0.1
# Options with which a command waits for others and shows what they do by itself.
_FOLLOWS = ("follow", "watch", "wait")
# What starts programs that write to this terminal themselves.
NOT_HERE = frozenset({"launch"})


def wanted(command: str, values: Mapping[str, Any]) -> bool:
    """Return whether a command may show a bar.

    Args:
        command: its name.
        values: its options.
    """
    follows = any(values.get(name) for name in _FOLLOWS)
    silent = NOW.quiet or NOW.form == "json" or follows or command in NOT_HERE
    able = os.environ.get("TERM", "") not in {"", "dumb"}
    return not silent and able and sys.stderr.isatty()


@contextmanager
def watched(what: str) -> Iterator[None]:
    """Show a bar whenever nothing was written for a second.

    Args:
        what: what goes on, until a remark says more.
    """
    bar = Bar(what, sys.stderr)
    streams = sys.stdout, sys.stderr
    out, errors = (_Stream(stream, bar) for stream in streams)
    sys.stdout, sys.stderr = out, errors
    bar.start()
    try:
        yield
    finally:
        bar.stop()
        # Whoever put something else there meanwhile keeps it.
        sys.stdout = streams[0] if sys.stdout is out else sys.stdout
        sys.stderr = streams[1] if sys.stderr is errors else sys.stderr


class Bar:
    """The bar of one command.

    Args:
        what: what goes on.
        stream: the terminal.
    """

    def __init__(self, what: str, stream: IO[str]) -> None:
        self._what = what
        self._stream = stream
        self._began = self._spoke = time.monotonic()
        self._whole_line = True
        self._shown: Progress | None = None
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Take the bar away for good."""
        self._over.set()
        self._thread.join()
        self.hush("")

    def hush(self, text: str) -> None:
        """Take the bar away, since a text is about to be written.

        Args:
            text: a remark says what goes on from now; behind a line that has not ended, a
                question say, no bar shows.
        """
        with self._lock:
            if self._shown is not None:
                self._shown.stop()
                self._shown = None
            self._spoke = time.monotonic()
            if text:
                self._whole_line = text.endswith("\n")
                if text.startswith("moectl: "):
                    self._what = text.splitlines()[0].removeprefix("moectl: ")

    def _run(self) -> None:
        while not self._over.wait(_TICK):
            with self._lock:
                if self._shown is not None:
                    self._shown.refresh()
                elif self._whole_line and time.monotonic() - self._spoke >= SILENT:
                    self._show()

    def _show(self) -> None:
        """Show the bar; rich is loaded only here, by what takes a second anyway."""
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415
        from rich.table import Column  # noqa: PLC0415

        colours = {"never": True, "always": False}.get(NOW.colour)
        console = Console(file=self._stream, no_color=colours, force_terminal=True)
        self._shown = Progress(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            ),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            get_time=time.monotonic,
            expand=True,
        )
        task = self._shown.add_task(self._what, total=None)
        self._shown.tasks[task].start_time = self._began
        self._shown.start()


class _Stream:
    """A stream that takes the bar away before anything is written."""

    def __init__(self, stream: IO[str], bar: Bar) -> None:
        self._stream = stream
        self._bar = bar

    def write(self, text: str) -> int:
        """Write a text."""
        self._bar.hush(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
