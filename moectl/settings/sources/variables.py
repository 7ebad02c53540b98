"""Reads KEY=VALUE files: one assignment a line, or several beside each other.

A line is read as a shell reads it: quotes are taken off, an expansion is unknown. A line whose
unquoted value goes on after a blank with something that is no assignment is read as docker's
--env-file does: all after the sign is the value.
"""

from __future__ import annotations

import re
from typing import Final

from moectl.values import Origin
from moectl.workload import MARK, Piece, Text

LAYER: Final = "variables"
_NAME: Final = re.compile(r"\s*(?:(?:export|ENV|-e|--env)\s+)?([A-Za-z_][A-Za-z0-9_]*)=")
_BARE: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*")
_EXPANSION: Final = re.compile(
    r"\$(?:\{[^}\n]{0,500}\}|[A-Za-z_]\w*|\([^)\n]{0,500}\))|`[^`\n]{0,500}`"
)
_QUOTED: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_LOOK_AHEAD: Final = 4_000
_PLAIN: Final = re.compile(r"[^\s'\"\\$`;]+")


def read_pairs(text: str, path: str) -> dict[str, Text]:
    r"""Return the variables of a file; of a name that stands twice the later one counts.

    Args:
        text: the file's content, lines ended by \\n.
        path: its name.
    """
    return _Scanner(text, path).read()


class _Scanner:
    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.at = 0
        self.line = 1
        self.begin = 0  # where the line begins
        self.end = -1  # and where it ends, once that was looked for

    def read(self) -> dict[str, Text]:
        found: dict[str, Text] = {}
        while self.at < len(self.text):
            self._skip_blank()
            if self.at >= len(self.text):
                break
            name = _NAME.match(self.text, self.at)
            if self.text[self.at] == "#" or name is None:
                self._unread(found)
                continue
            self._to(name.end())
            found.pop(name[1], None)
            found[name[1]] = self._value()
        return found

    def _skip_blank(self) -> None:
        at = self.at
        while at < len(self.text) and self.text[at] in " \t\r\n;\\":
            at += 1
        self._to(at)

    def _unread(self, found: dict[str, Text]) -> None:
        """Pass a comment, or a name that docker takes from the environment outside."""
        end = self._end_of_line()
        line = self.text[self.at : end]
        if (bare := _BARE.fullmatch(line)) and bare[1].isupper():
            found[bare[1]] = Text((Piece(MARK, self._origin(), bare[1]),))
        self._to(end)

    def _end_of_line(self) -> int:
        if self.end < self.at:
            end = self.text.find("\n", self.at)
            self.end = len(self.text) if end < 0 else end
        return self.end

    def _value(self) -> Text:
        end = self._end_of_line()
        if _is_docker(self.text[self.at : min(end, self.at + _LOOK_AHEAD)]):
            said = self.text[self.at : end].rstrip()
            value = Text((Piece(said, self._origin()),))
            self._to(end)
            return value
        pieces: list[Piece] = []
        while self.at < len(self.text) and not self.text[self.at].isspace():
            if self.text[self.at] == ";":
                break
            pieces += self._chunk()
        return Text(tuple(pieces) or (Piece("", self._origin()),))

    def _chunk(self) -> list[Piece]:
        here = self.text[self.at]
        origin = self._origin()
        if quoted := _QUOTED.match(self.text, self.at):
            inside = quoted[0][1:-1]
            inner = Origin(LAYER, self.path, self.line, self.at - self.begin + 2)
            self._to(quoted.end())
            return [Piece(inside, inner)] if here == "'" else _expanded(inside, inner)
        if unknown := _EXPANSION.match(self.text, self.at):
            self._to(unknown.end())
            return [Piece(MARK, origin, unknown[0])]
        if here == "\\" and self.at + 1 < len(self.text):
            escaped = self.text[self.at + 1]
            self._to(self.at + 2)
            return [] if escaped == "\n" else [Piece(escaped, origin, f"\\{escaped}")]
        plain = _PLAIN.match(self.text, self.at)
        said = plain[0] if plain else here
        self._to(self.at + len(said))
        return [Piece(said.replace(MARK, "?"), origin)]

    def _origin(self) -> Origin:
        return Origin(LAYER, self.path, self.line, self.at - self.begin + 1)

    def _to(self, at: int) -> None:
        passed = self.text.count("\n", self.at, at)
        if passed:
            self.line += passed
            self.begin = self.text.rfind("\n", 0, at) + 1
        self.at = at


def _is_docker(rest: str) -> bool:
    """Whether a value is unquoted and goes on after a blank with no assignment."""
    if not rest or rest[0] in "'\"" or " " not in rest.strip():
        return False
    first, _, after = rest.partition(" ")
    if any(sign in first for sign in "'\"\\;"):
        return False
    following = after.lstrip()
    return bool(following) and not (following.startswith("#") or _NAME.match(following))


def _expanded(inside: str, origin: Origin) -> list[Piece]:
    """Return the text inside double quotes, in lines, expansions unknown."""
    pieces: list[Piece] = []
    line, column = origin.line or 1, origin.column or 1
    for number, part in enumerate(inside.split("\n")):
        where = Origin(LAYER, origin.file, line + number, column if not number else 1)
        ended = part.removesuffix("\\")
        ended = ended if ended != part else f"{part}\n"
        start = 0
        for found in _EXPANSION.finditer(ended):
            pieces += _piece(ended[start : found.start()], where, start)
            pieces.append(Piece(MARK, _moved(where, found.start()), found[0]))
            start = found.end()
        pieces += _piece(ended[start:], where, start)
    if pieces and pieces[-1].text.endswith("\n"):
        last = pieces.pop()
        pieces += [Piece(last.text[:-1], last.origin)] if last.text != "\n" else []
    return pieces


def _piece(text: str, origin: Origin, offset: int) -> list[Piece]:
    return [Piece(text, _moved(origin, offset))] if text else []


def _moved(origin: Origin, columns: int) -> Origin:
    return Origin(origin.layer, origin.file, origin.line, (origin.column or 1) + columns)
