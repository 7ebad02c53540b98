"""Names and values of XLA flags, against the catalogue of the release that will read them.

An image whose date lies between two catalogued releases may hold either of them, so a flag is
an error there only when both refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from moectl.errors import shown
from moectl.facts import xla
from moectl.facts.xla_lore import gone, likely, suggestions
from moectl.rules import xla_meaning
from moectl.rules.rule import Fault, rules
from moectl.rules.xla_reading import Reading, judges
from moectl.rules.xla_refusals import Refusal, refusals
from moectl.workload import MARK, Workload
from moectl.xla_text import FlagToken

if TYPE_CHECKING:
    from moectl.facts.xla import XlaCatalogue

RULES = rules()
_PARSERS: Final = "parsers of jaxlib 0.8.3, 0.10.2, 0.11.2 and 0.12.0.1 (flag catalogues)"
_SEPARATORS: Final = "-:."  # typed for the = between a name and its value


def _fault_at(
    w: Workload,
    read: Reading,
    refusal: Refusal,
    message: str,
    hint: str,
    fix: tuple[str, str] | None = None,
) -> Fault:
    if refusal.severity == "warning":
        why = judges(w).why
        message = f"{message}; {refusal.doubt}" + (f", and {why}" if why else "")
    origin = read.text.at(refusal.token.offset)
    name = refusal.token.name[:200]
    return Fault(name, message, origin, hint, refusal.severity, fix)


@RULES.rule(
    "XLA201",
    "unknown XLA flag",
    reason="The process dies when the backend starts, on every rank, after queue, image pull "
    "and import; import jax alone does not show it. The parser lists all unknown names at once, "
    "but only when no value is bad.",
    remedy="use the right name, or delete the flag; moectl explain FLAG tells the nearest ones",
    source=f"{_PARSERS}; openxla/xla xla/parse_flags_from_env.cc",
)
def unknown(w: Workload) -> Iterator[Fault]:
    """A name that is in no catalogued release."""
    for read, refusal in refusals(w, "unknown"):
        token, catalogue = refusal.token, refusal.catalogue
        message = f"no catalogued release knows --{shown(token.name)[1:-1]}"
        if repaired := _repaired(catalogue, token):
            fix = (token.source, repaired)
            yield _fault_at(w, read, refusal, message, f"write {repaired}", fix)
            continue
        near = suggestions(token.name, catalogue.names())
        hint = f"did you mean {' or '.join(f'--{name}' for name in near)}?" if near else ""
        yield _fault_at(w, read, refusal, message, hint)


def _repaired(catalogue: XlaCatalogue, token: FlagToken) -> str | None:
    """Return the flag that was certainly meant: another separator, dashes for underscores."""
    name, value = token.name, token.value
    if MARK in token.source:
        return None
    if value is None:
        for index, character in enumerate(name):
            if character in _SEPARATORS and (flag := catalogue.flag(name[:index])) is not None:
                rest = name[index + 1 :]
                return f"--{flag.name}={rest}" if rest and flag.fault(rest) is None else None
    found = likely(name, catalogue.names())
    flag = catalogue.flag(found) if found else None
    if flag is None or (value is None and flag.parser_type != "bool"):
        return None
    if value is not None and flag.fault(value) is not None:
        return None
    return f"--{flag.name}" + ("" if value is None else f"={value}")


@RULES.rule(
    "XLA202",
    "XLA flag that went away",
    reason="Pages and scripts outlive the flags they name. The process dies of a flag that the "
    "release no longer has, when the backend starts.",
    remedy="delete the flag, or use its successor",
    source=f"{_PARSERS}; parsers of jaxlib 0.4.31 to 0.7.2",
)
def went_away(w: Workload) -> Iterator[Fault]:
    """A name that only older releases know, or that belongs to another machine."""
    for read, refusal in refusals(w, "gone"):
        token = refusal.token
        row = gone(token.name)
        known = xla.in_releases(token.name)
        last = known[-1] if known else (row.last if row else "")
        nobody = ", nor does any catalogued release"
        since = f"; jaxlib {last} was the last to know it" if last else nobody
        message = f"jaxlib {refusal.release} does not know --{token.name}{since}"
        yield _fault_at(w, read, refusal, message, row.advice if row else "delete it")


@RULES.rule(
    "XLA211",
    "XLA flag of a newer release",
    reason="The process dies of a flag that the release does not have yet, when the backend "
    "starts.",
    remedy="take a newer image, or delete the flag",
    source=_PARSERS,
)
def newer(w: Workload) -> Iterator[Fault]:
    """A name that only newer releases know."""
    for read, refusal in refusals(w, "newer"):
        first = next(iter(xla.in_releases(refusal.token.name)), "")
        message = f"jaxlib {refusal.release} does not know --{refusal.token.name}"
        hint = f"it came after {refusal.release}; jaxlib {first} is the first catalogued with it"
        yield _fault_at(w, read, refusal, message, hint)


@RULES.rule(
    "XLA203",
    "value that XLA refuses",
    reason="The process dies when the backend starts, with a line that names the flag and then "
    "a page of usage; the line is hidden by TF_CPP_MIN_LOG_LEVEL=3.",
    remedy="write a value that the flag takes",
    source=f"{_PARSERS}; openxla/xla tsl/util/command_line_flags.cc",
)
def bad_value(w: Workload) -> Iterator[Fault]:
    """A text that is no value of the flag's type."""
    yield from _bad_values(w, "value")


