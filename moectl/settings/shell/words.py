"""Reads words of the shell language: quotes, escapes, expansions, here-documents."""

from __future__ import annotations

import re
from typing import Self

from moectl.settings.shell.syntax import HereDocument, Item, Part, Slip, Word

MAX_WORDS = 30_000
"""Words of one text that are read; a script of ten thousand lines has fewer."""

MAX_DEPTH = 40
"""Nesting beyond this is not looked into; no script written by a person comes near it."""

_PLAIN = re.compile(r"""[^ \t\n\\'"$`;&|<>()]+""")
_IN_QUOTES = re.compile(r'[^\\"$`]+')
_IN_BRACES = re.compile(r"""[^\\'"$`}]+""")
_IN_QUOTED_BRACES = re.compile(r"""[^\\"$`}]+""")
_IN_DOCUMENT = re.compile(r"[^\\$`]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")
_BRACED = re.compile(
    r"([!#]?)([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])(?:\[([^\]\n]*)\])?(:?[-=+?]|\}|)"
)
_CUTS = re.compile(r"##|#|%%|%|//|/|:(?=[0-9])")
_TILDE = re.compile(r"~[A-Za-z0-9_.+-]*(?=[/:]|$|[\s;&|<>()])")
_ANSI = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.)|(.))",
    re.DOTALL,
)
_LOST_CONTINUATION = re.compile(r"(?<=[ \t])\\[ \t]+(?=\n|$)")
_ANSI_LETTERS = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "v": "\v",
}  # fmt: skip


class ShellSyntaxError(Exception):
    """Reading stops here; never leaves this package.

    Args:
        offset: where.
        clause: why, a clause that begins with a verb.
        certain: whether a shell would stop, too.
    """

    def __init__(self, offset: int, clause: str, *, certain: bool = False) -> None:
        self.offset, self.clause, self.certain = offset, clause, certain
        super().__init__(clause)


