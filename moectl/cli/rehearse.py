"""moectl rehearse."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moectl.cli.job_options import wishes
from moectl.cli.manner import remark
from moectl.cli.numbers import whole
from moectl.cli.text import say, say_json

if TYPE_CHECKING:
    from moectl.actions.parity import Compared
    from moectl.actions.rehearse import Rehearsal, Staged, Trained
    from moectl.shrink.judge import Verdict

# Options of a job that say nothing about a rehearsal.
UNUSED: dict[str, Any] = {"launcher": None, "cache": None, "debug": False, "global_batch": None}
MOST_STEPS = 1000


def run(
    target: str,
    steps: str | None,
    against: str | None,
    format: str,  # noqa: A002 - the option's name
    **values: Any,
) -> int:
    """Rehearse, and say what was judged; exit code 1 when something does not hold."""
    from moectl.launch.store import Store  # noqa: PLC0415

    as_json = format == "json"
    asked = wishes({**values, **UNUSED})
    count = _steps(steps)
    if against is not None:
        from moectl.actions.parity import compare, stage_both  # noqa: PLC0415

        sides = stage_both(target, asked, against, count)
        _say_staged(sides.one, as_json=as_json)
        compared = compare(sides, Store(), remark)
        if as_json:
            say_json(compared.as_dict())
        else:
            for line in _parity_lines(compared):
                say(line)
        return 0 if compared.good else 1
    from moectl.actions.rehearse import rehearse, stage  # noqa: PLC0415

    staged = stage(target, asked, count)
    _say_staged(staged, as_json=as_json)
    found = rehearse(staged, Store(), remark)
    if as_json:
        say_json(_as_dict(found))
    else:
        for line in _lines(found):
            say(line)
    return 0 if found.good else 1


def _steps(said: str | None) -> int | None:
    if said is None:
        return None
    from moectl.actions.rehearse import LEAST_STEPS  # noqa: PLC0415

    legal = f"a whole number from {LEAST_STEPS} to {MOST_STEPS}"
    return whole("--steps", said, legal, least=LEAST_STEPS, most=MOST_STEPS)


def _say_staged(staged: Staged, *, as_json: bool) -> None:
    """Say what is rehearsed before it starts, since it takes minutes."""
    if as_json:
        return
    job = staged.rendered.job
    devices = "virtual CPU devices" if job.on_cpu else "GPUs"
    axes = " x ".join(f"{a} {n}" for a, n in staged.small.degrees.items() if n > 1) or "one device"
    say(f"{staged.original.name}: {staged.original.gpus} GPUs, made small")
    say(f"  devices {job.gpus} {devices} in {job.processes} process, mesh {axes}")
    say(f"  keeps   {'; '.join(staged.small.kept)}")
    sizes = ", ".join(f"{key} {size}" for key, size in staged.small.sizes.items())
    say(f"  small   {sizes or 'nothing, it is small already'}")
    for line in staged.stands_in:
        say(f"  not run {line}")
    sys.stdout.flush()


def _lines(found: Rehearsal) -> Iterator[str]:
    yield from _losses(found.jobs[:1])
    yield from _verdicts(found.verdicts)
    word = "holds" if found.good else "does not hold"
    yield f"{found.staged.rendered.job.name} {word}, in {found.seconds:.0f} s"
    yield f"  runs    {os.fspath(found.jobs[0].log)}"


def _losses(jobs: tuple[Trained, ...]) -> Iterator[str]:
    from moectl.shrink.judge import curve  # noqa: PLC0415

    for job in jobs:
        losses = [job.losses[step] for step in sorted(job.losses)]
        if losses:
            yield f"  loss    {losses[0]:.3f} {curve(losses)} {losses[-1]:.3f}"


def _verdicts(verdicts: tuple[Verdict, ...]) -> Iterator[str]:
    width = max(len(each.name) for each in verdicts)
    for each in verdicts:
        yield f"  {'ok  ' if each.good else 'FAIL'}    {each.name:<{width}}  {each.why}"


def _as_dict(found: Rehearsal) -> dict[str, Any]:
    return {
        "rehearsal": found.staged.as_dict(),
        "good": found.good,
        "seconds": round(found.seconds, 1),
        "verdicts": [each.as_dict() for each in found.verdicts],
        "jobs": [job.as_dict() for job in found.jobs],
    }


def _parity_lines(compared: Compared) -> Iterator[str]:
    one, other = compared.jobs
    steps = sorted({*one.losses, *other.losses})
    yield f"  one     {compared.sides.about[0]}"
    yield f"  other   {compared.sides.about[1]}"
    yield from _losses(compared.jobs)
    yield "  step       one     other     apart   allowed"
    for step in steps:
        first, second = one.losses.get(step), other.losses.get(step)
        cells = [f"{loss:9.3f}" if loss is not None else "        -" for loss in (first, second)]
        apart = f"{abs(first - second):9.4f}" if first is not None and second is not None else ""
        allowed = compared.sides.allowed.at(step)
        yield f"  {step:4} {cells[0]} {cells[1]} {apart:>9} {allowed:9.4f}"
    for note in compared.sides.notes:
        yield f"  note    {note}"
    yield from _verdicts(compared.verdicts)
    word = "agree" if compared.good else "do not agree"
    yield f"the two paths {word}, in {compared.seconds:.0f} s"