def _bad_values(w: Workload, kind: str, hint: str = "") -> Iterator[Fault]:
    for read, refusal in refusals(w, kind):
        value = shown(refusal.token.value)
        clause = refusal.clause
        takes = clause.startswith("takes ")
        message = f"{clause}, not {value}" if takes else clause
        advice = hint
        fix = None
        if not hint and (repaired := _repaired_value(refusal)):
            fix = (refusal.token.source, repaired)
            advice = f"write {repaired}"
        release = f"jaxlib {refusal.release}"
        where = "" if release in message else f" in {release}"
        text = f"--{refusal.token.name} {message}{where}"
        yield _fault_at(w, read, refusal, text, advice, fix)


_SWITCH_WORDS: Final = {
    "yes": "true", "on": "true", "enable": "true", "enabled": "true", "y": "true", "t": "true",
    "no": "false", "off": "false", "disable": "false", "disabled": "false", "n": "false",
    "f": "false", "none": "false",
}  # fmt: skip


def _repaired_value(refusal: Refusal) -> str | None:
    """Return the flag as it was certainly meant: on for true, == for =, other letter case."""
    token = refusal.token
    flag = refusal.catalogue.flag(token.name)
    if flag is None or token.value is None or token.source.partition("=")[2][:1] in {"'", '"'}:
        return None
    value = token.value.removeprefix("=").rstrip(",;")
    if flag.parser_type == "bool":
        value = _SWITCH_WORDS.get(value.lower(), value.lower())
    elif flag.accepts and not flag.list_of and flag.kind(value) is None:
        folded = {text.lower(): text for text in flag.accepts}
        value = folded.get(value.lower(), value)
    good = value and value != token.value and flag.fault(value) is None
    return f"--{token.name}={value}" if good else None


@RULES.rule(
    "XLA204",
    "XLA flag without its value",
    reason="Only a switch may stand bare, and means true then; any other flag without = is "
    "reported as unknown, and the process dies.",
    remedy="write --flag=value",
    source=_PARSERS,
)
def bare(w: Workload) -> Iterator[Fault]:
    """A number, text or list flag without `=value`."""
    for read, refusal in refusals(w, "bare"):
        name = refusal.token.name
        flag = refusal.catalogue.flag(name)
        legal = f", one of {', '.join(flag.accepts)}" if flag is not None and flag.accepts else ""
        message = f"--{name} stands without a value{legal}"
        yield _fault_at(w, read, refusal, message, f"write --{name}=...")


@RULES.rule(
    "XLA205",
    "number with a unit or a fraction",
    reason="XLA reads whole numbers in decimal digits only: 1GiB, 1e9, 0x10 and 4.5 are "
    "refused, and the process dies.",
    remedy="write the number out in digits",
    source=_PARSERS,
)
def unit(w: Workload) -> Iterator[Fault]:
    """`1GiB`, `1e9`, `0x10` or `4.5` for a whole number."""
    for read, refusal in refusals(w, "unit"):
        token = refusal.token
        flag = refusal.catalogue.flag(token.name)
        number = _number(token.value or "")
        good = flag is not None and number is not None and flag.fault(str(number)) is None
        hint = f"write --{token.name}={number}" if good else ""
        message = f"--{token.name} {refusal.clause}, not {shown(token.value)}"
        yield _fault_at(w, read, refusal, message, hint)


_UNITS: Final = {
    "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
    "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40,
}  # fmt: skip


def _number(text: str) -> int | None:
    """Return the whole number that a text with a unit or an exponent means, or None."""
    word = text.lower().rstrip(",;")
    if word.startswith("0x"):
        try:
            return int(word[:32], 16)
        except ValueError:
            return None
    digits = word.rstrip("bkmgti")
    unit_word = word[len(digits) :].removesuffix("b")
    factor = _UNITS.get(unit_word, 1 if not unit_word else 0)
    try:
        value = float(digits[:40]) * factor
    except ValueError:
        return None
    whole = 0 < value < 2**63 and value == int(value)
    return int(value) if whole else None


@RULES.rule(
    "XLA206",
    "choice that the release does not have",
    reason="The choices of a flag change between releases; XLA refuses one it does not have, "
    "and the process dies.",
    remedy="write one of the choices that the message names",
    source=f"{_PARSERS}; openxla/xla xla/xla.proto",
)
def choice(w: Workload) -> Iterator[Fault]:
    """A kind of a list, or a choice, that is unknown to the release."""
    yield from _bad_values(w, "kinds")


@RULES.rule(
    "XLA207",
    "plain and edited items in one list",
    reason="+X and -X edit the list that is in force, a plain list replaces it; XLA refuses a "
    "value that does both, and the process dies.",
    remedy="give every item a + or -, or none",
    source=_PARSERS,
)
def mixed(w: Workload) -> Iterator[Fault]:
    """`FUSION,+CUBLAS`."""
    yield from _bad_values(w, "mixed", "give every item a + or -, or none")


RULES.all.extend(xla_meaning.RULES.all)
