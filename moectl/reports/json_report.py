"""The report for programs."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from moectl.findings import Finding
from moectl.reports.escape import printable
from moectl.reports.tally import Tally

if TYPE_CHECKING:
    from moectl.checked import Report

FIELDS = ("code", "severity", "field", "message", "hint", "file", "line", "column")
_HALF_OR_PAIR = "\\ud"  # what the escape of a surrogate begins with


class Writer:
    """Writes the report for programs as it comes; of what was looked at it keeps the names."""

    def __init__(self) -> None:
        """Begin."""
        self.tally = Tally()
        self._checked: list[str] = []
        self._empty = True

    def add(self, report: Report) -> Iterator[str]:
        """Yield what the next piece of the report adds."""
        for finding in self.tally.take(report):
            yield ('{\n  "findings": [\n' if self._empty else ",\n") + _item(row(finding))
            self._empty = False
        for one in report.checked:
            self._checked.append(
                _item({"name": one.name, "kind": one.kind, "told": list(one.told)})
            )

    def end(self) -> Iterator[str]:
        """Yield what was looked at, and how many findings were suppressed."""
        yield '{\n  "findings": []' if self._empty else "\n  ]"
        yield ',\n  "checked": ['
        before = "\n"
        for item in self._checked:
            yield before + item
            before = ",\n"
        yield "\n  ]" if self._checked else "]"
        yield f',\n  "suppressed": {self.tally.suppressed}\n}}\n'


def render(report: Report) -> str:
    """Return the report as JSON: `findings` and `checked`, and how many were suppressed."""
    writer = Writer()
    return "".join([*writer.add(report), *writer.end()])


def _item(data: dict[str, object]) -> str:
    """Return one item of a list of the report."""
    return textwrap.indent(dumped(data).rstrip("\n"), "    ")


def row(finding: Finding) -> dict[str, object]:
    """Return the JSON form of one finding."""
    return {name: getattr(finding, name) for name in FIELDS}


def dumped(data: Any) -> str:
    r"""Return JSON text that every stream takes and no terminal acts on: printable ASCII.

    A byte of a file name or script that is no UTF-8 is written as the text \xNN: half of a
    surrogate pair is an error to strict readers.
    """
    text = json.dumps(data, indent=2)
    if _HALF_OR_PAIR in text:
        text = json.dumps(_strict(data), indent=2)
    return text.replace("\x7f", "\\u007f") + "\n"


def _strict(data: Any) -> Any:
    """Return data whose texts hold no lone surrogate."""
    if isinstance(data, str):
        return re.sub("[\ud800-\udfff]", lambda found: printable(found[0]), data)
    if isinstance(data, Mapping):
        return {_strict(key): _strict(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_strict(value) for value in data]
    return data
