"""One XLA flag of one release: what its parser takes, and how a value is best written.

What is decided here comes from the columns of the catalogue; the judges below know only the
parser's types (tsl/util/command_line_flags.cc), which are the same in every release catalogued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from moectl.resources import fact
from moectl.xla_text import FlagValue, value_text

UNKNOWN_DEFAULT = "-"

_TRUE, _FALSE = ("true", "1"), ("false", "0")
# What the parsers of numbers and of edited lists skip at both ends (absl's ASCII blanks).
_BLANKS = " \t\r\n\f\v"
_RANGES = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}


@dataclass(frozen=True)
class XlaFlag:
    """One flag of one release.

    Attributes:
        name: the name without dashes.
        parser_type: how the parser reads its text: bool, int32, int64, float or string.
        proto_type: type of the DebugOptions field of that name; empty when there is none.
        enum_values: the value names of that field's enum.
        accepts: the texts taken for an enum, or for the items of a list of them, in canonical
            spelling; empty when the flag is no enum.
        rules: what else the parser does, see the properties; e.g. {"case": "any"}.
        raw_default: the effective value of a flag that is not given, as JSON; "-" when the
            release leaves it unset or it cannot be read back.
    """

    name: str
    parser_type: str
    raw_default: str
    proto_type: str = ""
    enum_values: tuple[str, ...] = ()
    accepts: tuple[str, ...] = ()
    rules: Mapping[str, str] = field(default_factory=dict)

    @property
    def default(self) -> object:
        """The value when the flag is not given; None when unset or unknown."""
        import json  # noqa: PLC0415 - only few callers want it

        return None if self.raw_default == UNKNOWN_DEFAULT else json.loads(self.raw_default)

    @property
    def any_case(self) -> bool:
        """Whether letter case of its enum texts does not matter."""
        return self.rules.get("case") == "any"

    @property
    def list_of(self) -> str:
        """What a comma separates: "kinds" (of an enum), "text", "map" entries, or ""."""
        return self.rules.get("list", "")

    @property
    def takes_empty(self) -> bool:
        """Whether an enum flag takes an empty text; a list does unless its rules say no."""
        return self.rules.get("empty", "yes" if self.list_of else "no") == "yes"

    @property
    def edits(self) -> bool:
        """Whether +X and -X change what was set before."""
        return self.rules.get("edits") == "yes"

    @property
    def accumulates(self) -> bool:
        """Whether a second occurrence adds to the first instead of replacing it."""
        return self.rules.get("repeat") == "append"

    @property
    def writes(self) -> str:
        """The DebugOptions field that holds its value; "" when none shows it."""
        if self.effect_unseen:
            return ""
        return self.rules.get("field", self.name if self.proto_type else "")

    @property
    def unset(self) -> bool:
        """Whether the release leaves it unset unless it is given, so that code may decide."""
        return self.rules.get("unset") == "yes"

    @property
    def effect_unseen(self) -> bool:
        """Whether no DebugOptions field changes with it: it acts elsewhere or not at all."""
        return self.rules.get("effect") == "unseen"

    @property
    def depends_on_build(self) -> bool:
        """Whether a CPU build refuses a value that a CUDA build may take."""
        return "build" in self.rules

    @cached_property
    def _spellings(self) -> dict[str, str]:
        """Text as it may be typed -> canonical text."""
        known = {text: text for text in self.accepts}
        if prefix := self.rules.get("prefix"):
            known |= {text.removeprefix(prefix): text for text in self.accepts}
        return {text.upper(): full for text, full in known.items()} if self.any_case else known

    def kind(self, text: str) -> str | None:
        """Return the canonical spelling of one enum text, or None when it is refused."""
        return self._spellings.get(text.upper() if self.any_case else text)

    def spell(self, value: FlagValue) -> str:
        """Return the canonical text of a value; a refused one comes back as `value_text` has it.

        Raises:
            ValueUsageError: the value cannot stand in XLA_FLAGS at all.
        """
        if self.list_of in {"kinds", "text"}:
            value = _items(value, self.name)
        text = value_text(value, self.name)
        if self.fault(text) is not None:
            return text
        if self.parser_type == "bool":
            return "true" if text.lower() in _TRUE else "false"
        if self.parser_type in _RANGES:
            return str(int(text))
        if self.list_of == "kinds":
            return ",".join(self._item(item) for item in _split(text))
        return (self.kind(text) or text) if self.accepts else text

    def edited(self, before: Iterable[object], text: str) -> str:
        """Return the list that +X and -X items make of the one that was in force."""
        held = [str(item) for item in before if item]
        for item in text.split(","):
            kind = self.kind(item.strip()[1:]) or item.strip()[1:]
            there = any((self.kind(other) or other) == kind for other in held)
            if item.strip()[:1] == "-":
                held = [other for other in held if (self.kind(other) or other) != kind]
            elif not there:
                held.append(kind)
        return ",".join(held)

    def fault(self, text: str, release: str = "") -> str | None:
        """Return what is wrong with a text as one clause, or None when the parser takes it."""
        if judge := _JUDGES.get(self.parser_type):
            return judge(self, text)
        if self.accepts and not text:
            return None if self.takes_empty else f"needs one of {', '.join(self.accepts)}"
        if self.list_of == "kinds":
            return self._kinds_fault(text, release)
        if self.accepts:
            return None if self.kind(text) else f"takes one of {', '.join(self.accepts)}"
        return self._shape_fault(text)

    def _item(self, item: str) -> str:
        sign = item[:1] if self.edits and item[:1] in {"+", "-"} else ""
        return sign + (self.kind(item.removeprefix(sign)) or item)

    def _kinds_fault(self, text: str, release: str) -> str | None:
        items = text.split(",")
        if self.edits:
            items = [item.strip(_BLANKS) for item in items]
        signed = [item for item in items if self.edits and item[:1] in {"+", "-"}]
        if signed and len(signed) != len(items):
            return "takes + or - in front of every kind or of none"
        if not self.takes_empty and not all(items):
            return "takes no empty item: leave out the comma at its side"
        items = [item for item in items if item]
        bad = [item for item in items if self.kind(item[1:] if signed else item) is None]
        if not bad:
            return None
        owner = f"jaxlib {release}" if release else "this release"
        return f"has no {', '.join(bad)} in {owner}; legal kinds are {', '.join(self.accepts)}"

    def _shape_fault(self, text: str) -> str | None:
        shape = _shapes().get(self.rules.get("shape", ""))
        if shape is None:
            return None
        import re  # noqa: PLC0415 - few flags have a shape

        return None if re.fullmatch(shape.pattern, text, re.ASCII) else f"takes {shape.legal}"


def _split(text: str) -> list[str]:
    """Return the items of a list of kinds as the parser sees them."""
    return [item for part in text.split(",") if (item := part.strip(_BLANKS))]


def _items(value: FlagValue, name: str) -> list[str]:
    """Split a list flag's value; blanks beside a comma are the writer's, not the flag's."""
    if isinstance(value, str) and value[:1] in {"'", '"'} and value[-1:] == value[:1]:
        value = value[1:-1]
    parts = value.split(",") if isinstance(value, str) else [value_text(value, name)]
    return [part.strip() for part in parts]


