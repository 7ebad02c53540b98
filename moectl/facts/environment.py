"""Environment variables of XLA, JAX, NCCL, Transformer Engine, CUDA and MaxText.

None of these programs checks a variable as a person would: NCCL reads "1MiB" as 1, XLA's
client takes "off" for on, and 88 is a legal memory fraction to Python. The table says what is
meant to be written; `check` says why something else would not do what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, TypeAlias

from moectl.errors import nearest, shown
from moectl.facts.environment_names import other, slip
from moectl.resources import fact

Status: TypeAlias = Literal["active", "deprecated", "ignored", "absent", "build", "unverified"]
COLUMNS = (
    "name", "owner", "type", "legal", "default", "otherwise", "status", "instead", "secret",
    "since", "says", "note", "source",
)  # fmt: skip

# Python refuses to read a text of thousands of digits as a number.
_LONGEST_NUMBER = 100
_ANY_NUMBER = "-9223372036854775808..9223372036854775807"


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable, or a family of them such as NCCL_*.

    Attributes:
        name: its name; a family has a * at one end.
        owner: who reads it: xla, jax, nccl, te, cuda, maxtext, ...
        type: bool, int, cint (as C's strtoll reads it), float, enum, pattern, regex, path,
            xla_flags or text; ":any" after it says that letter case does not matter.
        legal: true/false spellings, a range such as 1..32 or (0..1], choices, or a regular
            expression, by type.
        default: what counts when it is not set; empty when nobody says so.
        otherwise: what any other text does.
        status: active; deprecated (see `instead`); ignored (nobody reads it here); absent
            (in no release catalogued); build (read when a package is built); unverified.
        instead: the name to use in its place.
        secret: whether its value must not be written into a file.
        since: choice -> the jaxlib release that brought it.
        says: what is legal, as a phrase, where the type does not say it.
        note: what else to know.
        source: where this comes from.
    """

    name: str
    owner: str
    type: str
    legal: str
    default: str
    otherwise: str
    status: Status
    instead: str
    secret: bool
    since: Mapping[str, str] = field(default_factory=dict)
    says: str = ""
    note: str = ""
    source: str = ""

    @property
    def family(self) -> bool:
        """Whether this stands for every name with its prefix or suffix."""
        return "*" in self.name

    @property
    def kind(self) -> str:
        """The type without its case."""
        return self.type.partition(":")[0]

    @property
    def any_case(self) -> bool:
        """Whether letter case does not matter."""
        return self.type.endswith(":any")

    def text(self, value: bool | int | float | str) -> str:
        """Return the text to set for a value as typed; a bool in the variable's own words."""
        if isinstance(value, bool) and self.kind == "bool":
            return self.legal.split("/")[0 if value else 1].split(",")[0]
        if isinstance(value, bool):
            return str(int(value)) if self.kind in {"int", "cint"} else str(value).lower()
        return str(value)

    @property
    def stops(self) -> bool:
        """Whether its reader dies of a text it does not take, instead of ignoring it."""
        return self.otherwise.startswith(("is a ValueError", "is an error"))

    @property
    def share(self) -> bool:
        """Whether it is a share of a whole: more than 0 and at most 1."""
        return self.kind == "float" and self.legal == "(0..1]"

    def read_as(self, text: str) -> int | None:
        """Return what C makes of a text that is no plain number; None when it is one."""
        if self.kind != "cint":
            return None
        value, used = _strtoll(text)
        return None if used and used == len(text) else value

    def fault(self, text: str, jaxlib: str = "") -> str | None:
        """Return what is wrong with a text as one clause that begins with a verb, or None.

        Args:
            text: the value as it would stand in the environment.
            jaxlib: the release that will read it, for choices that came later.
        """
        clause = _judge(self, text)
        if clause is None and (first := self.since.get(text.lower())) and jaxlib:
            return None if _version(jaxlib) >= _version(first) else f"needs jaxlib {first}"
        if clause is not None and self.otherwise:
            clause = f"{clause}; anything else {self.otherwise}"
        return clause


