"""The shell's own commands that change what it knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from moectl.settings.shell.options import tail
from moectl.settings.shell.others import opened, reading, source_of
from moectl.settings.shell.paths import script_key
from moectl.settings.shell.slips import expanded_name, not_names
from moectl.settings.shell.source import Source, cut, unknown
from moectl.settings.shell.state import State, Variable
from moectl.settings.shell.syntax import Assignment, Redirect, Simple
from moectl.values import Origin
from moectl.workload import MARK, Piece, Text

if TYPE_CHECKING:
    from moectl.settings.shell.interfaces import Following

_FLAGS = re.compile(r"[-+][A-Za-z]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _before(one: Origin, two: Origin) -> bool:
    return (one.line or 0, one.column or 0) < (two.line or 0, two.column or 0)


class Builtins:
    """Runs a shell's own commands on the state of a fold."""

    def __init__(self, fold: Following) -> None:
        self._fold = fold
        self._declared: list[Assignment] = []
        self._redirects: list[Redirect] = []
        self._frames: list[dict[str, Variable | None]] = []
        self._returns: list[list[State]] = []
        self._commands: dict[str, Callable[[Sequence[Text]], None]] = {
            **dict.fromkeys(("export", "readonly", "declare", "typeset", "local"), self._declare),
            **dict.fromkeys(("read", "mapfile", "readarray", "getopts", "printf"), self._fill),
            **dict.fromkeys((".", "source"), self._source),
            "unset": self._unset,
            "set": self._set,
            "shift": self._shift,
            "eval": self._eval,
            "exit": self._exit,
            "return": self._return,
        }

    def run(self, command: Simple, words: Sequence[Text]) -> bool:
        """Run a command if it is one of these; say whether it was."""
        found = self._commands.get(words[0].text)
        if found is None:
            return False
        self._declared, self._redirects = command.declared, command.redirects
        found(words)
        return True

    def enter(self) -> None:
        """Begin a function."""
        self._frames.append({})
        self._returns.append([])

    def enter_file(self) -> None:
        """Begin a file that is sourced: `return` ends it."""
        self._returns.append([])

    def leave_file(self) -> list[State]:
        """End a file that is sourced: where it returned."""
        return self._returns.pop()

    def leave(self) -> tuple[dict[str, Variable | None], list[State]]:
        """End a function: what its local variables were outside, and where it returned."""
        return self._frames.pop(), self._returns.pop()

    def _declare(self, words: Sequence[Text]) -> None:
        state = self._fold.state
        name = words[0].text
        flags = "".join(w.text for w in words[1:] if _FLAGS.fullmatch(w.text))
        exports = name == "export" or "x" in flags
        takes_back = "n" in flags and name == "export"
        local = name not in {"export", "readonly"} and "g" not in flags
        for assignment in self._declared:
            text, items = self._fold.value(assignment)
            self._keep(assignment.name, local=local)
            state.assign(assignment.name, text, items, export=exports)
        strays: list[Text] = []
        place = self._fold.source.origin(self._declared[0].start) if self._declared else None
        named = False
        for word in words[1:]:
            found = _NAME.match(word.text)
            if not found or word.text.startswith(("-", "+")):
                flag = _FLAGS.fullmatch(word.text) or word.text == "--"
                flag = flag and not named and (place is None or _before(word.origin, place))
                if not flag and word.known:
                    strays.append(word)
                elif not flag:
                    expanded_name(self._fold, words[0].text, word)
                continue
            named = True
            name, rest = found.group(), word.text[found.end() :]
            if word.known and rest and rest[0] not in "=[+":
                strays.append(word)
            if rest.startswith("="):
                self._keep(name, local=local)
                state.assign(name, tail(word, found.end() + 1), export=exports)
            elif not rest and takes_back:
                self._mark(name, word, exported=False)
            elif not rest and exports:
                self._mark(name, word, exported=True)
            elif not rest and local and self._frames:
                self._keep(name, local=True)
                state.variables[name] = Variable(None)
        not_names(self._fold, words[0].text, strays)
        self._fold.strays += strays

    def _mark(self, name: str, word: Text, *, exported: bool) -> None:
        variables = self._fold.state.variables
        found = variables.get(name) or Variable(unknown(word.origin))
        variables[name] = replace(found, exported=exported)

    def _keep(self, name: str, *, local: bool) -> None:
        if local and self._frames:
            self._frames[-1].setdefault(name, self._fold.state.variables.get(name))

    def _fill(self, words: Sequence[Text]) -> None:
        """Make unknown what is read from outside."""
        texts = [word.text for word in words]
        if texts[0] == "printf":
            names = words[2:3] if texts[1:2] == ["-v"] else []
        elif texts[0] == "getopts":
            names = [*words[2:3], Text((Piece("OPTARG", words[0].origin),))]
        else:
            names = [word for word in words[1:] if _NAME.fullmatch(word.text)]
        whole = self._document(texts) if texts[0] == "read" and len(names) == 1 else None
        for name in names:
            if _NAME.fullmatch(name.text):
                self._fold.state.assign(name.text, whole or unknown(words[0].origin))

    def _document(self, texts: Sequence[str]) -> Text | None:
        """Return what `read -r -d '' NAME <<EOF` reads: all of a here-document."""
        if "" not in texts or not any(text.startswith("-") and "d" in text for text in texts):
            return None
        text = self._fold.expander().document(self._redirects)
        if text is None:
            return None
        length = len(text.text)
        first, last = length - len(text.text.lstrip()), len(text.text.rstrip())
        # Without -r a backslash would be read as an escape.
        raw = any(word.startswith("-") and "r" in word for word in texts)
        known = raw or "\\" not in text.text
        return Text(cut(text.pieces, min(first, last), last)) if known else None

    def _source(self, words: Sequence[Text]) -> None:
        state = self._fold.state
        if len(words) > 1 and (script := state.scripts.get(script_key(words[1]))):
            self._fold.here(Source(script.pieces))
            return
        notes = self._fold.budget.notes
        if len(words) > 1 and (found := opened(notes, words[1])) is not None:
            with reading(notes, found[0]):
                self._fold.sourced(source_of(*found), words[2:])
            return
        # The other file may set what is unset here.
        for name in [n for n, variable in state.variables.items() if variable.text is None]:
            del state.variables[name]

    def _unset(self, words: Sequence[Text]) -> None:
        for word in words[1:]:
            if _NAME.fullmatch(word.text):
                self._fold.state.variables[word.text] = Variable(None)
                self._fold.state.functions.pop(word.text, None)

    def _set(self, words: Sequence[Text]) -> None:
        """Apply options, and give the positional parameters; each o takes a word for itself."""
        state = self._fold.state
        at = 1
        while at < len(words):
            text = words[at].text
            if text in {"--", "-"}:
                if text == "--" or at + 1 < len(words):
                    state.arguments = tuple(words[at + 1 :])
                return
            if text[:1] not in {"-", "+"}:
                state.arguments = tuple(words[at:])
                return
            at += 1
            turned = "a" in text[1:]
            for _ in range(text[1:].count("o")):
                if at < len(words) and words[at].text[:1] not in {"-", "+"}:
                    turned |= words[at].text == "allexport"
                    at += 1
            if turned:
                state.exports_all = text[0] == "-"

    def _shift(self, words: Sequence[Text]) -> None:
        state = self._fold.state
        count = words[1].text if len(words) > 1 else "1"
        if state.arguments is not None:
            certain = count.isdecimal() and not any(a.text == MARK for a in state.arguments)
            state.arguments = state.arguments[int(count[:6]) :] if certain else None

    def _eval(self, words: Sequence[Text]) -> None:
        pieces: list[Piece] = []
        for word in words[1:]:
            pieces += [Piece(" ", word.origin, " "), *word.pieces]
        if all(word.known for word in words):
            self._fold.here(Source(pieces))

    def _exit(self, _words: Sequence[Text]) -> None:
        self._fold.state.ended = True

    def _return(self, _words: Sequence[Text]) -> None:
        fold = self._fold
        if self._returns:
            self._returns[-1].append(fold.state.copy(fold.budget))
        fold.state.returned = True
