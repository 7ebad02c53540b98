"""The text of XLA_FLAGS: how it is written, and how XLA's own tokenizer reads it.

XLA does not use a shell's rules. It reads flags until the first word that does not begin
with a dash and then stops, without a word about what follows; a text that does not begin with
a dash at all is the name of a file; quotes count only right after `=`. `parse` models that
reading (xla/parse_flags_from_env.cc), and `emit` writes the one form that survives it.
What a flag means is not known here: see `moectl.facts.xla`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from moectl.errors import SeveralUsageErrors, UsageError, ValueUsageError

FlagValue: TypeAlias = bool | int | float | str | Sequence[str]
FaultKind: TypeAlias = Literal["file", "stray", "quote", "swallowed", "dashes", "separator"]

# kWS of XLA's tokenizer. A form feed or a no-break space is an ordinary character to it.
_BLANKS = " \t\r\n"
_QUOTES = "'\""
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@dataclass(frozen=True, slots=True)
class FlagToken:
    """One flag of the text.

    Attributes:
        name: the name without dashes.
        value: the value as XLA sees it, quotes removed; None for a bare flag.
        offset: index of its first character in the text.
        source: the token as written.
    """

    name: str
    value: str | None
    offset: int
    source: str


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """One thing wrong with the text, whatever flags a release knows.

    Attributes:
        kind: "file" (taken as a file name), "stray" (a word that ends the reading), "quote"
            (opened and never closed), "swallowed" (a flag inside another one's value),
            "dashes" (a flag without exactly two dashes and a name), "separator" (a bare "--").
        offset: index in the text.
        message: what XLA does with it.
        fatal: whether the process dies of it, whatever the flags are.
    """

    kind: FaultKind
    offset: int
    message: str
    fatal: bool


@dataclass(frozen=True, slots=True)
class ParsedFlags:
    """What XLA makes of a text.

    Attributes:
        text: the text that was read.
        kept: the flags XLA sees, in order; a later one of the same name wins, except for
            flags that accumulate (see `moectl.facts.xla`).
        dropped: the flags it never sees, because it stopped before them.
        stop: the word at which it stopped; None when it read to the end.
        file: the file it would read instead, when the text does not begin with a dash.
        faults: everything wrong with the syntax, by offset.
    """

    text: str
    kept: tuple[FlagToken, ...] = ()
    dropped: tuple[FlagToken, ...] = ()
    stop: FlagToken | None = None
    file: str | None = None
    faults: tuple[SyntaxFault, ...] = ()

    @property
    def fatal(self) -> bool:
        """Whether the process dies of the syntax alone."""
        return any(fault.fatal for fault in self.faults)

    @property
    def values(self) -> dict[str, str]:
        """Flag name -> the text that counts: the last one, and "true" for a bare flag."""
        return {token.name: "true" if token.value is None else token.value for token in self.kept}

    @property
    def repeated(self) -> dict[str, tuple[FlagToken, ...]]:
        """The flags given more than once, with every occurrence."""
        seen: dict[str, list[FlagToken]] = {}
        for token in self.kept:
            seen.setdefault(token.name, []).append(token)
        return {name: tuple(tokens) for name, tokens in seen.items() if len(tokens) > 1}


def value_text(value: FlagValue, what: str = "an XLA flag") -> str:
    """Return the text that stands for a value after `--name=`.

    Booleans become true and false, lists are joined by commas without blanks, and quotes that
    enclose a whole text are removed as XLA removes them.

    Args:
        value: the value as typed.
        what: the flag, for the message.

    Raises:
        ValueUsageError: the text holds a blank, a quote or a character that cannot be printed.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if not isinstance(value, str):
        return ",".join(value_text(item, what) for item in value)
    text = _unquoted(value)
    if any(character in _QUOTES for character in text):
        raise ValueUsageError(what, value, "leave the quotes out; the text goes to XLA as it is")
    if any(character.isspace() for character in text):
        raise ValueUsageError(
            what, value, "leave the blanks out; XLA ends the value at the first one"
        )
    if not text.isprintable():
        raise ValueUsageError(what, value, "only characters that can be printed are legal")
    return text


def emit(
    flags: Mapping[str, FlagValue], spell: Callable[[str, FlagValue], str] | None = None
) -> str:
    """Write the one canonical XLA_FLAGS text: `--name=value`, separated by single blanks.

    Args:
        flags: flag name (without dashes) -> value, in the order in which to write them.
        spell: turns a name and value into text, e.g. `XlaCatalogue.spell`, which writes enum
            kinds in upper case; by default `value_text`.

    Raises:
        ValueUsageError: one name or value cannot be written.
        SeveralUsageErrors: more than one cannot.
    """
    words: list[str] = []
    errors: list[UsageError] = []
    for name, value in flags.items():
        try:
            if not (name.isascii() and name.isidentifier()):
                legal = "a name has letters, digits and underscores, and no dashes in front"
                raise ValueUsageError("the name of an XLA flag", name, legal)
            text = value_text(value, name) if spell is None else spell(name, value)
            words.append(f"--{name}={text}")
        except UsageError as error:
            errors.append(error)
    if len(errors) > 1:
        raise SeveralUsageErrors(errors)
    if errors:
        raise errors[0]
    return " ".join(words)


def parse(text: str, *, content: bool = False) -> ParsedFlags:
    """Read a text as XLA reads it.

    Args:
        text: the value of XLA_FLAGS, or with `content` what stands in a file of flags.
        content: whether the text came out of a file; then it is never a file name.

    Returns:
        The flags XLA keeps and drops, where it stops, and what is wrong with the syntax.
    """
    start = _skip(text, 0)
    if text and not content and text[start : start + 1] != "-":
        return ParsedFlags(text, file=text, faults=(_file_fault(start),))
    kept: list[FlagToken] = []
    faults: list[SyntaxFault] = []
    while start < len(text) and text[start] == "-":
        token, end = _token(text, start, faults)
        kept.append(token)
        start = _skip(text, end)
    if start >= len(text):
        return ParsedFlags(text, tuple(kept), faults=tuple(faults))
    dropped = tuple(_after(text, start))
    word = text[start : _word_end(text, start)]
    count = f"{len(dropped)} flag{'' if len(dropped) == 1 else 's'}"
    consequence = f"{count} after it would be dropped silently" if dropped else "nothing follows"
    message = f"XLA stops reading at {word!r}, which does not begin with a dash; {consequence}"
    faults.append(SyntaxFault("stray", start, message, fatal=False))
    return ParsedFlags(
        text, tuple(kept), dropped, FlagToken("", None, start, word), faults=tuple(faults)
    )


def _file_fault(start: int) -> SyntaxFault:
    if start:
        reason = "begins with a blank and no dash, so XLA takes all of it as a file name and dies"
    else:
        reason = "does not begin with a dash, so XLA reads it as the name of a file of flags"
    return SyntaxFault("file", 0, f"the text {reason}", fatal=start > 0)


def _token(text: str, start: int, faults: list[SyntaxFault]) -> tuple[FlagToken, int]:
    """Read one flag at `start`; return it and the index just past it."""
    end = start
    while end < len(text) and text[end] in _NAME_CHARACTERS:
        end += 1
    if text[end : end + 1] == "=" and text[end + 1 : end + 2] in {*_QUOTES}:
        name = text[start:end]
        quoted, after, closed = _quoted(text, end + 1)
        value: str | None = quoted
    else:
        closed = True
        after = _word_end(text, end)
        name, equals, rest = text[start:after].partition("=")
        value = rest if equals else None
    if name.strip("-") == "" or len(name) - len(name.lstrip("-")) != 2:
        faults.append(_dashes_fault(text[start:after], start))
    if value and "--xla_" in value:
        message = f"the value of {name} swallows another flag: {value[:60]!r}"
        faults.append(SyntaxFault("swallowed", start, message, fatal=False))
    if not closed:
        message = f"the quote after {name}= is never closed; the value runs to the end"
        faults.append(SyntaxFault("quote", end + 1, message, fatal=False))
    return FlagToken(name.removeprefix("--"), value, start, text[start:after]), after


def _dashes_fault(word: str, start: int) -> SyntaxFault:
    if word == "--":
        message = "a bare -- makes XLA report everything after it as unknown"
        return SyntaxFault("separator", start, message, fatal=True)
    message = f"{word[:60]!r} is unknown to XLA: a flag has two dashes and a name"
    return SyntaxFault("dashes", start, message, fatal=True)


def _quoted(text: str, start: int) -> tuple[str, int, bool]:
    """Read a quoted value; return it, the index just past it, and whether the quote closed."""
    quote, position = text[start], start + 1
    value: list[str] = []
    while position < len(text) and text[position] != quote:
        # A backslash escapes in double quotes only.
        if quote == '"' and text[position] == "\\" and position + 1 < len(text):
            position += 1
        value.append(text[position])
        position += 1
    closed = position < len(text)
    return "".join(value), position + closed, closed


def _unquoted(value: str) -> str:
    """Remove the quotes that enclose a whole value, as XLA does."""
    if value[:1] in {*_QUOTES}:
        inner, end, closed = _quoted(value, 0)
        if closed and end == len(value):
            return inner
    return value


def _after(text: str, start: int) -> list[FlagToken]:
    """Return what was meant as flags from `start` on, though XLA never looks at it."""
    lost: list[FlagToken] = []
    while start < len(text):
        if text[start] == "-":
            token, end = _token(text, start, [])
        else:
            end = _word_end(text, start)
            word = text[start:end]
            bare = word.lstrip("'\"(,;")
            name, equals, value = bare.rstrip("'\");").partition("=")
            token = FlagToken(name.removeprefix("--"), value if equals else None, start, word)
            if not bare.startswith("--"):
                start = _skip(text, end)
                continue
        lost.append(token)
        start = _skip(text, end)
    return lost


def _skip(text: str, start: int) -> int:
    while start < len(text) and text[start] in _BLANKS:
        start += 1
    return start


def _word_end(text: str, start: int) -> int:
    while start < len(text) and text[start] not in _BLANKS:
        start += 1
    return start