@dataclass(frozen=True, slots=True)
class EnvironmentCatalogue:
    """The variables that are known.

    Attributes:
        variables: name -> variable, without the families.
        families: the prefixes and suffixes, longest first.
    """

    variables: Mapping[str, Variable]
    families: tuple[Variable, ...]

    def names(self) -> tuple[str, ...]:
        """Return the names that are known one by one, sorted."""
        return tuple(sorted(self.variables))

    def has(self, name: str) -> bool:
        """Return whether a name is known by itself, not only by its family."""
        return name in self.variables

    def exists(self, name: str) -> bool:
        """Return whether some program reads a variable of this name."""
        return name in self.variables or _other(name) is not None

    def misspelt(self, name: str) -> str | None:
        """Return the name that one which does not exist was probably meant to be, or None.

        Only names of programs whose names are all known are judged, and only a name that is
        one or two letters off; one that merely adds to a known name is somebody's own.
        """
        return None if self.exists(name) else slip(name, tuple(self.variables))

    def variable(self, name: str) -> Variable | None:
        """Return a variable, or the family its name belongs to, or None."""
        found = self.variables.get(name) or _other(name)
        return found or next((f for f in self.families if _belongs(name, f.name)), None)

    def nearest(self, name: str) -> list[str]:
        """Return up to three known names that look like `name`, best first."""
        return nearest(name, self.variables)

    def secret(self, name: str) -> bool:
        """Return whether the value of a variable must not be written into a file."""
        exact = self.variables.get(name)
        if exact is not None:
            return exact.secret
        return any(family.secret and _belongs(name, family.name) for family in self.families)

    def text(self, name: str, value: bool | int | float | str) -> str:
        """Return the text to set for a value as typed in YAML."""
        found = self.variable(name)
        if found is not None:
            return found.text(value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def check(self, name: str, text: str, jaxlib: str = "") -> str | None:
        """Say what is wrong with a variable's text, or None when it does what it says.

        Args:
            name: the variable.
            text: its value.
            jaxlib: the release that will read it, if that is known.

        Returns:
            One clause that begins with a verb, e.g. "takes a whole number of at least 1".
        """
        if "\0" in text or "\n" in text or "\r" in text:
            return "cannot hold a line break or a NUL"
        found = self.variable(name)
        return None if found is None else found.fault(text, jaxlib)


@cache
def load() -> EnvironmentCatalogue:
    """Return the catalogue of variables."""
    lines = fact("environment.tsv").read_text("utf-8").splitlines()
    assert lines[1] == "\t".join(COLUMNS)  # noqa: S101 - the file is ours
    found = [_variable(line) for line in lines[2:]]
    families = sorted((v for v in found if v.family), key=lambda v: (-len(v.name), v.name))
    return EnvironmentCatalogue({v.name: v for v in found if not v.family}, tuple(families))


def _other(name: str) -> Variable | None:
    """Return a variable of which only name and type are known, or None."""
    row = other(name)
    if row is None:
        return None
    owner, kind, source = row
    legal = _ANY_NUMBER if kind == "cint" else ""
    return Variable(name, owner, kind, legal, "", "", "active", "", False, source=source)


def _variable(line: str) -> Variable:
    cells = dict(zip(COLUMNS, line.split("\t"), strict=True))
    statuses: dict[str, Status] = {
        status: status
        for status in ("active", "deprecated", "ignored", "absent", "build", "unverified")
    }
    return Variable(
        name=cells["name"],
        owner=cells["owner"],
        type=cells["type"],
        legal=cells["legal"],
        default=cells["default"],
        otherwise=cells["otherwise"],
        status=statuses[cells["status"]],
        instead=cells["instead"],
        secret=cells["secret"] == "yes",  # noqa: S105 - a yes or no, no password
        since=dict(_pair(item) for item in cells["since"].split(" ") if item),
        says=cells["says"],
        note=cells["note"],
        source=cells["source"],
    )


def _pair(item: str) -> tuple[str, str]:
    key, _, value = item.partition("=")
    return key, value


def _belongs(name: str, family: str) -> bool:
    stem = family.strip("*")
    return name.startswith(stem) if family.endswith("*") else name.endswith(stem)


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())


