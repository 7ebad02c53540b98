"""The spec as a flat table: path to type, bounds, default and owning MaxText key.

Building the pydantic models takes longer than everything else a render does, so a table made
from them ships with moectl. The models stay the definition: `moectl facts spec` writes the
table anew, a test compares it with them, and whatever the table does not accept outright is
judged by pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from moectl.resources import package

TABLE = "spec.json"


@dataclass(frozen=True, slots=True)
class Field:
    """One leaf of the run file.

    Attributes:
        path: dotted path, e.g. "batch.per_device"; a map's entries are "environment.*".
        kind: bool, int, float, str, enum, scalar, text (str or number), any, list, or model
            for what only pydantic judges.
        nullable: whether null is legal.
        choices: legal values of an enum.
        items: kind of a list's items; only lists of text are accepted here.
        minimum: least legal number, or None; `exclusive` when itself not legal.
        maximum: greatest legal number, or None.
        pattern: regular expression of a string, or empty.
        default: value when nothing is said.
        maxtext: MaxText key it owns, or empty.
        doc: what it is.
    """

    path: str
    kind: str
    nullable: bool = False
    choices: tuple[Any, ...] = ()
    items: str = ""
    minimum: float | None = None
    exclusive: bool = False
    maximum: float | None = None
    pattern: str = ""
    default: Any = None
    maxtext: str = ""
    doc: str = ""

    def accepts(self, value: object) -> bool:
        """Whether the value is legal beyond doubt; False leaves the verdict to pydantic."""
        if value is None:
            return self.nullable
        match self.kind:
            case "bool":
                return isinstance(value, bool)
            case "int":
                fits = isinstance(value, int) and not isinstance(value, bool)
            case "float":
                # An integer beyond every float is left to pydantic.
                fits = (
                    isinstance(value, float) or (isinstance(value, int) and abs(value) < 1e300)
                ) and not isinstance(value, bool)
            case "str":
                if not isinstance(value, str):
                    return False
                if not self.pattern:
                    return True
                import re  # noqa: PLC0415 - few fields have a pattern

                return re.fullmatch(self.pattern, value) is not None
            case "enum":
                return any(
                    value == choice and type(value) is type(choice) for choice in (self.choices)
                )
            case "any":
                return True
            case "list":
                return (
                    self.items == "str"
                    and isinstance(value, list)
                    and all(isinstance(item, str) for item in value)
                )
            case "scalar":
                return isinstance(value, bool | int | float | str)
            case "text":
                return isinstance(value, int | float | str) and not isinstance(value, bool)
            case _:
                return False
        if not fits:
            return False
        number: Any = value  # compared as it is: a huge integer is no float
        low = (
            self.minimum is None
            or number > self.minimum
            or (number == self.minimum and not self.exclusive)
        )
        return low and (self.maximum is None or number <= self.maximum)


@dataclass(frozen=True)
class Table:
    """All leaves by path, and the path that owns each MaxText key."""

    fields: Mapping[str, Field]
    owners: Mapping[str, str]

    def field(self, path: str) -> Field | None:
        """Return the leaf of `path`; an entry of a map is the map's "*" leaf."""
        found = self.fields.get(path)
        if found is None and "." in path:
            return self.fields.get(f"{path.rsplit('.', 1)[0]}.*")
        return found

    def is_section(self, path: str) -> bool:
        """Whether `path` names a section or a map."""
        return path in self.sections

    @cached_property
    def sections(self) -> frozenset[str]:
        """Every path under which others stand."""
        parts = (path.split(".") for path in self.fields)
        return frozenset(".".join(names[:end]) for names in parts for end in range(1, len(names)))


@cache
def table() -> Table:
    """Return the shipped table."""
    import json  # noqa: PLC0415

    rows = json.loads(package().joinpath("spec", TABLE).read_text("utf-8"))
    fields = {}
    for row in rows:
        row["choices"] = tuple(row.get("choices", ()))
        fields[row["path"]] = Field(**row)
    return Table(fields, {f.maxtext: path for path, f in fields.items() if f.maxtext})


def build() -> str:
    """Return the table's text, made from the pydantic models: one leaf a line."""
    import json  # noqa: PLC0415

    from moectl.spec.run import RunSpec  # noqa: PLC0415
    from moectl.spec.table_build import leaves  # noqa: PLC0415

    rows = [json.dumps(row, ensure_ascii=False) for row in leaves(RunSpec)]
    return "[\n" + ",\n".join(rows) + "\n]\n"
