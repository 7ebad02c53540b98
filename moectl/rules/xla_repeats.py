"""XLA flags given more than once: what counts, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from moectl.errors import ValueUsageError, shown
from moectl.rules.rule import Fault, rules
from moectl.rules.xla_reading import Reading, judges, reading
from moectl.workload import Workload
from moectl.xla_text import FlagToken

RULES = rules()
_TOKENIZER: Final = (
    "openxla/xla xla/parse_flags_from_env.cc; tried with jaxlib 0.8.3, 0.10.2, 0.11.2, 0.12.0.1"
)


@RULES.rule(
    "XLA111",
    "flag given twice",
    reason="The last one counts, in silence; the other one is only read by people.",
    remedy="keep one of them",
    source=_TOKENIZER,
    severity="warning",
    stage="silent",
)
def given_twice(w: Workload) -> Iterator[Fault]:
    """The same flag with different values, one of which is lost."""
    for read, tokens in _repeated(w):
        catalogue = judges(w).first
        flag = catalogue.flag(tokens[-1].name)
        if flag is not None and flag.accumulates:
            continue
        for earlier, later in pairwise(tokens):
            if _same(w, earlier, later) or _edits(w, later):
                continue
            place = read.text.at(later.offset)
            where = f"in line {place.line}" if place.line else "later in the text"
            message = f"{_said(earlier)} does not count: {_said(later)} stands {where}"
            yield Fault(earlier.name, message, read.text.at(earlier.offset))


@RULES.rule(
    "XLA112",
    "list flag given in parts",
    reason="Some list flags collect their repeats, and +X or -X edits what was set before; a "
    "plain list replaces it.",
    remedy="one list is easier to read",
    source=_TOKENIZER,
    severity="note",
    stage="advice",
)
def in_parts(w: Workload) -> Iterator[Fault]:
    """A list flag whose repeats add up."""
    for read, tokens in _repeated(w):
        catalogue = judges(w).first
        flag = catalogue.flag(tokens[-1].name)
        if flag is None or not (flag.accumulates or _edits(w, tokens[-1])):
            continue
        merged = catalogue.merge([(token.name, token.value) for token in tokens])[flag.name]
        message = f"{len(tokens)} parts make {shown(merged)}"
        yield Fault(flag.name, message, read.text.at(tokens[-1].offset))


def _repeated(w: Workload) -> Iterator[tuple[Reading, tuple[FlagToken, ...]]]:
    if (read := reading(w)) is None:
        return
    for tokens in read.parsed.repeated.values():
        if not any(map(read.partial, tokens)):
            yield read, tokens


def _same(w: Workload, one: FlagToken, other: FlagToken) -> bool:
    return _canonical(w, one) == _canonical(w, other)


def _canonical(w: Workload, token: FlagToken) -> str:
    value = "true" if token.value is None else token.value
    flag = judges(w).first.flag(token.name)
    if flag is None or flag.fault(value) is not None:
        return value
    try:
        return flag.spell(value)
    except ValueUsageError:  # a text that quotes alone make possible
        return value


def _edits(w: Workload, token: FlagToken) -> bool:
    flag = judges(w).first.flag(token.name)
    return flag is not None and flag.edits and (token.value or "").lstrip()[:1] in {"+", "-"}


def _said(token: FlagToken) -> str:
    return f"--{token.name}" + ("" if token.value is None else f"={token.value}")