def _bool_fault(flag: XlaFlag, text: str) -> str | None:  # noqa: ARG001 - one signature for all
    return None if text.lower() in (*_TRUE, *_FALSE) else "takes true, false, 1 or 0"


def _int_fault(flag: XlaFlag, text: str) -> str | None:
    low, high = _RANGES[flag.parser_type]
    low, high = int(flag.rules.get("min", low)), int(flag.rules.get("max", high))
    text = text.strip(_BLANKS)
    digits = text[1:] if text[:1] in {"+", "-"} else text
    # Python refuses to read a text of thousands of digits as a number.
    short = digits.isascii() and digits.isdigit() and len(digits) < 100
    if short and low <= int(text) <= high:
        return None
    return f"takes a whole number from {low} to {high}, in digits and without a unit"


def _float_fault(flag: XlaFlag, text: str) -> str | None:  # noqa: ARG001 - one signature for all
    text = text.strip(_BLANKS)
    try:
        float.fromhex(text) if "x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        return "takes a number"
    return None if text.isascii() and "_" not in text else "takes a number in plain digits"


_JUDGES: Mapping[str, Callable[[XlaFlag, str], str | None]] = {
    "bool": _bool_fault,
    "float": _float_fault,
    "int32": _int_fault,
    "int64": _int_fault,
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of a text that a string flag checks.

    Attributes:
        name: its name in the rules of a flag.
        pattern: a regular expression for the whole text.
        legal: what is legal, as a phrase.
        good: texts that a flag of this shape takes.
        bad: texts that it refuses.
        source: where the form comes from.
    """

    name: str
    pattern: str
    legal: str
    good: tuple[str, ...]
    bad: tuple[str, ...]
    source: str


@cache
def _shapes() -> dict[str, Shape]:
    lines = fact("xla", "shapes.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return {
        name: Shape(name, pattern, legal, tuple(good.split(" ")), tuple(bad.split(" ")), source)
        for name, pattern, legal, good, bad, source in rows[1:]
    }


def shapes() -> tuple[Shape, ...]:
    """Return the forms that some string flags check their text against."""
    return tuple(_shapes().values())