class WordReader:
    """Reads words from `text` at the position `at`, up to `end`."""

    def __init__(self, text: str, at: int = 0, end: int | None = None, depth: int = 0) -> None:
        self.text = text
        self.at = at
        self.end = len(text) if end is None else end
        self.depth = depth
        self.documents: list[HereDocument] = []
        self.words = [0]
        self.slips: list[Slip] = []
        self.spans: list[tuple[int, int]] = []
        # Where a comment or an empty line has just ended a continued command.
        self.broken = -1

    def commands_until(self, stop: str) -> list[Item]:
        """Read commands up to the character `stop`; the grammar says how."""
        raise NotImplementedError

    def deeper(self) -> None:
        """Count one more level of nesting, or stop."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ShellSyntaxError(self.at, "is nested too deeply to be read")

    def word(self) -> Word:
        """Read one word."""
        self.words[0] += 1
        if self.words[0] > MAX_WORDS:
            raise ShellSyntaxError(self.at, "is too long to be read")
        start, parts = self.at, list[Part]()
        if self.text.startswith("~", start) and (tilde := _TILDE.match(self.text, start, self.end)):
            parts.append(Part("tilde", self.at, tilde.end()))
            self.at = tilde.end()
        while self.at < self.end:
            if plain := _PLAIN.match(self.text, self.at, self.end):
                parts.append(Part("text", self.at, plain.end()))
                self.at = plain.end()
            elif not self._special(parts):
                break
        return Word(parts, start, self.at)

    def _special(self, parts: list[Part]) -> bool:
        char = self.text[self.at]
        if char in " \n\t;&|)":
            return False
        if char == "\\":
            self._escape(parts)
        elif char == "'":
            parts.append(self._single())
        elif char == '"':
            self._double(parts)
        elif char == "$":
            self._dollar(parts, quoted=False)
        elif char == "`":
            parts.append(self._backquotes(quoted=False))
        elif char in "<>" and self.text.startswith("(", self.at + 1):
            parts.append(self._substitution(self.at + 2, quoted=False))
        elif char == "(" and parts and self.text[self.at - 1] in "?*+@!":
            parts.append(self._extended())
        else:
            return False
        return True

    def _extended(self) -> Part:
        """Read the brackets of an extended pattern, e.g. of @(a|b); they stay unknown."""
        start, level = self.at, 0
        while self.at < self.end:
            level += {"(": 1, ")": -1}.get(self.text[self.at], 0)
            self.at += 1
            if not level:
                return Part("command", start, self.at)
        raise ShellSyntaxError(start, "has a pattern that cannot be read")

    def _escape(self, parts: list[Part]) -> None:
        following = self.text[self.at + 1 : min(self.at + 2, self.end)]
        if following == "\n":
            self.at += 2
            return
        if following in {" ", "\t"} and _LOST_CONTINUATION.match(self.text, self.at, self.end):
            self.slips.append(Slip("blank", self.at, self.at))
        end = self.at + 1 + len(following)
        parts.append(Part("char", self.at, end, quoted=True, text=following or "\\"))
        self.at = end

    def _single(self) -> Part:
        close = self.text.find("'", self.at + 1, self.end)
        if close < 0:
            raise ShellSyntaxError(self.at, "opens a ' that is never closed", certain=True)
        part = Part("text", self.at + 1, close, quoted=True)
        self.at = close + 1
        return part

    def _double(self, parts: list[Part]) -> None:
        opened = self.at
        self.at += 1
        self.deeper()
        parts.append(Part("text", self.at, self.at, quoted=True))  # "" is a word, too
        while self.at < self.end and self.text[self.at] != '"':
            if plain := _IN_QUOTES.match(self.text, self.at, self.end):
                parts.append(Part("text", self.at, plain.end(), quoted=True))
                self.at = plain.end()
            else:
                self._in_quotes(parts, '$`"\\')
        if self.at >= self.end:
            raise ShellSyntaxError(opened, 'opens a " that is never closed', certain=True)
        self.at += 1
        self.depth -= 1

    def _in_quotes(self, parts: list[Part], escaped: str) -> None:
        char = self.text[self.at]
        if char == "$":
            self._dollar(parts, quoted=True)
        elif char == "`":
            parts.append(self._backquotes(quoted=True))
        else:
            following = self.text[self.at + 1 : min(self.at + 2, self.end)]
            if following == "\n":
                self.at += 2
            elif following and following in escaped:
                parts.append(Part("char", self.at, self.at + 2, quoted=True, text=following))
                self.at += 2
            else:
                parts.append(Part("text", self.at, self.at + 1, quoted=True))
                self.at += 1

    def _dollar(self, parts: list[Part], *, quoted: bool) -> None:
        following = self.text[self.at + 1 : min(self.at + 3, self.end)]
        if following == "((" and (part := self._arithmetic(quoted=quoted)):
            parts.append(part)
        elif following.startswith("("):
            parts.append(self._substitution(self.at + 2, quoted=quoted))
        elif following.startswith("{"):
            parts.append(self._braced(quoted=quoted))
        elif following.startswith("'") and not quoted:
            self._ansi(parts)
        elif following.startswith('"') and not quoted:
            self.at += 1
            self._double(parts)
        elif name := _NAME.match(self.text, self.at + 1, self.end):
            parts.append(Part("parameter", self.at, name.end(), quoted=quoted, name=name.group()))
            self.at = name.end()
        else:
            parts.append(Part("text", self.at, self.at + 1, quoted=quoted))
            self.at += 1

    def _arithmetic(self, *, quoted: bool) -> Part | None:
        """Read `$((...))`; None when it is a substitution that begins with a subshell."""
        level, at = 2, self.at + 3
        while at < self.end and level:
            level += {"(": 1, ")": -1}.get(self.text[at], 0)
            at += 1
        if level or self.text[at - 2] != ")":
            return None
        part = Part("arithmetic", self.at, at, quoted=quoted, text=self.text[self.at + 3 : at - 2])
        self.at = at
        return part

    def _substitution(self, inside: int, *, quoted: bool) -> Part:
        start = self.at
        self.at = inside
        self.deeper()
        body = self.commands_until(")")
        if not self.text.startswith(")", self.at) or self.at >= self.end:
            raise ShellSyntaxError(start, "opens a ( that is never closed", certain=True)
        self.at += 1
        self.depth -= 1
        return Part("command", start, self.at, quoted=quoted, body=body)

    def _backquotes(self, *, quoted: bool) -> Part:
        start = at = self.at
        at += 1
        while at < self.end and self.text[at] != "`":
            at += 2 if self.text[at] == "\\" else 1
        if at >= self.end:
            raise ShellSyntaxError(start, "opens a ` that is never closed", certain=True)
        body: list[Item] = []
        if "\\" not in self.text[start:at]:
            inner = self._within(start + 1, at)
            inner.deeper()
            body = inner.commands_until("")
        self.at = at + 1
        return Part("command", start, self.at, quoted=quoted, body=body)

    def _braced(self, *, quoted: bool) -> Part:
        start = self.at
        self.at += 2
        self.deeper()
        found = _BRACED.match(self.text, self.at, self.end)
        part = Part("parameter", start, start, quoted=quoted, operator="?!")
        if found:
            mark, part.name, index, part.operator = found.groups()
            part.index = index or ""
            self.at = found.end()
            if mark:
                part.operator = mark + part.operator
        if not part.operator.endswith("}"):
            known = bool(found and part.operator.strip(":") in {"-", "=", "+", "?"})
            cuts = _CUTS.match(self.text, self.at, self.end) if found and not known else None
            if cuts and not part.operator:
                part.operator = cuts.group()
                self.at = cuts.end()
                known = True
            part.word = self._until_brace(quoted=quoted)
            if not known:
                part.operator = "other"
            if self.at >= self.end:
                raise ShellSyntaxError(start, "opens a ${ that is never closed", certain=True)
            self.at += 1
        part.operator = part.operator.removesuffix("}")
        part.end = self.at
        self.depth -= 1
        return part

    def _until_brace(self, *, quoted: bool) -> Word:
        start, parts = self.at, list[Part]()
        pattern = _IN_QUOTED_BRACES if quoted else _IN_BRACES
        while self.at < self.end and self.text[self.at] != "}":
            if plain := pattern.match(self.text, self.at, self.end):
                parts.append(Part("text", self.at, plain.end(), quoted=quoted))
                self.at = plain.end()
            elif self.text[self.at] == '"':
                self._double(parts)
            elif self.text[self.at] == "'":
                parts.append(self._single())
            elif quoted:
                self._in_quotes(parts, '$`"\\}')
            else:
                self._special(parts)
        return Word(parts, start, self.at)

    def _ansi(self, parts: list[Part]) -> None:
        start = self.at
        at = start + 2
        parts.append(Part("text", at, at, quoted=True))
        while at < self.end and self.text[at] != "'":
            if self.text[at] == "\\" and (found := _ANSI.match(self.text, at, self.end)):
                parts.append(Part("char", at, found.end(), quoted=True, text=_decoded(found)))
                at = found.end()
            else:
                stop = at + 1
                while stop < self.end and self.text[stop] not in "'\\":
                    stop += 1
                parts.append(Part("text", at, stop, quoted=True))
                at = stop
        if at >= self.end:
            raise ShellSyntaxError(start, "opens a $' that is never closed", certain=True)
        self.at = at + 1

    def _within(self, start: int, end: int) -> Self:
        """Return a reader of a part of the text that notes what it finds with this one's."""
        inner = type(self)(self.text, start, end, self.depth)
        inner.words, inner.slips, inner.spans = self.words, self.slips, self.spans
        return inner

    def read_documents(self) -> None:
        """Read the here-documents that begin after this line."""
        waiting, self.documents = self.documents, []
        for document in waiting:
            document.start = self.at
            while True:
                stop = self.text.find("\n", self.at, self.end)
                line_end = self.end if stop < 0 else stop
                line = self.text[self.at : line_end]
                document.end = self.at
                if (line.lstrip("\t") if document.tabs else line) == document.delimiter:
                    self.at = line_end if stop < 0 else line_end + 1
                    break
                if stop < 0:
                    document.end = self.at = self.end
                    break
                self.at = line_end + 1
            self.spans.append((document.start, document.end))
            if not document.literal:
                inner = self._within(document.start, document.end)
                document.parts = inner.document_parts()

    def document_parts(self) -> list[Part]:
        """Read all as the text of a here-document that is expanded."""
        parts: list[Part] = []
        self.deeper()
        while self.at < self.end:
            if plain := _IN_DOCUMENT.match(self.text, self.at, self.end):
                parts.append(Part("text", self.at, plain.end(), quoted=True))
                self.at = plain.end()
            else:
                self._in_quotes(parts, "$`\\")
        return parts


def _decoded(found: re.Match[str]) -> str:
    octal, two, four, eight, control, letter = found.groups()
    if octal or two or four or eight:
        number = int(octal, 8) if octal else int(two or four or eight, 16)
        if octal or two:
            number &= 0xFF
        # Bash cuts a string at NUL; a lone surrogate is no character.
        legal = 0 < number < 0x110000 and not 0xD800 <= number < 0xE000
        return chr(number) if legal else "\ufffd"
    if control:
        return chr(ord(control) & 0x1F) if ord(control) & 0x1F else "\ufffd"
    return _ANSI_LETTERS.get(letter, letter if letter in "\\'\"?" else "\\" + letter)
