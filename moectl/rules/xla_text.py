"""How XLA_FLAGS is written: words at which XLA stops reading, quotes, dashes, repeats.

XLA says nothing of what it drops, so most of these faults show as a run that is slower or
other than it should be. `moectl.xla_text` tells what the tokenizer does; here it is judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moectl.errors import shown
from moectl.findings import Severity
from moectl.rules import xla_repeats, xla_swallowed
from moectl.rules.rule import Fault, rules
from moectl.rules.xla_reading import Reading, judges, reading
from moectl.workload import MARK, Workload
from moectl.xla_text import FlagToken

RULES = rules()
FIELD: Final = "XLA_FLAGS"
_TOKENIZER: Final = (
    "openxla/xla xla/parse_flags_from_env.cc; tried with jaxlib 0.8.3, 0.10.2, 0.11.2, 0.12.0.1"
)
# Dashes that word processors and web pages put in place of "--" (Unicode, General Punctuation).
_TYPESET_DASHES: Final = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_QUOTES: Final = "'\"`\u2018\u2019\u201c\u201d"


def _stop(w: Workload) -> tuple[Reading, FlagToken] | None:
    """Return the word at which XLA stops reading, if it certainly does."""
    read = reading(w)
    stop = None if read is None else read.parsed.stop
    return None if read is None or stop is None else (read, stop)


def _kind(w: Workload, read: Reading, stop: FlagToken) -> str:
    """Tell which of the rules about stray words a word belongs to."""
    word = stop.source
    if word[:1] in _QUOTES:
        return "quote"
    if word.startswith("#"):
        return "comment"
    if word == "\\":
        return "backslash"
    if word[:1] in _TYPESET_DASHES:
        return "dash"
    return "list" if _belongs_to_list(w, read, stop) else "stray"


def _belongs_to_list(w: Workload, read: Reading, stop: FlagToken) -> bool:
    """Whether the word was meant as a further item of the list before it."""
    before = read.kept[-1] if read.kept else None
    if before is None or before.value is None or read.partial(before):
        return False
    flag = judges(w).first.flag(before.name)
    if before.value.endswith(",") or stop.source.startswith(","):
        return True
    if flag is None or flag.list_of != "kinds":
        return False
    items = [item.lstrip("+-") for item in stop.source.split(",") if item]
    return bool(items) and any(flag.kind(item) is not None for item in items)


def _lost(read: Reading) -> tuple[str, Severity]:
    """Say what is lost after the word at which XLA stops, and how bad that is."""
    dropped = read.parsed.dropped
    if not dropped:
        return "no flag follows it", "warning"
    names = ", ".join(f"--{token.name}" for token in dropped[:4])
    more = f" and {len(dropped) - 4} more" if len(dropped) > 4 else ""
    plural = "" if len(dropped) == 1 else "s"
    return f"{len(dropped)} flag{plural} after it never count{'' if plural else 's'}: " + (
        names + more
    ), "error"


def _stray(w: Workload, kind: str, words: str, hint: str = "") -> Iterator[Fault]:
    if (found := _stop(w)) is None:
        return
    read, stop = found
    if _kind(w, read, stop) != kind:
        return
    lost, severity = _lost(read)
    message = f"XLA stops reading at {shown(stop.source.replace(MARK, '…'))}, {words}; {lost}"
    yield Fault(FIELD, message, read.text.at(stop.offset), hint, severity)


@RULES.rule(
    "XLA101",
    "stray word in XLA_FLAGS",
    reason="XLA reads flags up to the first word without a dash and drops the rest in silence, "
    "with exit code 0.",
    remedy="remove the word, or put -- in front of it and = before its value",
    source=_TOKENIZER,
    stage="silent",
)
def stray_word(w: Workload) -> Iterator[Fault]:
    """A word that is no flag."""
    yield from _stray(w, "stray", "which does not begin with a dash", _stray_hint(w))


def _stray_hint(w: Workload) -> str:
    if (found := _stop(w)) is None:
        return ""
    read, stop = found
    catalogue = judges(w).first
    before = read.kept[-1] if read.kept else None
    if before is not None and before.value is None and not read.partial(before):
        flag = catalogue.flag(before.name)
        if flag is not None and flag.fault(stop.source) is None:
            return f"write --{before.name}={stop.source}: a value is joined by =, not a blank"
    if stop.source.partition("=")[0] in catalogue:
        return f"write --{stop.source}"
    return ""


@RULES.rule(
    "XLA102",
    "list cut by a blank",
    reason="A blank ends the value, so the rest of the list is a stray word: it is lost, and "
    "every flag after it too. Up to jaxlib 0.6.2 a comma before the blank was fatal.",
    remedy="join the items by commas without blanks",
    source=_TOKENIZER,
    stage="silent",
)
def list_cut(w: Workload) -> Iterator[Fault]:
    """`--xla_gpu_enable_command_buffer=FUSION, CUBLAS`, or commas turned into blanks."""
    if (found := _stop(w)) is None:
        return
    read, _ = found
    if not read.kept:
        return
    before = read.kept[-1]
    value = (before.value or "").rstrip(",")
    words = f"so --{before.name} is {shown(value)} alone"
    tail = read.text.text[before.offset + len(before.source) :]
    items = _following_items(w, before, tail)
    joined = ",".join(filter(None, (value, *items)))
    yield from _stray(w, "list", words, f"write --{before.name}={joined}")


def _following_items(w: Workload, before: FlagToken, tail: str) -> list[str]:
    """Return the words up to the next flag that the list would take."""
    flag = judges(w).first.flag(before.name)
    items: list[str] = []
    for word in tail.split():
        parts = [part for part in word.split(",") if part]
        if word.startswith("-") or (
            flag is not None and flag.list_of == "kinds" and not all(map(flag.kind, parts))
        ):
            break
        items += parts
    return items


@RULES.rule(
    "XLA103",
    "XLA_FLAGS is taken as a file name",
    reason="A text that does not begin with a dash names a file of flags; XLA dies when it "
    "cannot be opened, also when a blank stands in front of the name.",
    remedy="begin the text with the dashes of the first flag",
    source=_TOKENIZER,
)
def file_name(w: Workload) -> Iterator[Fault]:
    """A text whose first character is no dash."""
    read = reading(w)
    if read is None or read.parsed.file is None:
        return
    text = read.parsed.file
    first = text.lstrip(" \t\r\n")
    if (first[:1] in _QUOTES and first) or (first[:1] in _TYPESET_DASHES and first):
        return
    offset = len(text) - len(first) if first else 0
    origin = read.text.at(offset)
    if not first:
        message = "the text is blank, which XLA takes as the name of a file and dies"
        yield Fault(FIELD, message, origin, "write XLA_FLAGS= with nothing after it, or unset it")
    elif offset:
        message = f"the text begins with a blank and no dash ({shown(first)}), so XLA dies of it"
        yield Fault(FIELD, message, origin)
    elif _is_path(first):
        message = f"the flags are read from the file {shown(first)}, which is not judged here"
        hint = "XLA dies when it is not there; put the flags themselves into the variable"
        yield Fault(FIELD, message, origin, hint, "note")
    else:
        message = f"the text does not begin with a dash, so XLA looks for a file {shown(first)}"
        name = first.partition("=")[0]
        hint = f"write --{first}" if name in judges(w).first else ""
        yield Fault(FIELD, message, origin, hint)


def _is_path(text: str) -> bool:
    blank = any(character in " \t\r\n=" for character in text)
    return not blank and "--" not in text and ("/" in text or "." in text)


@RULES.rule(
    "XLA104",
    "comment inside XLA_FLAGS",
    reason="XLA knows no comments, neither in the variable nor in a file of flags: it stops at "
    "the # and drops the flags after it in silence.",
    remedy="move the comment out of the text",
    source=_TOKENIZER,
    stage="silent",
)
def comment(w: Workload) -> Iterator[Fault]:
    """A word that begins with #."""
    yield from _stray(w, "comment", "which is no comment to it")


