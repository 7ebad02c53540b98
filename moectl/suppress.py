"""Findings that a comment in the checked file takes away.

`# moectl: ignore[CODE]` at the end of a line, or on a line of its own above it, takes the
findings of that line away; `# moectl: ignore-file[CODE]` in the first lines those of the whole
file. A family ("XLA") or the beginning of a code ("XLA1") stands for all its codes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from moectl.comments import Comment, comments, is_script
from moectl.errors import nearest, shown
from moectl.findings import Finding
from moectl.rules.rule import Fault, Rule, Rules
from moectl.values import Origin

FILE_LINES = 10
"""An `ignore-file` counts in this many first lines."""

UNKNOWN_CODE = Rule(
    "SUP101",
    "a suppression that is not understood",
    "A comment that names no known code takes nothing away, and looks as if it did.",
    "write `# moectl: ignore[CODE]` with a code or family that `moectl explain` knows",
    "moectl",
    "warning",
    "advice",
)
UNUSED = Rule(
    "SUP102",
    "a suppression that suppresses nothing",
    "The fault it was written for is gone; the comment would hide the next one.",
    "remove the code from the comment",
    "moectl",
    "note",
    "advice",
)
RULES = Rules([UNKNOWN_CODE, UNUSED])

_MARKER = "moectl:"
# Unknown codes of a file that get the nearest known ones, which takes a while to tell.
_HELPED = 20
_COMMENT = re.compile(
    r"#\s*moectl:\s*(?P<word>[A-Za-z_-]+)\s*(?:\[(?P<codes>[^\]\n]*)(?P<closed>\])?)?"
)
_ITEM = re.compile(r"[^\s,]+")
_WORDS = ("ignore", "ignore-file")
_LIKE = frozenset({"noqa", "disable", "suppress", "allow", "skip"})


@dataclass(frozen=True, slots=True)
class Suppression:
    """One code in one comment.

    Attributes:
        code: the code, family, or beginning of a code, in capitals; "" for a comment that is
            not understood.
        line: line of the comment, from 1.
        column: column of the code, from 1.
        first: first line it holds for; 0 for the whole file.
        last: last line it holds for.
        fault: why the comment is not understood, or "".
    """

    code: str
    line: int
    column: int
    first: int = 0
    last: int = 0
    fault: str = ""


def covers(chosen: str, code: str) -> bool:
    """Whether a code, family or beginning of a code stands for `code`.

    "XLA" and "XLA1" stand for XLA101; "XL" stands for nothing, so that one family never
    takes another one along.
    """
    return bool(chosen) and chosen.upper() in _beginnings(code)


def known_codes() -> tuple[str, ...]:
    """Return every code that a finding may have, those of this module included."""
    from moectl.rules.registry import all_rules  # noqa: PLC0415 - imports every rule

    return tuple(all_rules())


def unknown(chosen: str, known: Iterable[str]) -> list[str] | None:
    """Return None for a code or family that stands for a known one, else the nearest names."""
    codes = list(known)
    if any(covers(chosen, code) for code in codes):
        return None
    families = dict.fromkeys(code.rstrip("0123456789") for code in codes)
    return nearest(chosen.upper(), [*codes, *families])


def suppressions(text: str, name: str = "") -> list[Suppression]:
    """Return what the comments of a text suppress.

    Args:
        text: a YAML file or a shell script.
        name: its name; its ending tells a script that has no `#!` line.

    Comments inside quotes, here-documents and YAML block scalars are content, not comments.
    In a script a comment above a command holds for all its continued lines.
    """
    if _MARKER not in text:
        return []
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    scanned = comments(lines, script=is_script(text, name))
    spans = _spans(scanned)
    found: list[Suppression] = []
    for index, comment in enumerate(scanned):
        if comment.at is not None and _MARKER in lines[index]:
            found += _read(lines[index], index, comment, spans[index])
    return found


def apply(
    findings: Iterable[Finding],
    texts: Mapping[str, str],
    known: Collection[str] | None = None,
) -> tuple[list[Finding], int, list[Finding]]:
    """Take suppressed findings away.

    Every finding is wanted here, before `--select` and `--ignore`: a suppression of a code
    that was not asked for is not useless.

    Args:
        findings: what was found.
        texts: content of the checked files, by the name findings have in `file`. With one
            file, its `ignore-file` holds for findings about what it builds on as well.
        known: every code there is; the default is `known_codes()`.

    Returns:
        What stays, how many were taken away, and findings about the comments themselves.
    """
    kept = list(findings)
    said = {name: found for name, text in texts.items() if (found := suppressions(text, name))}
    if not said:
        return kept, 0, []
    codes = known_codes() if known is None else known
    held = {name: _Held(found) for name, found in said.items()}
    only = next(iter(held.values())) if len(texts) == 1 else None
    kept, suppressed = _without(kept, held, only)
    # A comment may speak of the findings about comments as well, so those are judged last.
    extra = [f for name, found in said.items() for f in _about(name, found, held[name], codes)]
    extra, more = _without(extra, held, only)
    for name, found in said.items():
        extra += _about(name, found, held[name], codes, own=True)
    return kept, suppressed + more, extra


class _Held:
    """The suppressions of a file, found by line and code however many there are."""

    def __init__(self, found: Iterable[Suppression]) -> None:
        self._codes: dict[int, set[str]] = {}
        self._last: dict[int, int] = {}
        self._used: set[tuple[int, str]] = set()
        for one in found:
            if not one.fault:
                self._codes.setdefault(one.first, set()).add(one.code)
                self._last[one.first] = one.last
        self._firsts = sorted({0, *self._codes})

    def takes(self, finding: Finding, line: int) -> bool:
        """Whether a comment takes a finding of a line away; notes which one was of use."""
        # Commands do not overlap, so the last one that begins before a line is the only one.
        before = self._firsts[bisect_right(self._firsts, max(line, 0)) - 1]
        hits = [
            (first, code)
            for first in {0, before}
            if first == 0 or first <= line <= self._last[first]
            for code in _beginnings(finding.code)
            if code in self._codes.get(first, ())
        ]
        self._used.update(hits)
        return bool(hits)

    def used(self, one: Suppression) -> bool:
        """Whether a suppression took anything away."""
        return (one.first, one.code) in self._used


def _beginnings(code: str) -> Iterator[str]:
    """Yield what stands for a code: its family, and every longer beginning of it."""
    family = len(code.rstrip("0123456789"))
    return (code[:end] for end in range(family, len(code) + 1))


def _without(
    findings: Iterable[Finding], held: Mapping[str, _Held], only: _Held | None
) -> tuple[list[Finding], int]:
    """Return the findings nobody suppresses, and how many are.

    `only` are the suppressions of the one file that was checked, if it was one.
    """
    kept: list[Finding] = []
    suppressed = 0
    for finding in findings:
        its = held.get(finding.file)
        if its is not None:
            taken = its.takes(finding, finding.line or 0)
        else:
            # What a preset or base file says counts for the file that builds on it as a whole.
            taken = only is not None and only.takes(finding, 0)
        if taken:
            suppressed += 1
        else:
            kept.append(finding)
    return kept, suppressed


def _about(
    name: str,
    found: Iterable[Suppression],
    held: _Held,
    codes: Collection[str],
    *,
    own: bool = False,
) -> Iterator[Finding]:
    """Yield what is to be said of comments; `own` for those that speak of these findings."""
    legal = {beginning for code in codes for beginning in _beginnings(code)}
    ours = {beginning for rule in RULES.all for beginning in _beginnings(rule.code)}
    helped = 0
    for one in found:
        if (one.code in ours) is not own:
            continue
        origin = Origin(name, name, one.line, one.column)
        if one.fault:
            yield UNKNOWN_CODE.finding(Fault("", one.fault, origin))
        elif one.code not in legal:
            helped += 1
            near = unknown(one.code, codes) if helped <= _HELPED else None
            message = f"no rule has the code {shown(one.code)}"
            hint = f"did you mean {' or '.join(near)}?" if near else ""
            yield UNKNOWN_CODE.finding(Fault("", message, origin, hint))
        elif not held.used(one):
            where = f"line {one.first}" if one.first else "this file"
            if one.first != one.last:
                where = f"lines {one.first} to {one.last}"
            message = f"{one.code} is ignored for {where}, where it is not found"
            yield UNUSED.finding(Fault("", message, origin))


def _read(line: str, index: int, comment: Comment, span: tuple[int, int]) -> Iterator[Suppression]:
    for match in _COMMENT.finditer(line, comment.at or 0):
        word, number = match["word"].lower(), index + 1
        place = match.start() + 1
        if word not in _WORDS:
            if _meant(word, brackets=match["codes"] is not None):
                fault = f"{shown(match['word'])} is no suppression; there are {', '.join(_WORDS)}"
                yield Suppression("", number, place, fault=fault)
            continue
        codes = list(_ITEM.finditer(match["codes"] or ""))
        if not codes or not match["closed"]:
            yield Suppression("", number, place, fault=f"{word} names no code in [ ]")
            continue
        if word == "ignore-file" and index >= FILE_LINES:
            fault = f"ignore-file counts only in the first {FILE_LINES} lines"
            yield Suppression("", number, place, fault=fault)
            continue
        first, last = (0, 0) if word == "ignore-file" else span
        for code in codes:
            column = match.start("codes") + code.start() + 1
            yield Suppression(code.group().upper(), number, column, first, last)


def _meant(word: str, *, brackets: bool) -> bool:
    """Whether a suppression was meant by another word; "moectl: file 3 of 4" means none."""
    return (brackets and word in _LIKE) or (len(word) > len("file") and bool(nearest(word, _WORDS)))


def _spans(scanned: Sequence[Comment]) -> list[tuple[int, int]]:
    """Return the first and last line, from 1, that a comment in each line would speak of."""
    ends = {comment.start: index for index, comment in enumerate(scanned)}
    below = [len(scanned)] * len(scanned)  # the next line that is no comment
    for index in range(len(scanned) - 2, -1, -1):
        below[index] = below[index + 1] if scanned[index + 1].alone else index + 1
    return [
        (below[index] + 1, ends.get(below[index], below[index]) + 1)
        if comment.alone
        else (comment.start + 1, index + 1)
        for index, comment in enumerate(scanned)
    ]
