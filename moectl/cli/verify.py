"""moectl verify."""

from __future__ import annotations

from moectl.actions.reproduction import verify
from moectl.cli.text import say, say_json
from moectl.reports.escape import printable


def run(target: str, format: str) -> int:  # noqa: A002 - the option's name
    """Say whether a bundle or run can be reproduced; exit code 1 when something drifted."""
    found = verify(target)
    if format == "json":
        say_json(found.as_dict())
        return int(found.drifted)
    width = max(len(check.what) for check in found.checks)
    for check in found.checks:
        say(f"{check.state:<8} {check.what:<{width}}  {printable(check.told)}")
    verdict = "something drifted" if found.drifted else "nothing drifted that can be seen from here"
    say(f"{printable(found.bundle)}: {verdict}")
    return int(found.drifted)