def _judge(variable: Variable, text: str) -> str | None:
    judges: dict[str, Callable[[Variable, str], str | None]] = {
        "bool": _bool, "int": _int, "cint": _cint, "float": _float, "enum": _enum,
        "pattern": _pattern, "regex": _regex, "path": _path, "xla_flags": _xla_flags,
    }  # fmt: skip
    judge = judges.get(variable.kind)
    return None if judge is None else judge(variable, text)


def _folded(variable: Variable, text: str) -> str:
    return text.lower() if variable.any_case else text


def _bool(variable: Variable, text: str) -> str | None:
    sides = [side.split(",") for side in variable.legal.split("/")]
    if any(_folded(variable, text) in side for side in sides):
        return None
    on, off = (_either(side) for side in sides)
    return f"takes {on} for on, and {off} for off"


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _enum(variable: Variable, text: str) -> str | None:
    choices = variable.legal.split("|")
    if text in choices or (variable.any_case and text.lower() in map(str.lower, choices)):
        return None
    return f"takes {', '.join(choices)}" + ("" if variable.any_case else " in this letter case")


def _int(variable: Variable, text: str) -> str | None:
    digits = text.removeprefix("-")
    short = digits.isascii() and digits.isdigit() and len(digits) < _LONGEST_NUMBER
    if short and _within(variable.legal, int(text)):
        return None
    return f"takes a whole number {_range_words(variable.legal)}"


def _cint(variable: Variable, text: str) -> str | None:
    value, used = _strtoll(text)
    if used == len(text) and used and _within(variable.legal, value):
        return None
    clause = f"takes a whole number {_range_words(variable.legal)}"
    return clause if used == len(text) and used else f"{clause}; {shown(text)} is read as {value}"


def _strtoll(text: str) -> tuple[int, int]:
    """Read a number as C does with base 0; return it and how much of the text it used."""
    sign = 1 if text[:1] in {"-", "+"} else 0
    digits, base = "0123456789", 10
    start = sign
    if text[sign : sign + 2].lower() == "0x":
        digits, base, start = "0123456789abcdef", 16, sign + 2
    elif text[sign : sign + 1] == "0":
        digits, base = "01234567", 8
    end = start
    while end < len(text) and text[end].lower() in digits:
        end += 1
    if end == start:
        return 0, 0
    value = int(text[start:end][:_LONGEST_NUMBER], base)
    return (-value if text[:1] == "-" else value), end


def _float(variable: Variable, text: str) -> str | None:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if text.isascii() and "_" not in text and text == text.strip() and _inside(variable, value):
        return None
    words = variable.legal.replace("(0..1]", "above 0 and at most 1")
    return f"takes a number {words if words != variable.legal else _range_words(words)}"


def _inside(variable: Variable, value: float) -> bool:
    low, high = variable.legal.strip("(]").split("..")
    above = value > float(low) if variable.legal[:1] == "(" else value >= float(low)
    return above and value <= float(high or "inf") and value != float("inf")


def _within(legal: str, value: int) -> bool:
    return any(low <= value <= high for low, high in map(_bounds, legal.split("|")))


def _bounds(part: str) -> tuple[float, float]:
    low, dots, high = part.partition("..")
    return float(low), (float(high or "inf") if dots else float(low))


def _range_words(legal: str) -> str:
    def words(part: str) -> str:
        low, dots, high = part.partition("..")
        if not dots:
            return low
        return f"from {low} to {high}" if high else f"of at least {low}"

    return " or ".join(words(part) for part in legal.split("|"))


def _pattern(variable: Variable, text: str) -> str | None:
    import re  # noqa: PLC0415 - only some variables need it

    return None if re.fullmatch(variable.legal, text, re.ASCII) else f"takes {variable.says}"


def _regex(variable: Variable, text: str) -> str | None:  # noqa: ARG001 - one signature for all
    import re  # noqa: PLC0415

    try:
        re.compile(text)
    except re.error as error:
        return f"takes a regular expression, and this one is none: {error}"
    return None


def _path(variable: Variable, text: str) -> str | None:  # noqa: ARG001 - one signature for all
    return None if text.strip() else "takes a path"


def _xla_flags(variable: Variable, text: str) -> str | None:  # noqa: ARG001 - one signature for all
    from moectl.xla_text import parse  # noqa: PLC0415

    faults = parse(text).faults
    return f"would be misread: {faults[0].message}" if faults else None
