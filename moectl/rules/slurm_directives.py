"""Rules on the text of #SBATCH lines: quotes left open, and a # that cuts a word short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moectl.errors import shown
from moectl.rules.launching import line_origin
from moectl.rules.rule import Fault, rules
from moectl.rules.slurm_values import value_fault
from moectl.workload import Workload

RULES = rules()

_SLURM = "Slurm 22.05.8 src/sbatch/opt.c, options of a batch script; tried on it"
_WORD = "#SBATCH"
_BLANKS = " \t\r\f\v"
# Options whose values hold a # in the grammar of their plugin (NVIDIA/pyxis README).
_WITH_HASH = frozenset({"--container-image"})


@dataclass(frozen=True, slots=True)
class _Line:
    """What sbatch makes of a directive.

    Attributes:
        quote: the quote that is never closed, and its column from 0; None without one.
        cut: the word that a # cuts, the # and what stands before and after it in the line up to
            the next blank, and its column from 0; None without one.
    """

    quote: tuple[str, int] | None = None
    cut: tuple[str, int, int] | None = None


def _read(line: str) -> _Line:
    """Read a directive as sbatch does: quotes, backslashes, a # outside quotes ends it."""
    at, start, quote, opened = len(_WORD), len(_WORD), "", 0
    while at < len(line):
        char = line[at]
        if char == "\\":
            at += 2  # also between single quotes, unlike in a shell
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote, opened = char, at
        elif char in _BLANKS:
            start = at + 1
        elif char == "#":
            if at == start:
                return _Line()
            end = next((i for i in range(at, len(line)) if line[i] in _BLANKS), len(line))
            return _Line(cut=(line[start:end], start, at - start))
        at += 1
    return _Line(quote=(quote, opened)) if quote else _Line()


def _directives(w: Workload) -> Iterator[tuple[int, str]]:
    """Yield the #SBATCH lines above the first command, with their numbers."""
    if w.batch is None or _WORD not in w.batch.text:
        return
    start, number, text = 0, 0, w.batch.text
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line, number = text[start:end], number + 1
        start = end + 1
        if line.startswith(_WORD):
            yield number, line
        elif line.strip() and not line.lstrip(_BLANKS).startswith("#"):
            return


@RULES.rule(
    "SLURM117",
    "a quote left open in a directive",
    reason="sbatch reads quotes in #SBATCH lines as a shell does, and stops at one that is never "
    "closed.",
    remedy="close the quote, put the value in the other kind of quotes, or write a backslash "
    "before it",
    source=_SLURM,
    stage="reads",
)
def open_quote(w: Workload) -> Iterator[Fault]:
    """Find quotes that are opened and not closed."""
    for number, line in _directives(w):
        if (found := _read(line).quote) is not None:
            quote, column = found
            yield Fault(
                _WORD,
                f"a {quote} is opened and not closed: sbatch refuses the script",
                line_origin(w, number, column + 1),
            )


@RULES.rule(
    "SLURM118",
    "a # inside a directive's value",
    reason="Outside quotes a # ends a #SBATCH line, also in the middle of a word: the rest is "
    "dropped without a word.",
    remedy="put the value in quotes",
    source=_SLURM,
    severity="warning",
    stage="silent",
)
def cut_value(w: Workload) -> Iterator[Fault]:
    """Find values that a # cuts short."""
    for number, line in _directives(w):
        found = _read(line).cut
        if found is None:
            continue
        word, column, hash_at = found
        name, equals, value = word.partition("=")
        named = equals and name.startswith("--") and hash_at > len(name)
        first = len(name) + 1 if named else 0
        whole = value if named else word
        plain = not any(char in whole for char in "\"'\\$`")
        yield Fault(
            name if named else _WORD,
            f"sbatch ends at the #: the value is {shown(word[first:hash_at])}, and "
            f"{shown(word[hash_at:])} is lost",
            line_origin(w, number, column + first + 1),
            _instead(name, whole) if named and plain else "",
            severity="error" if name in _WITH_HASH else None,
            fix=(whole, f'"{whole}"') if plain and named and name in _WITH_HASH else None,
        )


def _instead(name: str, value: str) -> str:
    """Return what to type where the # belongs to the value; empty where it cannot."""
    if value_fault(name, value) is not None:
        return f"{name}={value.partition('#')[0]} #..., with a blank before the comment"
    return f'{name}="{value}"'
