"""What bash is to insert: it takes candidates as they are, so they are quoted here.

zsh and fish quote candidates and complete paths by themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from moectl.cli.completion import candidates

_PLAIN = re.compile(r"[^A-Za-z0-9_./:=,@%+~^\-\u0080-\U0010ffff]")
_IN_DOUBLE = re.compile(r'[\\"$`]')


def insertions(typed: list[str], breaks: str) -> list[str]:
    """Return what may stand for the last word, from where bash replaces it.

    Args:
        typed: the words after `moectl` as typed, with their quotes.
        breaks: $COMP_WORDBREAKS; bash replaces only what follows the last of them.
    """
    current = typed[-1]
    words = [plain(word) for word in typed]
    files, found = candidates(words)
    values = [value for value, _ in found]
    if files:
        before, equals, after = words[-1].partition("=")
        head, said = (before + equals, after) if before.startswith("--") else ("", words[-1])
        values += [head + path for path in _files(said, only_folders=files == "folders")]
    quote, start = _replaced(current, breaks)
    kept = plain(current[:start])
    return [quoted(value[len(kept) :], quote) for value in dict.fromkeys(values)]


def plain(word: str) -> str:
    """Return a word as the command gets it; quotes may be open, and nothing is expanded."""
    found, quote, escaped = [], "", False
    for letter in word:
        if escaped:
            escaped = False
            kept = quote == '"' and letter not in '\\"$`'
            found.append(f"\\{letter}" if kept else letter)
        elif letter == "\\" and quote != "'":
            escaped = True
        elif letter == quote or (not quote and letter in "'\""):
            quote = "" if quote else letter
        else:
            found.append(letter)
    return "".join(found)


def quoted(text: str, quote: str = "") -> str:
    """Return text as it is typed after an open quote, or without one."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote == '"':
        # A backslash before "!" would stay there.
        return _IN_DOUBLE.sub(lambda found: f"\\{found[0]}", text).replace("!", "\"'!'\"")
    return _PLAIN.sub(lambda found: f"\\{found[0]}", text)


def _replaced(current: str, breaks: str) -> tuple[str, int]:
    """Return the quote that is open in a word, and where the part begins that bash replaces."""
    quote, start, at = "", 0, 0
    while at < len(current):
        letter = current[at]
        if letter == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote, start = letter, at + 1
        elif letter in breaks and letter in "=:":
            start = at + 1
        at += 1
    return quote, start


def _files(said: str, *, only_folders: bool) -> Iterator[str]:
    """Yield the files that begin so; folders end in a slash."""
    folder, slash, begun = said.rpartition("/")
    try:
        with os.scandir(os.path.expanduser(folder + slash) or ".") as entries:  # noqa: PTH111
            found = sorted((entry.name, entry.is_dir()) for entry in entries)
    except (OSError, ValueError):
        return
    for name, is_folder in found:
        hidden = name.startswith(".") and not begun.startswith(".")
        if not name.startswith(begun) or hidden or not name.isprintable():
            continue
        if is_folder or not only_folders:
            yield f"{folder}{slash}{name}{'/' if is_folder else ''}"
