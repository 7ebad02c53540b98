"""What a test certainly answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from moectl.settings.shell.defaults import tested
from moectl.settings.shell.expand import Expander
from moectl.settings.shell.syntax import Simple, Test
from moectl.workload import MARK

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}


def verdict(command: Simple | Test, expander: Expander) -> bool | None:
    """Return what a command answers as a condition; None when that is not certain."""
    raw = expander.source.text
    if isinstance(command, Test):
        if not command.words or any(
            any(char in raw[word.start : word.end] for char in "*?[") for word in command.words
        ):
            return None
        return _test(tested(expander, command.words, split=False))
    if command.redirects or not command.words:
        return None
    name = raw[command.words[0].start : command.words[0].end]
    if name in {"true", ":"}:
        return True
    if name == "false":
        return False
    if name not in {"[", "test"}:
        return None
    texts = tested(expander, command.words, split=True)[1:]
    if name == "[":
        if texts[-1:] != ["]"]:
            return None
        texts.pop()
    return _test(texts)


def _test(texts: Sequence[str]) -> bool | None:
    if any(MARK in text for text in texts):
        return None
    match list(texts):
        case []:
            return False
        case ["!", *rest]:
            found = _test(rest)
            return None if found is None else not found
        case [text]:
            return bool(text)
        case ["-z", text]:
            return not text
        case ["-n", text]:
            return bool(text)
        case [one, "=" | "==", two]:
            return one == two
        case [one, "!=", two]:
            return one != two
        case [one, sign, two] if sign in _NUMBERS and _whole(one) and _whole(two):
            return _NUMBERS[sign](int(one), int(two))
    return None


def _whole(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None
