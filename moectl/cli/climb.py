"""moectl climb."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moectl.cli.job_options import wishes
from moectl.cli.numbers import wholes
from moectl.cli.text import say, say_json
from moectl.errors import BackendError, UsageError, ValueUsageError
from moectl.reports.columns import columns
from moectl.reports.escape import printable

if TYPE_CHECKING:
    from moectl.campaign.standing import Ladder

_THRESHOLDS = {
    "min_efficiency": "efficiency",
    "min_tflops": "tflops",
    "loss_tolerance": "loss",
    "straggler": "straggler",
}
_HEAD = ("GPUS", "STATE", "STEPS", "S/STEP", "TFLOP/S", "TOKENS/S", "OF FIRST", "JOB")


def run(
    target: str | None,
    rungs: str | None,
    resume: str | None,
    show: str | None,
    format: str,  # noqa: A002 - the option's name
    **values: Any,
) -> int:
    """Climb, go on with a climb, or say where one stands."""
    from moectl.actions import climb as action  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    asked = [name for name in (target, resume, show) if name is not None]
    if len(asked) != 1 or (target is None) is not (rungs is None):
        raise UsageError(
            "climb wants a target with --rungs N,N,..., or --resume CLIMB, or --show CLIMB"
        )
    said = {name: _number(flag, values.pop(flag)) for flag, name in _THRESHOLDS.items()}
    limits = {name: value for name, value in said.items() if value is not None}
    store = Store()
    if target is not None and rungs is not None:
        counts = wholes("--rungs", rungs, "numbers of GPUs with commas, e.g. 8,64,128")
        climb, rendered = action.plan_climb(target, wishes(values), counts, limits)
        found = action.start(store, climb, rendered)
    elif resume is not None:
        found = action.resume(store, resume, values["set"], limits)
    else:
        found = action.shown(store, str(show))
    if format == "json":
        say_json(found.as_dict())
    else:
        for line in _table(found):
            say(line)
    if found.unreachable:
        raise BackendError(found.unreachable)
    return 1 if found.failed else 0


def _number(flag: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text) if text.isascii() else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise ValueUsageError(f"--{flag.replace('_', '-')}", text, "a number from 0")
    return value


def _table(found: Ladder) -> Iterator[str]:
    yield f"{printable(found.climb.id)}: {printable(found.climb.target)}"
    first = found.rungs[0].verdict
    rows = []
    for one in found.rungs:
        told = one.verdict or {}
        share = ""
        if first and told.get("tokens_per_s") and first.get("tokens_per_s"):
            share = f"{told['tokens_per_s'] / first['tokens_per_s']:.1%}"
        rows.append(
            (
                str(one.rung.gpus),
                one.state,
                str(told.get("steps", "")),
                *(_figure(told.get(name)) for name in ("step_time_s", "tflops", "tokens_per_s")),
                share,
                one.job,
            )
        )
    yield from columns(_HEAD, rows)
    for one in found.rungs:
        if one.told:
            yield f"{one.rung.gpus} GPUs: {printable(one.told)}"
    yield f"logs and verdicts: {printable(str(found.folder))}"
    if found.failed:
        yield f"go on after a fix: moectl climb --resume {printable(found.climb.id)}"


def _figure(value: Any) -> str:
    return f"{value:,.3f}" if isinstance(value, int | float) else ""
