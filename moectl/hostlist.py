"""Slurm's short form of node names, `gpu[001-004,7],login`, and the names it stands for.

The grammar is that of `scontrol show hostnames` (Slurm 22.05.8, src/common/hostlist.c), which
is also what the tests ask. Where that program makes up a name out of a broken list (an open
bracket, a range without an end), the list is refused here instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from moectl.errors import ValueUsageError, shown

LONGEST_RANGE = 65536
"""Names one range may stand for (MAX_RANGE of hostlist.c)."""

MOST_NAMES = 1 << 20
"""Names a whole list may stand for here; no cluster has as many."""

_SEPARATORS = ", \t\n"


def is_compact(text: str) -> bool:
    """Return whether a text holds names in brackets."""
    return "[" in text and "]" in text


def expand(text: str) -> list[str]:
    """Return the names a host list stands for, in Slurm's order, repeats kept.

    Args:
        text: e.g. "a[001-004,7],b" or "rack[1-2]-gpu[0-3]"; an empty text stands for no name.

    Raises:
        ValueUsageError: a bracket is open, empty, nested or followed by more characters, a
            range runs backwards or is no range, or the list stands for too many names.
    """
    names: list[str] = []
    for entry in _entries(text):
        names.extend(_names(entry, MOST_NAMES - len(names)))
    return names


def _entries(text: str) -> Iterator[str]:
    """Yield the parts of a list, cut where no bracket is open."""
    start, inside = 0, False
    for index, character in enumerate(text):
        if character == "[":
            if inside:
                raise _refused(text, "brackets that are not nested")
            inside = True
        elif character == "]":
            inside = False
        elif character in _SEPARATORS and not inside:
            if index > start:
                yield text[start:index]
            start = index + 1
    if inside:
        raise _refused(text, "a ] for every [")
    if start < len(text):
        yield text[start:]


def _names(entry: str, room: int) -> list[str]:
    texts, choices, tail = [], [], entry
    while "[" in tail:
        before, _, rest = tail.partition("[")
        inside, _, tail = rest.partition("]")
        texts.append(before)
        choices.append(_choices(inside, entry))
    if not texts:
        return [entry]
    if tail:
        raise _refused(entry, "a list whose entries end with their last bracket")
    if prod(map(len, choices)) > room:
        raise _refused(entry, f"a list of at most {MOST_NAMES} names")
    # Slurm unfolds the brackets before the last one from the right, so the first turns faster
    # than the second; the last turns fastest of all.
    order = [*range(len(choices) - 2, -1, -1), len(choices) - 1]
    found = []
    for picked in product(*(choices[index] for index in order)):
        by_bracket = dict(zip(order, picked, strict=True))
        found.append("".join(text + by_bracket[index] for index, text in enumerate(texts)))
    return found


def _choices(inside: str, entry: str) -> list[str]:
    found: list[str] = []
    for part in inside.split(","):
        low, dash, high = part.partition("-")
        if not _is_number(low) or (dash and not _is_number(high)):
            raise _refused(entry, f"numbers or ranges of numbers, not {shown(part)}")
        first, last = int(low), int(high or low)
        if last < first:
            raise _refused(entry, f"a range that counts up, not {shown(part)}")
        if last - first >= LONGEST_RANGE:
            raise _refused(entry, f"a range of at most {LONGEST_RANGE} names, not {shown(part)}")
        found.extend(f"{number:0{len(low)}d}" for number in range(first, last + 1))
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _refused(text: str, legal: str) -> ValueUsageError:
    return ValueUsageError("a host list", text, legal)
