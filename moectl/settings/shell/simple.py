"""Reads simple commands of the shell language: assignments, words, redirections."""

from __future__ import annotations

import re

from moectl.settings.shell.syntax import Assignment, HereDocument, Redirect, Simple, Word
from moectl.settings.shell.words import ShellSyntaxError, WordReader

_BLANK = re.compile(r"(?:[ \t]|\\\n)+")
_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|while|until|do|done|for|case|esac|select|function|time|coproc"
    r"|\{|\}|!|\[\[|in)(?=[ \t\n;&|<>()]|$)"
)
_REDIRECT = re.compile(
    r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<>|<&|>&|&>>|&>|>>|>\||<|>)"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[([^\]\n]*)\])?(\+?=)")
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|\n()]")
_DECLARES = frozenset({"export", "declare", "typeset", "local", "readonly"})


class CommandReader(WordReader):
    """Reads simple commands, and what stands between commands."""

    def simple(self, start: int) -> Simple:
        """Read a simple command."""
        command = Simple(start)
        declares = False
        while True:
            before = self.at
            self.blank()
            if self.at >= self.end:
                break
            if self.text[self.at] in "\n#" and "\\\n" in self.text[before : self.at]:
                self.broken = self.at
                break
            if self._redirect(command.redirects):
                continue
            assignment = _ASSIGNMENT.match(self.text, self.at, self.end)
            if assignment and (declares or not command.words):
                target = command.declared if command.words else command.assignments
                target.append(self._assignment(assignment))
                continue
            if self.text[self.at] in "\n;&|()" or (self.text[self.at] == "#" and self._fresh()):
                break
            word = self.word()
            if word.end == word.start:
                break
            command.words.append(word)
            if len(command.words) == 1:
                declares = self.text[word.start : word.end] in _DECLARES
        if not (command.words or command.assignments or command.redirects):
            raise ShellSyntaxError(self.at, "has something where no command can stand")
        return command

    def _assignment(self, found: re.Match[str]) -> Assignment:
        name, index, operator = found.groups()
        assignment = Assignment(name, found.start(), operator == "+=", index or "")
        self.at = found.end()
        if self.text.startswith("(", self.at) and self.at < self.end:
            opened = self.at
            self.at += 1
            assignment.items = []
            while True:
                self.lines()
                if self.at >= self.end:
                    raise ShellSyntaxError(opened, "opens a ( that is never closed", certain=True)
                word = self.word()
                if word.end == word.start:
                    break
                assignment.items.append(word)
            self.character(")", opened)
        else:
            assignment.word = self.word()
        return assignment

    def word_list(self) -> list[Word]:
        """Read words up to the end of the command."""
        words: list[Word] = []
        while True:
            self.blank()
            if self.at >= self.end or self.text[self.at] in "\n;&|()<>#":
                return words
            words.append(self.word())

    def redirects(self, redirects: list[Redirect]) -> None:
        """Read the redirections behind a compound command."""
        self.blank()
        while self._redirect(redirects):
            self.blank()

    def _redirect(self, redirects: list[Redirect]) -> bool:
        if self.at >= self.end or self.text[self.at] not in "<>&{0123456789":
            return False
        found = _REDIRECT.match(self.text, self.at, self.end)
        if not found:
            return False
        descriptor, operator = found.group(1) or "", found.group(2)
        if operator in {"<", ">"} and self.text.startswith("(", found.end()):
            return False
        self.at = found.end()
        self.blank()
        word = self.word()
        if word.end == word.start:
            # A placeholder such as <YOUR_TOKEN> is two redirections to a shell.
            nothing = self.at >= self.end or self.text[self.at] in "\n;&|)<>"
            clause = "takes < or > for a redirection, and finds no name behind it (a placeholder?)"
            raise ShellSyntaxError(found.start(), clause, certain=nothing)
        redirect = Redirect(operator, descriptor, word)
        if operator in {"<<", "<<-"}:
            literal = any(part.quoted for part in word.parts)
            delimiter = "".join(
                part.text if part.kind == "char" else self.text[part.start : part.end]
                for part in word.parts
            )
            redirect.document = HereDocument(delimiter, literal, operator == "<<-")
            redirect.target = None
            self.documents.append(redirect.document)
        redirects.append(redirect)
        return True

    def blank(self) -> None:
        """Skip blanks and continued line ends."""
        if found := _BLANK.match(self.text, self.at, self.end):
            self.at = found.end()

    def lines(self) -> None:
        """Skip blanks, comments and line ends, and read the here-documents due there."""
        while self.at < self.end:
            self.blank()
            if self.at >= self.end:
                return
            if self.text[self.at] == "#" and self._fresh():
                stop = self.text.find("\n", self.at, self.end)
                self.at = self.end if stop < 0 else stop
            elif self.text[self.at] == "\n":
                self.at += 1
                if self.documents:
                    self.read_documents()
            else:
                return

    def _fresh(self) -> bool:
        """Whether a word begins here, so that # begins a comment."""
        return self.at == 0 or self.text[self.at - 1] in " \t\n;&|()`"

    def peek(self) -> str:
        """Return the reserved word that stands here, or ""."""
        found = _RESERVED.match(self.text, self.at, self.end)
        return found.group() if found else ""

    def operator(self) -> str:
        """Skip blanks and a comment; return the operator that stands behind them, or ""."""
        self.blank()
        if self.at < self.end and self.text[self.at] == "#" and self._fresh():
            stop = self.text.find("\n", self.at, self.end)
            self.at = self.end if stop < 0 else stop
        found = _OPERATOR.match(self.text, self.at, self.end)
        return found.group() if found else ""

    def character(self, char: str, start: int) -> None:
        """Read a bracket that must stand here; `start` is where its like was opened."""
        self.blank()
        if self.at >= self.end or self.text[self.at] != char:
            raise ShellSyntaxError(start, f"opens something that no {char} ends")
        self.at += 1
