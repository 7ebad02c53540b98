"""The small language in which combinations of flags, variables and keys are written down.

A condition is a line of terms joined by " or "; a combination holds when all its conditions
do. A term names one thing and compares it:

    flag NAME OP [VALUE]      an XLA flag as it counts, the release's default included
    said NAME [OP VALUE]      an XLA flag somebody sets
    var NAME OP [VALUE]       an environment variable
    key NAME OP [VALUE]       a MaxText key as it counts, or what MaxText derives by that name
    layout NAME OP VALUE      nodes, processes_per_node, gpus_per_process, ...
    hardware NAME OP VALUE    architecture, domain_gpus, gpus_per_node, ...
    jaxlib OP RELEASE         the release that judges
    said XLA_FLAGS has STATE  the text as a whole, see `View.text`
    word OP TEXT              a program the job's process runs under, or the module it is

NAME may be several names joined by |: the first that is set counts. OP is one of is, not, in,
ge, gt, le, lt, has, lacks, on, off, set, unset, indivisible (by), unseen (no file says it),
unknown (said by nobody, or left to the moment the job runs). What is not known makes a term
unknown, and a combination with an unknown condition does not hold: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from moectl.rules.xla_reading import (
    EffectiveFlags,
    Reading,
    effective_flags,
    judges,
    named_image,
    reading,
)
from moectl.values import Origin, Value
from moectl.workload import MARK, UNKNOWN, Step, Text, Workload

FIELD: Final = "XLA_FLAGS"

# Texts that its reader takes for true or false: jax.config, XLA's flags and 0 or 1.
TRUE_WORDS: Final = frozenset({"true", "1", "yes", "y", "on", "t"})
_OFF: Final = frozenset({"false", "0", "no", "n", "off", "f"})
# A file of these kinds shows all variables of the processes; others may leave some to the shell.
_TELLS_VARIABLES: Final = frozenset({"run file", "script", "manifest", "variables"})


@dataclass
class View:
    """What conditions look at in one workload; each part is worked out when first asked for."""

    workload: Workload

    @cached_property
    def read(self) -> Reading | None:
        """The flags as read."""
        return reading(self.workload)

    @cached_property
    def flags(self) -> EffectiveFlags:
        """The flags as they count."""
        return effective_flags(self.workload)

    @cached_property
    def said(self) -> Mapping[str, Any]:
        """The flags that the text sets, name to text or UNKNOWN; the image's own are left out."""
        if self.read is None:
            return {}
        names = {token.name.partition(MARK)[0] for token in self.read.kept}
        return {name: value for name, value in self.flags.values.items() if name in names}

    @cached_property
    def text(self) -> str:
        """What holds for the text of XLA_FLAGS as a whole, separated by commas.

        FILLED (it or the image's own is not empty), EMPTY (said, with nothing in it), PARTIAL
        (a word of it is known only when the job runs), REPLACED (the image's flags are lost).
        """
        image = self.workload.image
        baked = {} if image is None else image.baked_flags
        if self.read is None:
            return "FILLED" if baked and named_image(self.workload) else ""
        text = self.read.text.text
        found = ["FILLED" if text else "EMPTY"] if not self.read.open else []
        if any(self.read.partial(token) for token in self.read.kept):
            found.append("PARTIAL")
        lost = set(baked) - set(self.flags.values)
        if text and not self.read.open and named_image(self.workload) and lost:
            found.append("REPLACED")
        return ",".join(found)

    @cached_property
    def words(self) -> frozenset[str]:
        """The programs that the job's process runs under, and the module it is."""
        step = self.workload.step
        if step is None:
            return frozenset()
        from moectl.settings.shell import maxtext_commands  # noqa: PLC0415 - it is there by now

        started = list(maxtext_commands(step))
        if not started:
            return frozenset(_programs(step))
        own = (start for start in started if start.origin == self.workload.origin)
        start = next(own, started[0])
        return frozenset((start.module, *start.through))

    @property
    def tells_variables(self) -> bool:
        """Whether a variable that is not seen is not set."""
        w = self.workload
        return w.kind in _TELLS_VARIABLES or w.batch is not None

    def value(self, kind: str, name: str) -> Any:
        """Return what a term compares: a value, UNKNOWN, or None when nobody sets it."""
        for single in name.split("|"):
            found = _LOOKUPS[kind](self, single)
            if found is not None:
                return found
        return None

    def place(self, name: str) -> Origin | None:
        """Return where a flag, variable or key is said, or None when it is not."""
        if self.read is not None:
            for token in reversed(self.read.kept):
                if token.name == name:
                    return self.read.text.at(token.offset)
        if name == FIELD and self.read is not None:
            return self.read.text.origin
        if name in self.workload.environment:
            return self.workload.environment[name].origin
        said = self.workload.said(name)
        return None if said is None else said.origin


