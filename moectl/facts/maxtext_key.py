"""One key of MaxText's configuration: its type, its bounds, and how to say them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from moectl.errors import nearest, shown

Number = int | float
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_SHOWN_CHOICES = 20
_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "dict": "a mapping",
    "dict[str]": "a mapping with text keys",
    "list": "a list",
    "any": "anything",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of MaxText's configuration, as its source declares it.

    Attributes:
        name: the key; without its parent when it is a nested one.
        type: bool, int, float, str, enum, any, dict, dict[str] (text keys), list, list[T], or
            A|B of these.
        nullable: whether None (YAML null, or the text "none") is legal.
        choices: the legal values of an enum or Literal.
        ge: smallest legal number; gt, le and lt likewise.
        gt: bound that a number must exceed.
        le: largest legal number.
        lt: bound that a number must stay below.
        default: the default in the source; base.yml may say another (`Catalogue.default`).
        computed: the source computes the default, so that reading cannot tell it.
        required: there is no default.
        derived: MaxText computes the value, yet takes it as input too.
        opaque: a validator or constraint judges the value that only running MaxText can.
        prepared: what MaxText's loader does to the value first: "text_is_list" (one text
            becomes a list of it), "empty_is_none", "none_is_empty".
        parent: the key it is nested under; empty for a top-level key.
        nested: the keys nested under this one.
        closed: whether other keys than `nested` are refused under it.
        group: the class that declares it.
        where: file and line of the declaration, relative to the package.
    """

    name: str
    type: str
    nullable: bool = False
    choices: tuple[str | int | float | bool, ...] = ()
    ge: Number | None = None
    gt: Number | None = None
    le: Number | None = None
    lt: Number | None = None
    default: object = None
    computed: bool = False
    required: bool = False
    derived: bool = False
    opaque: bool = False
    prepared: tuple[str, ...] = ()
    parent: str = ""
    nested: tuple[str, ...] = ()
    closed: bool = False
    group: str = ""
    where: str = ""

    @classmethod
    def from_row(cls, name: str, row: Mapping[str, object], parent: str = "") -> Key:
        """Build a key from its row in `keys.json`."""
        values = {
            item: tuple(value) if isinstance(value, list) and item != "default" else value
            for item, value in row.items()
        }
        return cls(name=name, parent=parent, **values)  # type: ignore[arg-type]

    def row(self) -> dict[str, object]:
        """Return the row for `keys.json`: what differs from the defaults of this class."""
        row: dict[str, object] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            usual = type(value) is type(item.default) and value == item.default
            if item.name not in {"name", "parent"} and not usual:
                row[item.name] = list(value) if isinstance(value, tuple) else value
        return row

    @property
    def path(self) -> str:
        """Return how a command line names it: `name`, or `parent.name` when nested."""
        return f"{self.parent}.{self.name}" if self.parent else self.name

    @property
    def bounds(self) -> dict[str, Number]:
        """Return the bounds that are set, by their pydantic names."""
        return {name: bound for name in BOUNDS if (bound := getattr(self, name)) is not None}

    @property
    def legal(self) -> str:
        """Say in one clause what is legal, e.g. "a whole number, at least 0, or none"."""
        return self.legal_near(None)

    def legal_near(self, value: object) -> str:
        """Say what is legal to somebody who typed `value`: nearest names, missing quotes."""
        if self.nested:
            return f"a mapping of {', '.join(self.nested)}"
        phrase = " or ".join(self._phrase(kind, value) for kind in split_type(self.type))
        limits = [f"{BOUNDS[name]} {bound}" for name, bound in self.bounds.items()]
        # "anything" has none in it already.
        none = ["or none"] if self.nullable and self.type != "any" else []
        return ", ".join([phrase, *limits, *none])

    @property
    def _writable(self) -> list[str | int | float | bool]:
        """The choices a file can say: MaxText's loader makes None of a top-level "none"."""
        said = [choice for choice in self.choices if str(choice).lower() != "none"]
        return list(self.choices) if self.parent or not said else said

    def _phrase(self, kind: str, value: object) -> str:
        if self.choices and kind in {"enum", "int"}:
            writable = self._writable
            if len(writable) <= _SHOWN_CHOICES:
                return f"one of {', '.join(map(shown, writable))}"
            near = nearest(value, map(str, writable)) if isinstance(value, str) else []
            hint = f"near it {', '.join(near)}" if near else f"such as {writable[0]}"
            return f"one of {len(writable)} names, {hint}"
        if kind.startswith("list["):
            inner = " or ".join(self._phrase(part, None) for part in split_type(kind[5:-1]))
            return f"a list, each entry {inner}"
        if kind == "str" and isinstance(value, int | float):
            return "text, so put it in quotes"
        return _WORDS.get(kind, kind)


def split_type(text: str) -> list[str]:
    """Split "int|list[int|float]" into its alternatives ["int", "list[int|float]"]."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]
