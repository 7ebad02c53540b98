"""XLA flags whose value runs on: quotes that never close, flags joined by a colon or comma."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moectl.errors import shown
from moectl.rules.rule import Fault, rules
from moectl.rules.xla_reading import Reading, judges, reading
from moectl.workload import MARK, Workload
from moectl.xla_text import FlagToken

RULES = rules()
_TOKENIZER: Final = (
    "openxla/xla xla/parse_flags_from_env.cc; tried with jaxlib 0.8.3, 0.10.2, 0.11.2, 0.12.0.1"
)
_BLANKS: Final = " \t\r\n"
_GLUE: Final = (":", ",", ";")  # what people join flags with, as a path or a list is


def _swallowing(w: Workload) -> Iterator[tuple[Reading, FlagToken, str, int, bool]]:
    """Yield tokens whose value ran on: token, "quote" or "joined", place, whether refused."""
    if (read := reading(w)) is None:
        return
    catalogue = judges(w).first
    quotes = {fault.offset for fault in read.faults("quote")}
    for token in read.kept:
        end = token.offset + len(token.source)
        quoted = next((offset for offset in quotes if token.offset < offset < end), None)
        joined = token.value is not None and "--xla_" in token.value
        if quoted is None and not joined:
            continue
        flag = catalogue.flag(token.name)
        refused = flag is not None and flag.fault(token.value or "") is not None
        kind, place = ("quote", quoted) if quoted is not None else ("joined", token.offset)
        yield read, token, kind, place or 0, refused


@RULES.rule(
    "XLA105",
    "quote that is never closed",
    reason="The value runs to the end of the text, so XLA refuses it and dies.",
    remedy="close the quote, or leave quotes out: XLA needs none",
    source=_TOKENIZER,
)
def open_quote(w: Workload) -> Iterator[Fault]:
    """A quote right after = without its partner, on a flag that takes no such text."""
    for read, token, kind, place, refused in _swallowing(w):
        if kind == "quote" and refused:
            message = f"the value runs to the end of the text: {_cut(token)}"
            yield Fault(token.name, message, read.text.at(place))


@RULES.rule(
    "XLA106",
    "flags joined into one value",
    reason="Only blanks separate flags. What is joined by a colon, comma or semicolon is one "
    "value, which XLA refuses and dies.",
    remedy="separate flags by blanks",
    source=_TOKENIZER + "; tensorflow/tensorflow issue 36247",
)
def joined_flags(w: Workload) -> Iterator[Fault]:
    """`--xla_a=0:--xla_b=1`."""
    for read, token, kind, place, refused in _swallowing(w):
        if kind == "joined" and refused:
            message = f"the value is all of {_cut(token)}"
            yield Fault(token.name, message, read.text.at(place), _separated(token))
    yield from _joined_to_the_unknown(w)


def _joined_to_the_unknown(w: Workload) -> Iterator[Fault]:
    """`$XLA_FLAGS:--xla_b=1`: part of the last flag before, or a file name when none is."""
    if w.flags is None:
        return
    text = w.flags.text
    for glue in _GLUE:
        at = text.find(f"{MARK}{glue}--")
        while at >= 0:
            if at and text[at - 1] not in _BLANKS:  # in a word that begins with a known flag
                at = text.find(f"{MARK}{glue}--", at + 1)
                continue
            end = next((i for i in range(at, len(text)) if text[i] in _BLANKS), len(text))
            joined = shown(text[at + 1 : end])
            message = f"{joined} is glued to what stands before it, so it is no flag of its own"
            hint = f"put a blank in place of {glue!r} before each --"
            yield Fault("XLA_FLAGS", message, w.flags.at(at + 1), hint)
            at = text.find(f"{MARK}{glue}--", at + 1)


def _cut(token: FlagToken) -> str:
    return shown((token.value or "").replace(MARK, "…"))


def _separated(token: FlagToken) -> str:
    """Return the advice to put a blank in front of each flag that is part of a value."""
    position = (token.value or "").find("--xla_")
    between = (token.value or "")[:position][-1:]
    glue = f" in place of {between!r}" if between in _GLUE else ""
    return f"put a blank{glue} before each --"


@RULES.rule(
    "XLA113",
    "flags lost inside a value",
    reason="A flag that takes any text swallows what follows: the flags inside never count, "
    "and XLA says nothing.",
    remedy="close the quote, and separate flags by blanks",
    source=_TOKENIZER,
    stage="silent",
)
def swallowed(w: Workload) -> Iterator[Fault]:
    """An open quote or a glued flag on a flag that takes any text."""
    for read, token, kind, place, refused in _swallowing(w):
        if not refused and "--xla_" in (token.value or ""):
            message = f"the value is all of {_cut(token)}"
            hint = _separated(token) if kind == "joined" else "close the quote"
            yield Fault(token.name, message, read.text.at(place), hint)


@RULES.rule(
    "XLA114",
    "quote that is never closed at the end of the text",
    reason="It does no harm where it stands, but takes in whatever is added to the text.",
    remedy="close the quote, or leave quotes out",
    source=_TOKENIZER,
    severity="warning",
    stage="silent",
)
def harmless_quote(w: Workload) -> Iterator[Fault]:
    """An open quote that takes in no flag."""
    for read, token, kind, place, refused in _swallowing(w):
        if kind == "quote" and not refused and "--xla_" not in (token.value or ""):
            yield Fault(token.name, f"the value is {_cut(token)}", read.text.at(place))
