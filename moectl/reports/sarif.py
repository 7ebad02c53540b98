"""SARIF 2.1.0, which code-scanning services and editors read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from moectl.findings import Finding
from moectl.reports.escape import printable
from moectl.reports.json_report import dumped
from moectl.reports.lines import Texts
from moectl.reports.text import sentence
from moectl.rules.rule import STAGES
from moectl.version import __version__

if TYPE_CHECKING:
    from moectl.checked import Checked, Report
    from moectl.rules.rule import Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LINK = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&*+=%-]*[A-Za-z0-9_~/=-]")
_LONGEST_SNIPPET = 400


def render(report: Report, rules: Mapping[str, Rule], *, root: str = "") -> str:
    """Return the report as a SARIF log of one run.

    Args:
        report: what was found.
        rules: the rules by code; those that were broken are told about in the log.
        root: absolute folder; paths under it are written relative to it.
    """
    findings = list(dict.fromkeys(report.findings))
    log = _Log(report.checked, root)
    codes = list(dict.fromkeys(finding.code for finding in findings))
    results = [log.result(finding, codes.index(finding.code)) for finding in findings]
    told = [log.notification(one, said) for one in report.checked for said in one.told]
    run = {
        "tool": {
            "driver": {
                "name": "moectl",
                "version": __version__,
                "rules": [_rule(code, rules.get(code)) for code in codes],
            }
        },
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": told}],
        "artifacts": log.artifacts,
        "results": results,
        "columnKind": "unicodeCodePoints",
    }
    return dumped({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


class _Log:
    """The files of a log, each with its index."""

    def __init__(self, checked: Iterable[Checked], root: str) -> None:
        checked = list(checked)
        self._texts = Texts(checked)
        self._root = root
        self._indices: dict[str, int] = {}
        self.artifacts: list[dict[str, Any]] = []
        for one in checked:
            if not one.name.startswith("-"):
                self._index(one.name)

    def _index(self, name: str) -> int:
        if name not in self._indices:
            self._indices[name] = len(self.artifacts)
            self.artifacts.append({"location": {"uri": uri(name, self._root)}})
        return self._indices[name]

    def result(self, finding: Finding, index: int) -> dict[str, Any]:
        """Return a finding as a result."""
        text = sentence(finding)
        if finding.hint:
            text += f". Help: {printable(finding.hint)}"
        result: dict[str, Any] = {
            "ruleId": finding.code,
            "ruleIndex": index,
            "level": finding.severity,
            "message": {"text": text},
            "locations": [self._location(finding)],
        }
        if fix := self._fix(finding):
            result["fixes"] = [fix]
        return result

    def notification(self, checked: Checked, said: str) -> dict[str, Any]:
        """Return what could not be read of a file as a notification of the tool."""
        place = Finding("", "note", "", "", file=checked.name)
        return {
            "level": "note",
            "message": {"text": printable(said)},
            "locations": [self._location(place)],
        }

    def _location(self, finding: Finding) -> dict[str, Any]:
        if not self._is_file(finding):
            name = printable(finding.file) or "-"
            return {"logicalLocations": [{"fullyQualifiedName": name}]}
        physical: dict[str, Any] = {"artifactLocation": self._artifact(finding.file)}
        if finding.line is not None:
            physical["region"] = self._region(finding)
        return {"physicalLocation": physical}

    def _is_file(self, finding: Finding) -> bool:
        if not finding.file or finding.file.startswith("-"):
            return False
        return self._texts.knows(finding.file) or finding.line is not None

    def _artifact(self, name: str) -> dict[str, Any]:
        index = self._index(name)
        return {"uri": self.artifacts[index]["location"]["uri"], "index": index}

    def _region(self, finding: Finding) -> dict[str, Any]:
        region: dict[str, Any] = {"startLine": finding.line}
        if finding.column is not None:
            region["startColumn"] = finding.column
        line = self._texts.line(finding.file, finding.line)
        if line is not None and len(line) <= _LONGEST_SNIPPET:
            region["snippet"] = {"text": line}
        return region

    def _fix(self, finding: Finding) -> dict[str, Any] | None:
        if finding.fix is None or finding.column is None or not self._is_file(finding):
            return None
        old, new = finding.fix
        if "\n" in old or not old:
            return None
        region = {
            "startLine": finding.line,
            "startColumn": finding.column,
            "endColumn": finding.column + len(old),
        }
        replacement = {"deletedRegion": region, "insertedContent": {"text": new}}
        change = {
            "artifactLocation": self._artifact(finding.file),
            "replacements": [replacement],
        }
        return {"description": {"text": printable(finding.hint)}, "artifactChanges": [change]}


def uri(name: str, root: str = "") -> str:
    """Return a path as a URI reference: percent-encoded bytes, relative where it can be.

    Args:
        name: a path as the person gave it; bytes that are no UTF-8 keep their value.
        root: absolute folder; a path under it becomes relative to it.
    """
    path = os.path.normpath(name)
    if root and os.path.isabs(path):  # noqa: PTH117 - a path's text, no file is looked at
        inside = os.path.relpath(path, root)
        path = path if inside.startswith("..") else inside
    encoded = quote(os.fsencode(path))
    return f"file://{encoded}" if path.startswith("/") else encoded


def _rule(code: str, rule: Rule | None) -> dict[str, Any]:
    if rule is None:
        return {"id": code}
    link = _LINK.search(rule.source)
    text = f"{rule.reason} Remedy: {rule.remedy}. Source: {rule.source}."
    described: dict[str, Any] = {
        "id": code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.reason},
        "help": {
            "text": text,
            "markdown": f"{rule.reason}\n\n**Remedy:** {rule.remedy}\n\n*Source:* {rule.source}",
        },
        "defaultConfiguration": {"level": rule.severity},
        "properties": {
            "stage": STAGES[rule.stage],
            "tags": [code.rstrip("0123456789"), rule.stage],
            "problem.severity": {"error": "error", "warning": "warning"}.get(
                rule.severity, "recommendation"
            ),
        },
    }
    if link:
        described["helpUri"] = link.group()
    return described
