"""What is said when a command is refused or fails: sentences for people, one object for programs.

With `--format json` standard output holds one JSON document whatever happens: the answer, or
`{"error": {"kind", "message", "exit_code"}, "findings": [...]}`.
"""

from __future__ import annotations

from typing import Any

from moectl.cli.manner import NOW, complain
from moectl.errors import FindingsError, MoectlError, masked


def refused(error: MoectlError) -> int:
    """Say why, and return the exit code."""
    findings = error.findings if isinstance(error, FindingsError) else []
    if findings and NOW.form != "json":
        from moectl.cli.text import say_findings  # noqa: PLC0415

        say_findings(findings)
    return failed(
        type(error).__name__,
        str(error),
        error.exit_code,
        [finding.as_dict() for finding in findings],
    )


def failed(kind: str, message: str, code: int, findings: list[dict[str, Any]] | None = None) -> int:
    """Say what a command failed at, and return the exit code.

    Args:
        kind: the name of the error's class.
        message: one sentence a line.
        code: the exit code.
        findings: what was found, of a job that is refused for it.
    """
    if NOW.form == "json" and not NOW.answered:
        as_json(kind, message, code, findings)
    complain(message)
    return code


def as_json(
    kind: str, message: str, code: int, findings: list[dict[str, Any]] | None = None
) -> None:
    """Print the object that stands where the answer would."""
    from moectl.cli.text import say_json  # noqa: PLC0415

    said = {"kind": kind, "message": masked(message), "exit_code": code}
    say_json({"error": said, "findings": findings or []})
