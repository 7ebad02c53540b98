"""Names and values of XLA flags, against the catalogue of the release that will read them.

An image whose date lies between two catalogued releases may hold either of them, so a flag is
an error there only when both refuse it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from moectl.errors import shown
from moectl.facts import xla
from moectl.facts.xla_lore import gone, likely, meant_pass, sane_range, suggestions
from moectl.findings import Severity
from moectl.rules.rule import Fault, rules
from moectl.rules.xla_reading import Judges, Reading, judges, reading
from moectl.workload import MARK, Workload
from moectl.xla_text import FlagToken

if TYPE_CHECKING:
    from moectl.facts.xla import XlaCatalogue

RULES = rules()
_PARSERS: Final = "parsers of jaxlib 0.8.3, 0.10.2, 0.11.2 and 0.12.0.1 (flag catalogues)"
_SEPARATORS: Final = "-:."  # typed for the = between a name and its value


@dataclass(frozen=True, slots=True)
class _Refusal:
    """One flag of the text that a release refuses.

    Attributes:
        token: the flag.
        kind: "unknown", "gone", "newer", "bare", "unit", "kinds", "mixed" or "value".
        clause: what is wrong, as the catalogue says it.
        severity: warning when another release that may be meant takes it.
        release: the release that refuses it.
        doubt: why the severity is a warning.
        catalogue: that of `release`.
    """

    token: FlagToken
    kind: str
    clause: str
    severity: Severity
    doubt: str
    catalogue: XlaCatalogue

    @property
    def release(self) -> str:
        """The release that refuses it."""
        return self.catalogue.release


def _refusals(w: Workload, *kinds: str) -> Iterator[tuple[Reading, _Refusal]]:
    read = reading(w)
    if read is None:
        return
    for refusal in _all_refusals(read, judges(w)):
        if refusal.kind in kinds:
            yield read, refusal


@lru_cache(maxsize=64)
def _cached(tokens: tuple[FlagToken, ...], releases: tuple[str, ...]) -> tuple[_Refusal, ...]:
    catalogues = [xla.load(release) for release in releases]
    found = (_refusal(token, catalogues) for token in tokens)
    return tuple(refusal for refusal in found if refusal is not None)


def _all_refusals(read: Reading, chosen: Judges) -> tuple[_Refusal, ...]:
    handled = {fault.offset for fault in read.parsed.faults if fault.fatal}
    swallowing = {f.offset for f in read.parsed.faults if f.kind == "swallowed"}
    quotes = [f.offset for f in read.parsed.faults if f.kind == "quote"]
    tokens = tuple(
        token
        for token in read.kept
        if token.offset not in handled
        and token.offset not in swallowing
        and not any(token.offset < place < token.offset + len(token.source) for place in quotes)
    )
    # A flag that swallows others is judged by its name here, and by its value elsewhere.
    named = tuple(
        FlagToken(token.name, MARK, token.offset, f"{token.source}{MARK}")
        for token in read.kept
        if token not in tokens and token.offset not in handled
    )
    return _cached((*tokens, *named), tuple(c.release for c in chosen.catalogues))


def _refusal(token: FlagToken, catalogues: list[XlaCatalogue]) -> _Refusal | None:
    judged = [(catalogue, _fault(catalogue, token)) for catalogue in catalogues]
    refused = [(catalogue, clause) for catalogue, clause in judged if clause is not None]
    if not refused:
        return None
    catalogue, clause = refused[0]
    severity: Severity = "error" if len(refused) == len(judged) else "warning"
    takes = next((c.release for c, said in judged if said is None), "")
    doubt = f"jaxlib {takes} takes it" if takes else ""
    kind = _kind(token, catalogue, takes)
    return _Refusal(token, kind, clause, severity, doubt, catalogue)


def _fault(catalogue: XlaCatalogue, token: FlagToken) -> str | None:
    """Return why a release refuses a flag; the name alone counts where the value is open."""
    name = token.name.partition(MARK)[0]
    if name != token.name:
        return None
    flag = catalogue.flag(name)
    if flag is None:
        return f"is unknown to jaxlib {catalogue.release}"
    if MARK in token.source:
        return None
    if token.value is None:
        return None if flag.parser_type == "bool" else "needs a value"
    return flag.fault(token.value, catalogue.release)


def _kind(token: FlagToken, catalogue: XlaCatalogue, takes: str) -> str:
    flag = catalogue.flag(token.name)
    if flag is None:
        known = (takes,) if takes else xla.in_releases(token.name)
        if gone(token.name) or (known and _before(known[-1], catalogue.release)):
            return "gone"
        return "newer" if known else "unknown"
    if token.value is None:
        return "bare"
    if flag.parser_type in {"int32", "int64"} and token.value[:1].isdigit():
        return "unit"
    if flag.list_of == "kinds" or flag.accepts:
        items = [item for item in token.value.split(",") if item]
        signed = [item for item in items if flag.edits and item[:1] in {"+", "-"}]
        return "mixed" if signed and len(signed) < len(items) else "kinds"
    return "value"


def _before(one: str, other: str) -> bool:
    known = xla.releases()
    return known.index(one) < known.index(other) if other in known else False


def _fault_at(
    w: Workload,
    read: Reading,
    refusal: _Refusal,
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
    for read, refusal in _refusals(w, "unknown"):
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
    for read, refusal in _refusals(w, "gone"):
        token = refusal.token
        row = gone(token.name)
        known = xla.in_releases(token.name)
        last = known[-1] if known else (row.last if row else "")
        since = f"; jaxlib {last} was the last to know it" if last else ", nor does any catalogued"
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
    for read, refusal in _refusals(w, "newer"):
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
    for read, refusal in _refusals(w, kind):
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


def _repaired_value(refusal: _Refusal) -> str | None:
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
    for read, refusal in _refusals(w, "bare"):
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
    for read, refusal in _refusals(w, "unit"):
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


@RULES.rule(
    "XLA208",
    "number that cannot be meant",
    reason="XLA checks hardly any number: it takes a negative size or a percentage above 100, "
    "and does something else than was meant.",
    remedy="write a number in the range that the message names",
    source=f"{_PARSERS}; openxla/xla xla/xla.proto",
    severity="warning",
    stage="silent",
)
def absurd(w: Workload) -> Iterator[Fault]:
    """A number outside the range that makes sense."""
    read = reading(w)
    if read is None:
        return
    for token in read.kept:
        value = token.value or ""
        legal = sane_range(token.name)
        if legal is None or read.partial(token) or _fault(judges(w).first, token) is not None:
            continue
        if not legal.low <= int(value) <= legal.high:
            message = (
                f"--{token.name}={value} is outside {legal.low} to {legal.high}: {legal.meaning}"
            )
            yield Fault(token.name, message, read.text.at(token.offset))


@RULES.rule(
    "XLA209",
    "HLO pass that is probably misspelt",
    reason="Names of passes are compared letter by letter and never checked: a wrong one "
    "disables nothing.",
    remedy="write the name as XLA has it",
    source="tried with jaxlib 0.10.2 and 0.12.0.1; jax/_src/compiler.py of jax 0.12.0.1",
    severity="warning",
    stage="silent",
)
def misspelt_pass(w: Workload) -> Iterator[Fault]:
    """A pass name near a known one."""
    read = reading(w)
    if read is None:
        return
    for token in read.kept:
        flag = judges(w).first.flag(token.name)
        if flag is None or flag.list_of != "text" or read.partial(token):
            continue
        if not flag.name.endswith("hlo_passes") or token.value is None:
            continue
        for item in token.value.split(","):
            if meant := meant_pass(item.partition(":")[0].strip()):
                message = f"no pass is called {shown(item)}, so it disables nothing"
                yield Fault(flag.name, message, read.text.at(token.offset), f"write {meant}")


@RULES.rule(
    "XLA210",
    "switch that stands for a choice",
    reason="The old switch still parses, but writes another flag: true is on, and false is the "
    "default of that flag, not off.",
    remedy="use the flag it writes",
    source="effective values read back from jaxlib 0.11.2 and 0.12.0.1; openxla/xla "
    "docs/effort_levels.md",
    severity="note",
    stage="silent",
)
def alias(w: Workload) -> Iterator[Fault]:
    """A switch whose value lands in a flag with more than two choices."""
    read = reading(w)
    if read is None:
        return
    catalogue = judges(w).first
    for token in read.kept:
        flag = catalogue.flag(token.name)
        if flag is None or flag.parser_type != "bool" or read.partial(token):
            continue
        target = catalogue.flag(flag.writes) if flag.writes != flag.name else None
        if target is None or not {"on", "off"} <= set(target.accepts):
            continue
        off = token.value is not None and token.value.lower() in {"false", "0"}
        level = w.variable("JAX_OPTIMIZATION_LEVEL")
        raised = level is not None and level in {"O1", "O2", "O3"}
        state = "the default" if off else "on"
        message = f"--{flag.name} sets {target.name} to {state}"
        if off and raised:
            message += f", and JAX_OPTIMIZATION_LEVEL={level} then turns it on"
        hint = f"write --{target.name}={'off' if off else 'on'}"
        severity: Severity = "warning" if off and raised else "note"
        yield Fault(flag.name, message, read.text.at(token.offset), hint, severity)


@RULES.rule(
    "XLA212",
    "flag name that compile options do not have",
    reason="compile_xla_flags becomes compile options, which know the fields of DebugOptions and "
    "not the names that only the parser of XLA_FLAGS has: compiling stops with a message.",
    remedy="move the flag into XLA_FLAGS",
    source="MaxText 0.2.5 utils/max_utils.py:59 and trainers/pre_train/train.py:1256; tried with "
    "jax 0.10.2",
    severity="warning",
)
def compile_option(w: Workload) -> Iterator[Fault]:
    """A name in MaxText's compile_xla_flags that is no field."""
    text = w.value("compile_xla_flags") if w.is_maxtext else None
    if not isinstance(text, str) or not text.strip() or MARK in text:
        return
    catalogue = judges(w).first
    for word in text.replace("\\", " ").split():
        name = word.partition("=")[0].removeprefix("--")
        flag = catalogue.flag(name)
        if flag is not None and not flag.proto_type:
            message = f"--{name} is a name of the parser only; a compile option is refused"
            yield Fault("compile_xla_flags", message, w.where("compile_xla_flags"))
