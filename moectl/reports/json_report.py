"""The report for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from moectl.findings import Finding

if TYPE_CHECKING:
    from moectl.checked import Report

FIELDS = ("code", "severity", "field", "message", "hint", "file", "line", "column")


def render(report: Report) -> str:
    """Return the report as JSON: `findings` and `checked`, and how many were suppressed."""
    data = {
        "findings": [row(finding) for finding in dict.fromkeys(report.findings)],
        "checked": [
            {"name": one.name, "kind": one.kind, "told": list(one.told)} for one in report.checked
        ],
        "suppressed": report.suppressed,
    }
    return dumped(data)


def row(finding: Finding) -> dict[str, object]:
    """Return the JSON form of one finding."""
    return {name: getattr(finding, name) for name in FIELDS}


def dumped(data: Any) -> str:
    """Return JSON text that every stream takes and no terminal acts on: printable ASCII."""
    return json.dumps(data, indent=2).replace("\x7f", "\\u007f") + "\n"
