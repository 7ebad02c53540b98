"""Lines of a checked text, and one of them as it is shown with a caret under a column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moectl.reports.escape import printable
from moectl.settings.bundle_names import LOCK

if TYPE_CHECKING:
    from moectl.checked import Checked

TAB = "    "
WIDTH = 110
_BEFORE = 60
"""Columns shown at most, and how many of them stand before the caret of a long line."""
_CUT = "…"


class Texts:
    """The texts of what was checked, by name; each is cut into lines once."""

    def __init__(self, checked: Iterable[Checked]) -> None:
        self._texts: dict[str, str] = {}
        for one in checked:
            self._texts[one.name] = one.text
            # A bundle is named by its folder; what is found stands in its lock file.
            self._texts.setdefault(f"{one.name.rstrip('/')}/{LOCK}", one.text)
            for name, text in one.others:
                self._texts.setdefault(name, text)
        self._lines: dict[str, list[str]] = {}

    def knows(self, name: str) -> bool:
        """Whether something of this name was checked."""
        return name in self._texts

    def line(self, name: str, number: int | None) -> str | None:
        """Return line `number` (from 1) of a checked text, or None when there is none."""
        text = self._texts.get(name)
        if not text or number is None:
            return None
        if name not in self._lines:
            self._lines = {name: text.split("\n")}  # findings come file by file
        lines = self._lines[name]
        return lines[number - 1].removesuffix("\r") if 1 <= number <= len(lines) else None


def caret(line: str, column: int | None, length: int = 1) -> tuple[str, str]:
    """Return a line as shown, and the line under it that points at a column.

    Args:
        line: the line without its end.
        column: in characters, from 1; None, or one past the line's end, gets no caret.
        length: characters the caret spans.

    Returns:
        Two lines of at most about `WIDTH` terminal columns: tabs are spaces, a wide character
        counts two, and what is not printable is escaped. A long line is cut around the caret.
    """
    at = None if column is None or not 1 <= column <= len(line) + 1 else column - 1
    first = max(0, (at or 0) - _BEFORE)
    if len(line) <= WIDTH:
        first = 0
    shown = _CUT if first else ""
    used = len(shown)
    under = ""
    for index in range(first, len(line)):
        text = _cell(line[index])
        width = _width(text)
        # Letters of no width would never fill the line.
        full = used + width > WIDTH or index - first > 2 * WIDTH
        if full and (at is None or index > at):
            shown += _CUT
            break
        if at is not None and index < at + max(length, 1):
            under += (" " if index < at else "^") * width
        shown += text
        used += width
    if at is None:
        return shown.rstrip(), ""
    pointer = " " * (1 if first else 0) + under
    return shown.rstrip(), pointer if "^" in pointer else pointer + "^"


def _cell(letter: str) -> str:
    return TAB if letter == "\t" else printable(letter)


def _width(text: str) -> int:
    """Return terminal columns; `text` is printable."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 - only lines beyond ASCII need its tables

    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )
