"""Reads the commands of a shell script into the tree of `moectl.settings.shell.syntax`.

A shell reads command by command and stops at the first one it cannot read; what stands
before that has run. So does this reader.
"""

from __future__ import annotations

import re
from functools import lru_cache

from moectl.settings.shell.simple import CommandReader
from moectl.settings.shell.syntax import (
    Case,
    Command,
    Function,
    Group,
    If,
    Item,
    Loop,
    Parsed,
    Pipeline,
    Simple,
    Slip,
    Test,
    Trouble,
    Word,
)
from moectl.settings.shell.words import ShellSyntaxError

_FUNCTION = re.compile(r"[^ \t\n\\'\"$`;&|<>()=]+(?=[ \t]*\([ \t]*\))")
_PARENTHESES = re.compile(r"[ \t]*\([ \t]*\)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?=[ \t\n;]|$)")
_KEPT = 100_000  # characters of the largest script whose tree is kept
_ENDS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})


def parse(text: str) -> Parsed:
    """Return the commands of a script, and what is wrong with its text.

    A script that is read in several worlds is parsed once; nobody changes what is returned.
    """
    return _kept(text) if len(text) < _KEPT else _parsed(text)


@lru_cache(maxsize=8)
def _kept(text: str) -> Parsed:
    return _parsed(text)


def _parsed(text: str) -> Parsed:
    reader = _Reader(text)
    items: list[Item] = []
    trouble = None
    try:
        reader.fill(items)
        if reader.at < reader.end:
            raise ShellSyntaxError(reader.at, "has something where no command can stand")
    except ShellSyntaxError as error:
        trouble = Trouble(error.offset, error.clause, error.certain)
    return Parsed(items, trouble, reader.slips, reader.spans)


class _Reader(CommandReader):
    def commands_until(self, stop: str) -> list[Item]:  # noqa: ARG002 - it stops by itself
        items: list[Item] = []
        self.fill(items)
        return items

    def fill(self, items: list[Item]) -> None:
        """Read commands into `items` until something that ends a list."""
        broken = started = -1
        while True:
            self.lines()
            if self.at >= self.end or self.peek() in _ENDS or self.text[self.at] in ");&|":
                return
            start, self.broken = self.at, -1
            item = self._item()
            if broken >= 0 and self._goes_on(started, broken, start, item):
                self.slips.append(Slip("rest", start, broken))
            broken, started = self.broken, start
            operator = self.operator()
            item.background = operator == "&"
            if operator in {";", "&"}:
                self.at += 1
            items.append(item)
            if operator in {";;", ";&", ";;&"}:
                return
            if operator not in {";", "&", "\n", "", ")"}:
                raise ShellSyntaxError(self.at, "has something where no command can stand")
            if not operator and self.at < self.end:
                raise ShellSyntaxError(self.at, "has something where a command should end")

    def _goes_on(self, started: int, broken: int, start: int, item: Item) -> bool:
        """Whether an item looks like the rest of the command that a comment has ended."""
        line = self.text[broken : self.text.find("\n", broken) % (len(self.text) + 1)]
        if line.rstrip().endswith("\\") or self.text[start] == "-":
            return True
        command = item.pipelines[0][1].commands[0]
        return isinstance(command, Simple) and self._indent(start) > self._indent(started)

    def _indent(self, offset: int) -> int:
        return len(self._margin(offset).expandtabs())

    def _margin(self, offset: int) -> str:
        begin = self.text.rfind("\n", 0, offset) + 1
        line = self.text[begin:offset]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _item(self) -> Item:
        pipelines = [("", self._pipeline())]
        while (operator := self.operator()) in {"&&", "||"}:
            self.at += 2
            self.lines()
            pipelines.append((operator, self._pipeline()))
        return Item(pipelines)

    def _pipeline(self) -> Pipeline:
        negated = False
        while (word := self.peek()) in {"!", "time", "coproc"}:
            negated ^= word == "!"
            self.at += len(word)
            self.blank()
            if word == "time" and self.text.startswith("-p ", self.at):
                self.at += 3
                self.blank()
        commands = [self._command()]
        while (operator := self.operator()) in {"|", "|&"}:
            self.at += len(operator)
            self.lines()
            commands.append(self._command())
        return Pipeline(commands, negated)

    def _command(self) -> Command:
        self.deeper()
        word, start = self.peek(), self.at
        command: Command
        if word == "if":
            command = self._if(start)
        elif word in {"while", "until"}:
            command = self._while(start, word)
        elif word in {"for", "select"}:
            command = self._for(start, word)
        elif word == "case":
            command = self._case(start)
        elif word == "function":
            command = self._function(start)
        elif word == "[[":
            command = self._test(start)
        elif word == "{":
            self.at += 1
            command = Group(start, self._body("}"), subshell=False)
        elif self.text.startswith("((", self.at) and (found := self._arithmetic_command(start)):
            command = found
        elif self.text.startswith("(", self.at):
            self.at += 1
            body = self.commands_until(")")
            self.character(")", start)
            command = Group(start, body, subshell=True)
        elif _FUNCTION.match(self.text, self.at, self.end):
            command = self._function(start)
        else:
            command = self.simple(start)
        if not isinstance(command, Simple | Function):
            self.redirects(command.redirects)
        self.depth -= 1
        return command

    def _body(self, *stops: str) -> list[Item]:
        """Read commands up to one of the reserved words, and the word itself."""
        start, items = self.at, self.commands_until("")
        if (word := self.peek()) not in stops:
            raise ShellSyntaxError(start, f"opens something that no {' or '.join(stops)} ends")
        self.at += len(word)
        return items

    def _if(self, start: int) -> If:
        branches: list[tuple[list[Item], list[Item]]] = []
        word = "if"
        self.at += 2
        while word in {"if", "elif"}:
            condition = self._body("then")
            body = self.commands_until("")
            word = self.peek()
            if word not in {"elif", "else", "fi"}:
                raise ShellSyntaxError(start, "opens an if that no fi ends", certain=True)
            self.at += len(word)
            branches.append((condition, body))
        return If(start, branches, self._body("fi") if word == "else" else None)

    def _while(self, start: int, word: str) -> Loop:
        self.at += len(word)
        condition = self._body("do")
        return Loop(start, condition, "", None, self._body("done"))

    def _for(self, start: int, word: str) -> Loop:
        self.at += len(word)
        self.blank()
        name, words = "", None
        if self.text.startswith("((", self.at):
            self._arithmetic_command(start)
        else:
            found = _NAME.match(self.text, self.at, self.end)
            if not found:
                raise ShellSyntaxError(self.at, "has a for without a variable")
            name = found.group()
            self.at = found.end()
            self.lines()
            if self.peek() == "in":
                self.at += 2
                words = self.word_list()
        if self.operator() == ";":
            self.at += 1
        self.lines()
        if (opening := self.peek()) not in {"do", "{"}:
            raise ShellSyntaxError(start, "has a for without a do")
        self.at += len(opening)
        body = self._body("done" if opening == "do" else "}")
        return Loop(start, [], name, words if word == "for" else None, body)

    def _case(self, start: int) -> Case:
        self.at += 4
        self.blank()
        case = Case(start, self.word(), [])
        self.lines()
        if self.peek() != "in":
            raise ShellSyntaxError(start, "has a case without in")
        self.at += 2
        while True:
            self.lines()
            if self.peek() == "esac":
                self.at += 4
                return case
            if self.text.startswith("(", self.at):
                self.at += 1
            patterns = [self._pattern(start)]
            while self.operator() == "|":
                self.at += 1
                patterns.append(self._pattern(start))
            self.character(")", start)
            body = self.commands_until("")
            case.branches.append((patterns, body))
            if (operator := self.operator()) in {";;", ";&", ";;&"}:
                case.falls |= operator != ";;"
                self.at += len(operator)
            elif self.peek() != "esac":
                raise ShellSyntaxError(start, "opens a case that no esac ends", certain=True)

    def _pattern(self, start: int) -> Word:
        self.blank()
        word = self.word()
        if word.end == word.start:
            raise ShellSyntaxError(start, "has a case with an unreadable pattern")
        self.blank()
        return word

    def _function(self, start: int) -> Function:
        if self.peek() == "function":
            self.at += len("function")
            self.blank()
        word = self.word()
        if found := _PARENTHESES.match(self.text, self.at, self.end):
            self.at = found.end()
        self.lines()
        if self.at >= self.end:
            raise ShellSyntaxError(start, "has a function without a body")
        return Function(start, self.text[word.start : word.end], self._command())

    def _test(self, start: int) -> Test:
        self.at += 2
        words: list[Word] = []
        simple = True
        while self.at < self.end:
            self.blank()
            if self.text.startswith("]]", self.at):
                self.at += 2
                return Test(start, self.at, words if simple else [])
            before = self.at
            if self.at < self.end and self.text[self.at] in "\n&|<>();":
                self.at += 1
                simple = False
            else:
                words.append(self.word())
            if self.at == before:
                break
        raise ShellSyntaxError(start, "opens a [[ that no ]] ends")

    def _arithmetic_command(self, start: int) -> Test | None:
        level, at = 0, self.at
        while at < self.end:
            level += {"(": 1, ")": -1}.get(self.text[at], 0)
            at += 1
            if not level:
                break
        if level or self.text[at - 2 : at] != "))":
            return None
        self.at = at
        return Test(start, at)