@RULES.rule(
    "XLA107",
    "quote in front of a flag",
    reason="Quotes count only right after =. In front of the first flag one makes the whole "
    "text a file name, and XLA dies; further on XLA stops there in silence.",
    remedy="remove the quotes around the flag",
    source=_TOKENIZER,
    stage="silent",
)
def quoted_flag(w: Workload) -> Iterator[Fault]:
    """`'--xla_a=1'` with the quotes as part of the text."""
    read = reading(w)
    if read is None:
        return
    first = (read.parsed.file or "").lstrip(" \t\r\n")
    if first and first[0] in _QUOTES:
        message = f"the text begins with a quote, so XLA looks for a file {shown(first)}"
        offset = len(read.parsed.file or "") - len(first)
        yield Fault(FIELD, message, read.text.at(offset))
    yield from _stray(w, "quote", "which begins with a quote")


@RULES.rule(
    "XLA108",
    "flag without exactly two dashes",
    reason="XLA reports a flag with one or three dashes as unknown and dies. A dash from a word "
    "processor is no dash at all: XLA stops there, or takes the text as a file name.",
    remedy="write two plain dashes",
    source=_TOKENIZER,
)
def dashes(w: Workload) -> Iterator[Fault]:
    """`-xla_a=1`, `---xla_a=1`, or a typeset dash."""
    read = reading(w)
    if read is None:
        return
    first = (read.parsed.file or "").lstrip(" \t\r\n")
    if first and first[0] in _TYPESET_DASHES:
        offset = len(read.parsed.file or "") - len(first)
        message = f"the text begins with the character {first[0]!a}, which only looks like a dash"
        yield Fault(FIELD, message, read.text.at(offset), _plain(first.split()[0]))
    if (found := _stop(w)) is not None and _kind(w, *found) == "dash":
        word = found[1].source
        words = f"whose {word[0]!a} only looks like a dash"
        yield from _stray(w, "dash", words, _plain(word))
    for fault in read.faults("dashes"):
        token = next(token for token in read.kept if token.offset == fault.offset)
        bare = token.source.lstrip("-")
        if not bare:
            yield Fault(FIELD, f"{token.source!r} is no flag", read.text.at(fault.offset))
            continue
        good = judges(w).first.check(bare.partition("=")[0], _value(bare)) is None
        fix = (token.source, f"--{bare}") if good and not read.partial(token) else None
        message = f"XLA does not know {shown(token.source.replace(MARK, '…'))}"
        hint = f"write --{bare}".replace(MARK, "…")
        yield Fault(token.name.strip("-"), message, read.text.at(fault.offset), hint, fix=fix)