def _programs(step: Step) -> Iterator[str]:
    """Yield the programs of a command that starts something else than MaxText."""
    from moectl.settings.shell import unwrapped  # noqa: PLC0415 - it is there by now

    yield from (step.program, *step.through, *unwrapped(step.words, {}).through)
    for inner in step.inside:
        yield from _programs(inner)


def _flag(view: View, name: str) -> Any:
    return view.flags.text(name)


def _said(view: View, name: str) -> Any:
    if name == FIELD:
        return view.text
    if name in view.said:
        return view.said[name]
    # Somebody may set it where nobody looked, or in a piece that is not known.
    hidden = view.flags.open if view.read is not None else not view.flags.told
    return UNKNOWN if hidden else None


def _variable(view: View, name: str) -> Any:
    text = view.workload.environment.get(name)
    if text is None:
        return None if view.tells_variables else UNKNOWN
    return _text(text)


def _text(text: Text) -> Any:
    return text.text if text.known else UNKNOWN


def _key(view: View, name: str) -> Any:
    if not view.workload.is_maxtext:
        return UNKNOWN
    return view.workload.value(name)


def _layout(view: View, name: str) -> Any:
    found: Value | None = getattr(view.workload.layout, name)
    return UNKNOWN if found is None else found.value


def _hardware(view: View, name: str) -> Any:
    return UNKNOWN if view.workload.hardware is None else getattr(view.workload.hardware, name)


_LOOKUPS: Final[Mapping[str, Callable[[View, str], Any]]] = {
    "flag": _flag,
    "said": _said,
    "var": _variable,
    "key": _key,
    "layout": _layout,
    "hardware": _hardware,
}


def holds(condition: str, view: View) -> bool | None:
    """Return whether a condition holds; None when that cannot be told.

    Raises:
        ValueError: the condition is not written in this language.
    """
    answers = [_term(term.split(), view) for term in condition.split(" or ")]
    if any(answers):
        return True
    return None if None in answers else False


def _term(words: list[str], view: View) -> bool | None:
    kind, rest = words[0], words[1:]
    if kind == "jaxlib":
        return _compare(_release(judges(view.workload).first.release), rest[0], _release(rest[1]))
    if kind == "word":
        return _word(rest[0], " ".join(rest[1:]), view)
    name, operation = rest[0], rest[1] if len(rest) > 1 else "set"
    operand = " ".join(rest[2:])
    value = view.value(kind, name)
    if operation == "unknown":
        return value is UNKNOWN
    if operation == "unseen":
        return view.place(name) is None
    if operation in {"set", "unset"}:
        if kind == "var" and any(n in view.workload.environment for n in name.split("|")):
            return operation == "set"
        if value is UNKNOWN:
            return None
        return (value is not None and value != "") == (operation == "set")
    if value is UNKNOWN:
        return None
    if value is None:
        return False if operation in {"on", "off", "is", "has", "in"} else None
    return _compare(value, operation, operand)


def _word(operation: str, text: str, view: View) -> bool | None:
    if view.workload.step is None:
        return None
    return (text in view.words) == (operation == "is")


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _compare(value: Any, operation: str, operand: Any) -> bool | None:
    """Compare a known value; None when it is no number and should be one."""
    if operation in _ORDERS:
        return _ordered(value, operation, operand)
    if operation == "indivisible":
        number = _number(value)
        return None if number is None else number % float(operand) != 0
    text = str(value).lower() if isinstance(value, bool) else str(value)
    match operation:
        case "on":
            return text.lower() in TRUE_WORDS
        case "off":
            return text.lower() in _OFF
        case "is":
            return bool(text.lower() == operand.lower())
        case "not":
            return bool(text.lower() != operand.lower())
        case "in":
            return text.lower() in operand.lower().split(",")
        case "has" | "lacks":
            parts = [part.strip() for part in text.upper().replace("|", ",").split(",")]
            return (operand.upper() in parts) == (operation == "has")
        case _:
            raise ValueError(f"unknown comparison {operation}")


_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "ge": lambda one, other: one >= other,
    "gt": lambda one, other: one > other,
    "le": lambda one, other: one <= other,
    "lt": lambda one, other: one < other,
}


def _ordered(value: Any, operation: str, operand: Any) -> bool | None:
    if not isinstance(operand, tuple):
        value, operand = _number(value), _number(operand)
    if value is None or operand is None:
        return None
    return bool(_ORDERS[operation](value, operand))


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
