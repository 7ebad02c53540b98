"""Expands words as a shell would, as far as that is certain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from moectl.facts.launchers import load as launchers
from moectl.settings.shell import patterns
from moectl.settings.shell.arithmetic import evaluated
from moectl.settings.shell.source import Source, cut, unknown
from moectl.settings.shell.state import Budget, State, Variable
from moectl.settings.shell.syntax import Command, Part, Redirect, Simple, Word
from moectl.settings.shell.worlds import as_default
from moectl.workload import MARK, Piece, Text

_BLANKS = " \t\n"
_FIELD = re.compile(r"[ \t\n]+|[^ \t\n]+")
_BRACES = re.compile(r"\{([^{},]*(?:,[^{},]*)+)\}")
_RANGE = re.compile(r"\{[^{} \t\n]*(?:,|\.\.)[^{} \t\n]*\}|\{[^{}]*,$")
_SPECIAL = re.compile(r"[*?{]")
_GLOB = re.compile(r"[*?]")
_INDEX = re.compile(r"[0-9]{1,6}")
_PARAMETER = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*|[1-9])\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULTS = frozenset({":-", "-", ":=", "="})
_CUTS = frozenset({"#", "##", "%", "%%"})
_REPLACES = frozenset({"/", "//"})

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
                pieces = self._unknown(part).pieces
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
        if part.kind == "command" and (document := self._printed(part)) is not None:
            return document
        if part.kind == "parameter":
            text = self._parameter(part)
            if text is not None:
                self.budget.spend(len(text.pieces))
                return text.pieces
        return self._unknown(part).pieces

    def _printed(self, part: Part) -> Pieces | None:
        """Return what `$(cat <<EOF ...)` and `$(echo ... | tr a b)` print, without the line ends
        behind it."""
        if len(part.body) != 1 or len(part.body[0].pipelines) != 1 or part.body[0].background:
            return None
        first, *rest = part.body[0].pipelines[0][1].commands
        text = self._output(first)
        for command in rest:
            text = self._filtered(text, command)
        return None if text is None else cut(text.pieces, 0, len(text.text.rstrip("\n")))

    def _program(self, command: Command) -> tuple[str, Simple] | None:
        """Return the name of a plain command that no function stands for."""
        if not isinstance(command, Simple) or not command.words or command.assignments:
            return None
        word = command.words[0]
        name = self.source.text[word.start : word.end]
        return None if name in self.state.functions else (name, command)

    def _output(self, command: Command) -> Text | None:
        found = self._program(command)
        if found is None:
            return None
        name, simple = found
        if name == "cat" and len(simple.words) == 1:
            return self.document(simple.redirects)
        if name != "echo" or simple.redirects:
            return None
        words = self.fields(simple.words[1:])
        odd = any(not word.known or "\\" in word.text for word in words)
        if odd or (words and words[0].text.startswith("-n")) or not words:
            return None
        end = Text((Piece("\n", words[-1].origin, "\n"),))
        return None if words[0].text in {"-e", "-E"} else _joined(words) + end

    def _filtered(self, text: Text | None, command: Command) -> Text | None:
        """Return what `tr a b` makes of a text; None for any other filter."""
        found = self._program(command)
        if text is None or not text.known or found is None or found[0] != "tr":
            return None
        words = [word.text for word in self.fields(found[1].words[1:])]
        if found[1].redirects or len(words) != 2 or any(MARK in word for word in words):  # noqa: PLR2004
            return None
        return patterns.translated(text, *words)

    def _unknown(self, part: Part) -> Text:
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
            return None if state.arguments is None else Variable(_joined(state.arguments))
        variable = state.variables.get(part.name)
        if variable is None or variable.items is None:
            return variable if not part.index or part.index == "0" else None
        if part.index in {"@", "*"}:
            return Variable(_joined(variable.items))
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
            return self._outside(part)
        text = variable.text
        filled = None if text is None else _filled(text)
        if part.operator == "":
            return Text(()) if text is None else text
        colon = part.operator.startswith(":")
        has = False if text is None else (filled if colon else True)
        if has is None and text is not None and part.operator in _DEFAULTS:
            return self._of_outside(part, text)
        if has is None or part.operator == "other":
            return None
        if part.operator in _CUTS or part.operator in _REPLACES or part.operator == ":":
            return self._changed(text, part)
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

    def _outside(self, part: Part) -> Text | None:
        """Return the default of a variable that the script has not set; None when unknown."""
        if part.operator not in _DEFAULTS or part.word is None:
            return None
        notes = self.budget.notes
        found = None
        if self._nobody_sets(part):
            notes.assumed[part.name] = None
            if notes.world.assumes:
                found = as_default(self.one(part.word), part.name)
        if part.operator in {":=", "="}:
            self.state.assign(part.name, found or self._unknown(part))
        return found

    def _of_outside(self, part: Part, text: Text) -> Text | None:
        """Return the default of a variable that was set to one from outside: `X=$1`."""
        found = _PARAMETER.fullmatch(text.pieces[0].raw) if len(text.pieces) == 1 else None
        outside = Part("parameter", part.start, part.end, name=found[1]) if found else None
        if outside is None or part.word is None or not self._nobody_sets(outside):
            return None
        self.budget.notes.assumed[outside.name] = None
        if not self.budget.notes.world.assumes:
            return None
        default = as_default(self.one(part.word), outside.name)
        if part.operator in {":=", "="}:
            self.state.assign(part.name, default)
        return default

    def _nobody_sets(self, part: Part) -> bool:
        """Whether a parameter comes from outside, and may well not be set there."""
        name = part.name
        if part.index or name in self.state.variables:
            return False
        if name.isdigit():
            return name != "0" and self.state.arguments is None
        return bool(_NAME.fullmatch(name)) and not launchers().set_elsewhere(name)

    def tested(self, words: Sequence[Word], *, split: bool) -> list[str]:
        """Return the words of a test; see `World.assumes` for what nobody sets.

        Args:
            words: the words.
            split: whether they are split at blanks, as those of `[` are.
        """
        texts: list[str] = []
        for word in words:
            part = next((p for p in word.parts if p.kind == "parameter"), None)
            alone = part is not None and all(p is part or p.start == p.end for p in word.parts)
            open_name = part is not None and alone and not part.operator and part.name[0].isalpha()
            if part is not None and open_name and self._nobody_sets(part):
                self.budget.notes.assumed[part.name] = None
                if self.budget.notes.world.assumes:
                    self.budget.notes.leaned = True
                    texts += [""] if part.quoted or not split else []
                    continue
            texts += [w.text for w in (self.fields([word]) if split else [self.one(word)])]
        return texts

    def _changed(self, text: Text | None, part: Part) -> Text | None:
        """Return what `${X//a/b}` and its like make of known text; None for anything else."""
        if text is None:
            return Text(())
        if not text.known or part.word is None or part.index in {"@", "*"}:
            return None
        if part.operator == ":":
            return patterns.sliced(text, self.source.text[part.word.start : part.word.end])
        if part.operator in _CUTS:
            pattern = self._pattern(part.word.parts, part.word.start)
            return None if pattern is None else patterns.trimmed(text, part.operator, pattern)
        halves = _halves(part.word, self.source.text)
        if halves is None:
            return None
        pattern, new = (self._pattern(half, part.word.start) for half in halves)
        if pattern is None or new is None:
            return None
        return patterns.replaced(text, part.operator, pattern, new)

    def _pattern(self, parts: Sequence[Part], start: int) -> str | None:
        """Return the characters of a pattern; None when some of them are not known."""
        if any(part.quoted and part.kind != "text" and part.text in "*?[" for part in parts):
            return None
        quoted = any(
            part.quoted and any(c in "*?[" for c in self.source.text[part.start : part.end])
            for part in parts
        )
        text = self.parts(parts, start)
        return text.text if text.known and not quoted else None


def _halves(word: Word, source: str) -> tuple[list[Part], list[Part]] | None:
    """Split the word of `${X/a/b}` at its slash; None for what is not plain."""
    left: list[Part] = []
    for number, part in enumerate(word.parts):
        quotes = part.start > word.start and source[part.start - 1] in "'\""
        at = source.find("/", part.start, part.end) if part.kind == "text" and not quotes else -1
        if at >= 0:
            before = replace(part, end=at)
            after = replace(part, start=at + 1)
            left += [before] if before.end > before.start else []
            right = [after] if after.end > after.start else []
            return left, [*right, *word.parts[number + 1 :]]
        left.append(part)
    return left, []


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


def _joined(texts: Iterable[Text]) -> Text:
    pieces: list[Piece] = []
    for text in texts:
        if pieces:
            pieces.append(Piece(" ", text.origin, " "))
        pieces.extend(text.pieces)
    return Text(tuple(pieces))