def _value(bare: str) -> str | None:
    return bare.partition("=")[2] if "=" in bare else None


def _plain(word: str) -> str:
    return f"write --{word.lstrip(_TYPESET_DASHES + '-')}".replace(MARK, "…")


@RULES.rule(
    "XLA109",
    "two dashes alone",
    reason="A bare -- makes XLA report everything after it as unknown, and die.",
    remedy="remove it",
    source=_TOKENIZER,
)
def separator(w: Workload) -> Iterator[Fault]:
    """A word that is -- and nothing else."""
    if (read := reading(w)) is not None:
        for fault in read.faults("separator"):
            message = "-- stands alone; XLA dies of what follows"
            yield Fault(FIELD, message, read.text.at(fault.offset))


@RULES.rule(
    "XLA110",
    "backslash inside XLA_FLAGS",
    reason="In single quotes, in YAML and in a file of flags a backslash at the end of a line "
    "is an ordinary character: XLA stops there and drops the flags after it in silence.",
    remedy="remove the backslash: a line break separates flags as well as a blank",
    source=_TOKENIZER,
    stage="silent",
)
def backslash(w: Workload) -> Iterator[Fault]:
    r"""A word that is \ and nothing else."""
    yield from _stray(w, "backslash", "which continues no line here")


RULES.all.extend(xla_swallowed.RULES.all)
RULES.all.extend(xla_repeats.RULES.all)
