"""Expands words as a shell would, as far as that is certain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from moectl.settings.shell import patterns
from moectl.settings.shell.arithmetic import evaluated
from moectl.settings.shell.defaults import DEFAULTS, of_outside, outside
from moectl.settings.shell.printed import printed
from moectl.settings.shell.source import Source, cut, joined, unknown
from moectl.settings.shell.state import Budget, State, Variable
from moectl.settings.shell.syntax import Part, Redirect, Word
from moectl.workload import MARK, Piece, Text

_BLANKS = " \t\n"
_FIELD = re.compile(r"[ \t\n]+|[^ \t\n]+")
_BRACES = re.compile(r"\{([^{},]*(?:,[^{},]*)+)\}")
_RANGE = re.compile(r"\{[^{} \t\n]*(?:,|\.\.)[^{} \t\n]*\}|\{[^{}]*,$")
_SPECIAL = re.compile(r"[*?{]")
_GLOB = re.compile(r"[*?]")
_INDEX = re.compile(r"[0-9]{1,6}")

Pieces = tuple[Piece, ...]


class Expander:
    """Expands words that stand in `source` with the variables of `state`."""

    def __init__(self, source: Source, state: State, budget: Budget) -> None:
        self.source, self.state, self.budget = source, state, budget

    def fields(self, words: Iterable[Word]) -> list[Text]:
        """Return the words a command gets; an unknown one may stand for any number of words."""
        return [text for word in words for text in self._fields(word)]

    def one(self, word: Word | None) -> Text:
        """Return a word that is not split: of an assignment, a redirection, a case."""
        if word is None:
            return Text(())
        return self.parts(word.parts, word.start)

    def parts(self, parts: Iterable[Part], start: int) -> Text:
        """Return the text of parts that are not split, as in a here-document."""
        return self._text([p for part in parts for p in self.value(part)], start)

    def document(self, redirects: Sequence[Redirect]) -> Text | None:
        """Return the text of the last here-document or here-string; None without one."""
        for redirect in reversed(redirects):
            if (document := redirect.document) is not None:
                if not document.literal:
                    return self.parts(document.parts, document.start)
                return self._literal(document.start, document.end, tabs=document.tabs)
            if redirect.operator == "<<<":
                return self.one(redirect.target)
            if redirect.operator == "<" and not redirect.descriptor:
                return None
        return None

    def _literal(self, start: int, end: int, *, tabs: bool) -> Text:
        if not tabs:
            return Text(self.source.pieces(start, end))
        pieces: list[Piece] = []
        while start < end:
            stop = self.source.text.find("\n", start, end)
            stop = end if stop < 0 else stop + 1
            while start < stop and self.source.text[start] == "\t":
                start += 1
            pieces += self.source.pieces(start, stop)
            start = stop
        return Text(tuple(pieces))

    def _text(self, pieces: Sequence[Piece], start: int) -> Text:
        self.budget.spend(len(pieces))
        # An empty text keeps its place through a piece without characters.
        return Text(tuple(pieces) or (Piece("", self.source.origin(start)),))

    def _fields(self, word: Word) -> list[Text]:
        if len(word.parts) == 1 and word.parts[0].kind == "text":
            part = word.parts[0]
            if part.quoted or not _SPECIAL.search(self.source.text, part.start, part.end):
                return [self._text(self.source.pieces(part.start, part.end), word.start)]
        fields: list[list[Piece]] = []
        current: list[Piece] | None = None
        none = False
        for part in word.parts:
            if part.quoted and (items := self._each(part)) is not None:
                # "$@" of nothing is no word, unless something else stands in it.
                none = none or not items
                for number, item in enumerate(items):
                    if number and current is not None:
                        fields.append(current)
                        current = None
                    current = current if current is not None else []
                    current.extend(item.pieces)
                continue
            pieces = self.value(part)
            if part.quoted or part.kind not in {"parameter", "command", "arithmetic"}:
                current = current if current is not None else []
                current.extend(pieces if part.quoted else _globbed(pieces))
                continue
            # Unquoted: what was expanded is split at blanks.
            text = "".join(piece.text for piece in pieces)
            if "IFS" in self.state.variables and any(c not in MARK for c in text):
                pieces = self.unknown(part).pieces
                text = MARK
            value = Source(pieces)
            for found in _FIELD.finditer(text):
                if found.group()[0] in _BLANKS:
                    if current is not None:
                        fields.append(current)
                    current = None
                else:
                    current = current if current is not None else []
                    current.extend(_globbed(value.pieces(found.start(), found.end())))
        if current is not None and (current or not none):
            fields.append(current)
        texts = [self._text(pieces, word.start) for pieces in fields]
        return self._braces(word, texts)

    def _braces(self, word: Word, texts: list[Text]) -> list[Text]:
        """Expand {a,b} where it is plain; anything with more to it is unknown."""
        plain = [part for part in word.parts if part.kind == "text" and not part.quoted]
        raw = self.source.text
        if not any("{" in raw[part.start : part.end] for part in plain) or len(texts) != 1:
            return texts
        if len(word.parts) == 1 and (found := _BRACES.search(texts[0].text)):
            text = texts[0]
            if not _RANGE.search(text.text[: found.start()] + text.text[found.end() :]):
                return [
                    Text(
                        (
                            *cut(text.pieces, 0, found.start()),
                            *cut(text.pieces, start, stop),
                            *cut(text.pieces, found.end(), len(text.text)),
                        )
                    )
                    for start, stop in _choices(found)
                ]
        shape = "".join(
            raw[p.start : p.end] if p.kind == "text" and not p.quoted else "_" for p in word.parts
        )
        return (
            [unknown(texts[0].origin, raw[word.start : word.end])]
            if _RANGE.search(shape)
            else (texts)
        )

    def _each(self, part: Part) -> tuple[Text, ...] | None:
        """Return the words of "$@" and "${array[@]}"; None for anything else."""
        if part.kind != "parameter" or part.operator:
            return None
        if part.name == "@" and not part.index:
            return self.state.arguments
        if part.index == "@":
            variable = self.state.variables.get(part.name)
            if variable is not None and variable.text is None:
                return ()
            return None if variable is None else variable.items
        return None

    def value(self, part: Part) -> Pieces:
        """Return what one part stands for."""
        if part.kind == "text":
            return self.source.pieces(part.start, part.end)
        if part.kind == "char":
            raw = self.source.text[part.start : part.end]
            return (Piece(part.text, self.source.origin(part.start), raw),)
        if part.kind == "arithmetic":
            number = evaluated(part.text, self._number)
            if number is not None:
                raw = self.source.text[part.start : part.end]
                return (Piece(str(number), self.source.origin(part.start), raw),)
        if part.kind == "command" and (document := printed(self, part)) is not None:
            return document
        if part.kind == "parameter":
            text = self._parameter(part)
            if text is not None:
                self.budget.spend(len(text.pieces))
                return text.pieces
        return self.unknown(part).pieces

    def unknown(self, part: Part) -> Text:
        """Return a part of which nothing is known."""
        raw = self.source.text[part.start : part.end]
        return unknown(self.source.origin(part.start), raw)

    def _number(self, name: str) -> str | None:
        variable = self.state.variables.get(name)
        if variable is None or variable.text is None or not variable.text.known:
            return None
        return variable.text.text

    def _variable(self, part: Part) -> Variable | None:
        """Return the parameter with its index applied; None when it comes from outside."""
        state = self.state
        if part.name.isdigit() and part.name != "0":
            if state.arguments is None or any(_many(text) for text in state.arguments):
                return None
            place = int(part.name[:6]) - 1
            found = state.arguments[place] if place < len(state.arguments) else None
            return Variable(found)
        if part.name in {"@", "*"}:
            return None if state.arguments is None else Variable(joined(state.arguments))
        variable = state.variables.get(part.name)
        if variable is None or variable.items is None:
            return variable if not part.index or part.index == "0" else None
        if part.index in {"@", "*"}:
            return Variable(joined(variable.items))
        if not part.index or _INDEX.fullmatch(part.index):
            place = int(part.index or 0)
            if any(_many(item) for item in variable.items[:place]):
                return None
            inside = place < len(variable.items)
            return Variable(variable.items[place] if inside else None)
        return None

    def _parameter(self, part: Part) -> Text | None:
        variable = self._variable(part)
        if part.operator.startswith("!") or (part.operator == "#" and part.word is None):
            return None
        if variable is None:
            return outside(self, part)
        text = variable.text
        filled = None if text is None else variable.filled or _filled(text)
        if part.operator == "":
            return Text(()) if text is None else text
        colon = part.operator.startswith(":")
        has = False if text is None else (filled if colon else True)
        if has is None and text is not None and part.operator in DEFAULTS:
            return of_outside(self, part, text)
        if has is None or part.operator == "other":
            return None
        if part.operator in patterns.OPERATORS:
            return patterns.changed(self, text, part)
        match part.operator[-1]:
            case "+":
                return self.one(part.word) if has else Text(())
            case "=" if not has:
                found = self.one(part.word)
                self.state.assign(part.name, found)
                return found
            case "-" if not has:
                return self.one(part.word)
            case "-" | "=" | "?" if has:
                return text
        return None


def _choices(found: re.Match[str]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = found.start(1)
    for choice in found.group(1).split(","):
        spans.append((start, start + len(choice)))
        start += len(choice) + 1
    return spans


def _globbed(pieces: Pieces) -> Pieces:
    """Mark * and ?, which stand for whatever files there are."""
    for piece in pieces:
        if "*" in piece.text or "?" in piece.text:
            break
    else:
        return pieces
    found: list[Piece] = []
    for piece in pieces:
        at = 0
        for match in _GLOB.finditer(piece.text):
            found.extend(cut((piece,), at, match.start()))
            star = cut((piece,), match.start(), match.end())[0]
            found.append(replace(star, text=MARK, raw=match.group()))
            at = match.end()
        found.extend(cut((piece,), at, len(piece.text)))
    return tuple(found)


def _filled(text: Text) -> bool | None:
    """Whether a text is certainly not empty; None when that is not known."""
    known = text.text.replace(MARK, "")
    return True if known else (None if text.text else False)


def _many(text: Text) -> bool:
    return text.text == MARK
