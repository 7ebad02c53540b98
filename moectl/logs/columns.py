"""What a step may say: columns with their names in the step line and in the metrics sinks."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from moectl.facts.yaml_facts import read

# Stands in a column where a step said nothing; nan is something that a step may say.
ABSENT = -sys.float_info.max


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: its name here.
        title: what it is.
        unit: "" for a plain number.
        line: its name in the step line, "" when it stands only in the sinks.
        sink: its key in metrics_file and TensorBoard, "" when it stands only in the line.
        decimals: how many the line has, None when that varies.
    """

    name: str
    title: str
    unit: str = ""
    line: str = ""
    sink: str = ""
    decimals: int | None = None


@dataclass(frozen=True, slots=True)
class LineKind:
    """A line other than a step's that is worth knowing.

    Attributes:
        name: e.g. "devices".
        needle: the bytes that every such line holds.
        pattern: what its message looks like.
        start: whether it is written only while a process starts.
    """

    name: str
    needle: bytes
    pattern: re.Pattern[str]
    start: bool


@cache
def columns() -> Mapping[str, Column]:
    """Return all columns, by name."""
    rows = read("report.yaml")["columns"]
    return {name: Column(name, **row) for name, row in rows.items()}


@cache
def by_line() -> Mapping[str, Column]:
    """Return the columns of the step line, by their name there."""
    return {column.line: column for column in columns().values() if column.line}


@cache
def by_sink() -> Mapping[str, Column]:
    """Return the columns of the metrics sinks, by their key there."""
    return {column.sink: column for column in columns().values() if column.sink}


@cache
def line_kinds() -> tuple[LineKind, ...]:
    """Return the further lines, in the order of the table."""
    return tuple(
        LineKind(name, row["needle"].encode(), re.compile(row["pattern"]), bool(row.get("start")))
        for name, row in read("report.yaml")["lines"].items()
    )
