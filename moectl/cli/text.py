"""How findings and answers are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from moectl.cli.manner import NOW, tinted
from moectl.findings import Finding


def say(line: str = "") -> None:
    """Print a line of the answer."""
    sys.stdout.write(f"{line}\n")


def say_json(value: Any) -> None:
    """Print the answer as JSON."""
    say_text(json_text(value))


def say_text(text: str) -> None:
    """Print a whole answer."""
    NOW.answered = True
    sys.stdout.write(text)


def json_text(value: Any) -> str:
    """Return JSON text that strict readers take: numbers that JSON has not are told as text."""
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_told(value), indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n"


def _told(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {key: _told(held) for key, held in value.items()}
    return [_told(held) for held in value] if isinstance(value, list | tuple) else value


def say_findings(findings: Iterable[Finding], stream: Any = None) -> None:
    """Print findings, one block each: what, where, what to type; notes are only counted."""
    out = stream or sys.stderr
    notes = 0
    for finding in findings:
        if finding.severity == "note" and not finding.accepted:
            notes += 1
            continue
        if finding.accepted:
            out.write(
                f"accepted {finding.severity} {finding.code} {finding.field}: {finding.accepted}\n"
            )
            continue
        severity = tinted(finding.severity, finding.severity, out)
        out.write(f"{severity} {finding.code} {finding.field}: {finding.message}\n")
        if finding.file:
            out.write(f"    from {finding.place}\n")
        if finding.hint:
            out.write(f"    try: {finding.hint}\n")
    if notes and not NOW.quiet:
        out.write(f"{notes} note{'' if notes == 1 else 's'}: `moectl validate` shows them\n")
