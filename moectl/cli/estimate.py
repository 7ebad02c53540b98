"""moectl estimate."""

from __future__ import annotations

from typing import Any

from moectl.actions.estimate import estimate
from moectl.cli.job_options import wishes
from moectl.cli.text import say_json
from moectl.reports.estimate import as_dict, text


def run(
    target: str,
    explain: bool,
    verify: bool,
    tokens: str | None,
    price: str | None,
    format: str,  # noqa: A002 - the option's name
    **values: Any,
) -> int:
    """Print what a run takes; 1 for what does not fit or what rules refuse, or a difference."""
    import sys  # noqa: PLC0415

    answer = estimate(target, wishes(values), tokens=tokens, price=price)
    check = None
    if verify:
        from moectl.actions.layout_check import checked  # noqa: PLC0415

        check = checked(answer)
    if format == "json":
        found = as_dict(answer, explain=explain)
        say_json(found if check is None else {**found, "verification": check.as_dict()})
    else:
        sys.stdout.write(text(answer, explain=explain))
        if check is not None:
            sys.stdout.write(check.text())
    stops = answer.assessment.fits is False or answer.errors
    return 1 if stops or (check and not check.agrees) else 0
