"""Holds one process in which a real jaxlib parses XLA_FLAGS texts.

Importing jaxlib costs half a second; a fork of the process that has it costs some 5 ms. A
session imports once and asks as often as needed.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from moectl.errors import BackendError, shown

START_SECONDS = 120.0
TEXT_SECONDS = 10.0
# The environment cannot carry a longer string (MAX_ARG_STRLEN of Linux), nor a NUL.
LONGEST_TEXT = 131_000


@dataclass(frozen=True, slots=True)
class Answer:
    """How a process ended in which jaxlib parsed one text.

    Attributes:
        code: exit code, negative for a signal.
        timeout: whether it was ended because it took too long.
        said: what the parser wrote.
        options: the serialized CompileOptionsProto; empty when the process died.
    """

    code: int
    timeout: bool
    said: str
    options: bytes

    @property
    def accepted(self) -> bool:
        """Whether the parser took the text and lived."""
        return self.code == 0 and bool(self.options)


class ParserSession:
    """A context in which texts are parsed by the jaxlib of `python`.

    Attributes:
        jaxlib: the release that answers.
        library: the file that holds its parser.

    Raises:
        BackendError: on entry, when that interpreter cannot be started or has no jaxlib; on
            `ask`, when it dies or takes too long.
    """

    def __init__(self, python: str, *, cwd: Path | None = None) -> None:
        self.python = python
        self.jaxlib = ""
        self.library = Path()
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    def __enter__(self) -> Self:
        import tempfile  # noqa: PLC0415 - only evidence pays for it

        from moectl.resources import package  # noqa: PLC0415

        program = package().joinpath("evidence", "xla_child.py").read_text("utf-8")
        self._said = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                [self.python, "-W", "ignore", "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                cwd=self._cwd,
                env=_environment(self.python),
            )
        except (OSError, ValueError) as error:
            self._said.close()
            raise BackendError(f"cannot start {shown(self.python)}: {error}") from error
        try:
            hello = self._read(START_SECONDS)
            if not isinstance(hello, dict) or "error" in hello:
                reason = hello.get("error") if isinstance(hello, dict) else "no answer"
                raise BackendError(
                    f"{shown(self.python)} has no jaxlib that can be asked: {reason}; "
                    "install one there, or name an interpreter that has it"
                )
            self.jaxlib, self.library = str(hello["jaxlib"]), Path(str(hello["library"]))
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def ask(self, texts: Sequence[str], seconds: float = TEXT_SECONDS) -> list[Answer]:
        """Parse each text in a fork of its own.

        Args:
            texts: values of XLA_FLAGS.
            seconds: the time each of them may take.

        Raises:
            BackendError: the session's process died or did not answer.
        """
        import base64  # noqa: PLC0415
        import json  # noqa: PLC0415

        for text in texts:
            if "\0" in text or len(text.encode("utf-8", "surrogateescape")) > LONGEST_TEXT:
                raise BackendError("a text with a NUL, or over 131,000 bytes, fits no environment")
        assert self._process is not None  # noqa: S101 - typing only
        assert self._process.stdin is not None  # noqa: S101
        request = json.dumps({"texts": list(texts), "seconds": seconds})
        try:
            self._process.stdin.write(request.encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise BackendError(self._death()) from error
        found = self._read(START_SECONDS + seconds * len(texts))
        if not isinstance(found, list) or len(found) != len(texts):
            raise BackendError(self._death())
        return [
            Answer(item["code"], item["timeout"], item["said"], base64.b64decode(item["options"]))
            for item in found
        ]

    def _read(self, seconds: float) -> object:
        """Return the next JSON line; a process that stays silent for `seconds` is killed."""
        import json  # noqa: PLC0415
        import threading  # noqa: PLC0415

        process = self._process
        assert process is not None  # noqa: S101 - typing only
        assert process.stdout is not None  # noqa: S101
        timer = threading.Timer(seconds, process.kill)
        timer.daemon = True
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        try:
            return json.loads(line)
        except ValueError as error:
            raise BackendError(self._death()) from error

    def _death(self) -> str:
        said = ""
        if self._process is not None and self._said is not None:
            self._process.kill()
            self._process.wait()
            self._said.seek(0)
            said = self._said.read(4096).decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"{shown(self.python)} died while its jaxlib was asked: {said or 'no message'}"

    def _close(self) -> None:
        process = self._process
        if process is not None:
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
            self._process = None
        if self._said is not None:
            self._said.close()
            self._said = None


def _environment(python: str) -> Mapping[str, str]:
    """Return the environment of the child: ours, without what would change its imports."""
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415

    foreign = () if python == sys.executable else ("PYTHONPATH", "PYTHONHOME")
    kept = {name: value for name, value in os.environ.items() if name not in foreign}
    return {**kept, "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
