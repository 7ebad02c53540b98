"""moectl doctor."""

from __future__ import annotations

from pathlib import Path

from moectl.actions.doctor import diagnose
from moectl.actions.doctor_checks import Check
from moectl.cli.text import say, say_json
from moectl.errors import ValueUsageError

_MARKS = {"found": "ok", "absent": "--", "missing": "!!"}


def run(
    output: str | None,
    force: bool,
    format: str,  # noqa: A002 - the option's name
    launcher: str | None = None,
    context: str | None = None,
    namespace: str | None = None,
) -> int:
    """Look at the cluster; print what it has, and print or write its profile."""
    if output == "":
        raise ValueUsageError("--output", output, "the path of a file")
    if launcher == "kubernetes" or (launcher is None and (context or namespace)):
        from moectl.actions import doctor_kubernetes  # noqa: PLC0415 - asks another program

        found = doctor_kubernetes.diagnose(context or "", namespace or "")
    else:
        found = diagnose()
    if output is not None:
        found.save(Path(output), force=force)
    if format == "json":
        say_json(
            {
                "checks": [check.as_dict() for check in found.checks],
                "profile": {key.name: key.value for key in found.profile},
                **({"output": output} if output is not None else {}),
            }
        )
    else:
        for check in found.checks:
            _say(check)
        say()
        if output is None:
            say(found.text().rstrip("\n"))
        else:
            say(f"wrote {output}: {', '.join(key.name for key in found.profile)}")
            say(f"use it with --cluster {output}, or as $MOECTL_CLUSTER")
    return 1 if found.missing else 0


def _say(check: Check) -> None:
    first, *rest = check.said.splitlines()
    say(f"{_MARKS[check.state]}  {check.name}: {first}")
    for line in rest:
        say(f"    {line}")
    if check.remedy:
        say(f"    try: {check.remedy}")
