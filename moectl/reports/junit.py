"""JUnit XML: one test case for each thing that was checked.

The shape is the one that CI systems share: a case has at most one failure, and what does not
fail it is output of the suite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from moectl.findings import Finding
from moectl.reports.escape import printable, printable_lines
from moectl.reports.tally import counted
from moectl.reports.text import block

if TYPE_CHECKING:
    from moectl.checked import Report

_SUITE = "moectl validate"
_EPOCH = "1970-01-01T00:00:00"
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def render(report: Report, *, strict: bool = False, when: str = "") -> str:
    """Return the report as JUnit XML.

    Args:
        report: what was found.
        strict: whether a warning fails its file.
        when: start of the check, as YYYY-MM-DDTHH:MM:SS; the epoch when empty.
    """
    failing = {"error", "warning"} if strict else {"error"}
    kinds = {one.name: one.kind for one in report.checked}
    broken: dict[str, list[Finding]] = {name: [] for name in kinds}
    remarks: list[Finding] = []
    for finding in dict.fromkeys(report.findings):
        if finding.severity in failing:
            # A file that another one builds on has a case of its own when it is at fault.
            broken.setdefault(finding.file, []).append(finding)
        else:
            remarks.append(finding)
    told = [f"{one.name}: {sentence}" for one in report.checked for sentence in one.told]
    failures = sum(map(bool, broken.values()))
    totals = f'tests="{len(broken)}" failures="{failures}" errors="0"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="{_SUITE}" {totals} time="0">',
        f'<testsuite name="{_SUITE}" {totals} skipped="0" time="0" '
        f'timestamp="{_attribute(when or _EPOCH)}" hostname="localhost">',
        "<properties></properties>",
        *_cases(broken, kinds),
        f"<system-out>{_content(map(block, remarks))}</system-out>",
        f"<system-err>{_content(map(printable, told))}</system-err>",
        "</testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _cases(broken: dict[str, list[Finding]], kinds: dict[str, str]) -> Iterator[str]:
    for name, findings in broken.items():
        kind = _attribute(kinds.get(name, "file").replace(" ", "_"))
        case = f'<testcase name="{_attribute(name or "-")}" classname="moectl.{kind}" time="0"'
        if not findings:
            yield f"{case}></testcase>"
            continue
        codes = ", ".join(dict.fromkeys(finding.code for finding in findings))
        message = _attribute(f"{counted(len(findings), 'fault')}: {codes}")
        yield (
            f'{case}><failure message="{message}" type="{_attribute(findings[0].code)}">'
            f"{_content(map(block, findings))}</failure></testcase>"
        )


def _attribute(text: str) -> str:
    return _escaped(printable(text))


def _content(blocks: Iterable[str]) -> str:
    return _escaped(printable_lines("\n".join(blocks)))


def _escaped(text: str) -> str:
    for letter, entity in _ENTITIES.items():
        text = text.replace(letter, entity)
    return text
