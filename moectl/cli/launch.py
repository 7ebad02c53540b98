"""moectl launch."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moectl.actions import launch as action
from moectl.cli.job_options import wishes
from moectl.cli.manner import agreed, remark
from moectl.cli.text import say, say_findings, say_json
from moectl.errors import BackendError
from moectl.launch.backend import UnansweredError

if TYPE_CHECKING:
    from collections.abc import Callable

    from moectl.actions.launch import Planned
    from moectl.actions.plan import Wishes
    from moectl.actions.runs import Row
    from moectl.launch.allocation import Allocation
    from moectl.launch.record import RunRecord
    from moectl.launch.store import Store


# Who answers what would become of a launch.
_ANSWERS = {"local": "here", "kubernetes": "server"}


def run(
    target: str,
    dry_run: bool,
    wait: bool,
    after: str | None,
    again: bool,
    yes: bool,
    chain: str | None,
    until_step: str | None,
    format: str,  # noqa: A002 - the option's name
    **values: Any,
) -> int:
    """Launch, or say what would be launched."""
    from moectl.launch.store import Store  # noqa: PLC0415

    as_json = format == "json"
    store = Store()
    planned = _planned(target, wishes(values), chain, until_step, store)
    say_findings(planned.job.findings)
    where = action.inside() if planned.job.launcher == "slurm" else None
    if dry_run:
        return _say_plan(planned, store, after, where, as_json=as_json)
    action.require_secrets(planned)
    backend = action.backend_of(planned.job)
    action.prepare(planned, remark)
    limit = action.limit(planned.job)
    agree = _asking(as_json=as_json)
    action.require_agreement(planned, None if yes else limit, agree)
    options, note = action.after(store, backend, after) if after is not None else ([], "")
    planned = replace(planned, notes=(*planned.notes, *([note] if note else [])))
    if where is not None:
        return _run_inside(planned, store, where, after, again=again, as_json=as_json)
    from moectl.launch.submit import launch  # noqa: PLC0415

    record = launch(
        store,
        backend,
        action.intent(planned),
        action.writer(planned),
        options=options,
        again=again,
        bundles=action.bundles(planned.job),
    )
    from moectl.actions.runs import done, follow, look  # noqa: PLC0415

    if blocked := look(store, backend, record).blocked:
        planned = replace(planned, notes=(*planned.notes, f"it waits: {blocked}"))
    if not wait or not as_json:
        _say_launched(planned, record, as_json=as_json)
    if not wait:
        return 0

    try:
        seen = follow(store, backend, record.id, _telling(as_json=as_json))
    except KeyboardInterrupt:
        remark(f"{record.id} goes on without being followed; `moectl cancel {record.id}` ends it")
        raise
    why = done(seen)
    return _say_end(planned, seen, why, as_json=as_json)


def _planned(
    target: str, wished: Wishes, chain: str | None, until_step: str | None, store: Store
) -> Planned:
    if chain is None and until_step is None:
        return action.plan_launch(target, wished)
    from moectl.actions.chain import plan_chain, wish_of  # noqa: PLC0415

    asked = wish_of(chain, until_step)
    return plan_chain(target, wished, asked, store) if asked else action.plan_launch(target, wished)


def _asking(*, as_json: bool) -> Callable[[str], bool] | None:
    """Return what asks the person at the terminal, None when nobody is there."""
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None

    return lambda question: agreed(f"{question}; launch?")


def _telling(*, as_json: bool) -> Callable[[Row], None]:
    stream = sys.stderr if as_json else sys.stdout

    def tell(seen: Row) -> None:
        job = next((job for job in seen.jobs if job.live), seen.jobs[-1] if seen.jobs else None)
        on = f" on {job.nodes}" if job and job.nodes and seen.live else ""
        why = f" ({job.reason})" if job and job.reason and seen.state == "pending" else ""
        if seen.blocked:
            why = f": {seen.blocked}"
        stream.write(f"  {seen.said}{on}{why}\n")
        stream.flush()

    return tell


def _say_plan(
    planned: Planned, store: Store, after: str | None, where: Allocation | None, *, as_json: bool
) -> int:
    """Print everything a launch would do; nothing is written and nothing submitted."""
    job = planned.job
    notes = [*planned.notes, *_secrets_note(planned)]
    answer, refused = "", ""
    try:
        backend = action.backend_of(job)
        options: list[str] = []
        if after is not None:
            options, note = action.after(store, backend, after)
            notes.append(note)
        if where is None:
            answer = action.test(backend, planned, options)
        elif why := where.unfit(job.nodes):
            refused = why
        else:
            answer = f"runs at once inside job {where.job}, where this shell stands"
    except UnansweredError as error:
        answer = str(error)  # the plan stands all the same
    except BackendError as error:
        refused = str(error)
    if not action.has_backend(job):
        answer, refused = refused, ""
    if as_json:
        say_json(
            {
                **planned.rendered.summary(),
                "script": planned.script,
                "placement": action.placement(job),
                "gpu_hours": planned.gpu_hours,
                "jobs": planned.links,
                "time": _time(planned, store),
                "scheduler": answer or refused,
                "refused": bool(refused),
                "launch_notes": notes,
            }
        )
        return 3 if refused else 0
    sys.stdout.write(planned.script if planned.script.endswith("\n") else f"{planned.script}\n")
    say()
    say(f"{job.name}: {job.gpus} GPUs")
    say(f"  place   {action.placement(job)}")
    say(f"  costs   {_costs(planned)}")
    if time := _time(planned, store):
        say(f"  time    {time}")
    for note in (*job.notes, *notes):
        say(f"  note    {note}")
    for line in answer.splitlines():
        say(f"  {_ANSWERS.get(job.launcher, 'Slurm'):<7} {line}")
    say("  nothing was written or submitted (--dry-run)")
    if refused:
        raise BackendError(refused)
    return 0


def _run_inside(
    planned: Planned,
    store: Store,
    where: Allocation,
    after: str | None,
    *,
    again: bool,
    as_json: bool,
) -> int:
    """Start the script in the allocation that this shell stands in, and wait for its end."""
    from moectl.actions.runs import done, look  # noqa: PLC0415
    from moectl.errors import UsageError  # noqa: PLC0415
    from moectl.launch.submit import start_inside  # noqa: PLC0415

    if why := where.unfit(planned.job.nodes):
        raise UsageError(why)
    if planned.links > 1:
        raise UsageError(
            f"this shell stands in job {where.job}, where a run is one job: leave --chain and "
            "--until-step out, or leave the allocation"
        )
    if after is not None:
        raise UsageError(
            f"this shell stands in job {where.job}, where the run starts at once: leave --after "
            "out, or leave the allocation"
        )
    backend = action.backend_of(planned.job)

    def tell(record: RunRecord) -> None:
        remark(f"{record.id} runs inside job {where.job}, where this shell stands")

    record, code = start_inside(
        store,
        backend,
        action.intent(planned),
        action.writer(planned),
        where,
        again=again,
        bundles=action.bundles(planned.job),
        tell=tell,
        output=sys.stderr.fileno() if as_json else None,
    )
    seen = look(store, backend, record)
    why = done(seen) if not code else f"its exit code is {code}"
    return _say_end(planned, seen, why, as_json=as_json)


def _say_launched(planned: Planned, record: RunRecord, *, as_json: bool) -> None:
    if as_json:
        say_json(_summary(planned, record))
        return
    job = planned.job
    jobs = f"job{'s' if planned.links > 1 else ''} {', '.join(record.job_ids)}"
    say(
        f"{record.id}: {jobs}, {job.gpus} GPUs, {job.nodes} "
        f"node{'s' if job.nodes > 1 else ''} of {job.hardware.name}, {_costs(planned)}"
    )
    for note in (*job.notes, *planned.notes):
        say(f"  note    {note}")
    for name, path in action.logs(record, planned.script).items():
        say(f"  {'logs' if name == 'job' else '':<8}{path}")
    say(f"  next    moectl status {record.id}")
    say(f"          moectl logs {record.id} -f")
    say(f"          moectl cancel {record.id}")


def _say_end(planned: Planned, seen: Row, why: str, *, as_json: bool) -> int:
    record = seen.record
    if as_json:
        say_json(
            {**_summary(planned, record), "state": seen.state, "done": not why, "why_not": why}
        )
    else:
        said = f"is not done: {why}" if why else "is done: its last step was reached"
        say(f"{record.id} {said}")
        if why:
            for path in action.logs(record, planned.script).values():
                say(f"  see     {path}")
    return 1 if why else 0


def _summary(planned: Planned, record: RunRecord) -> dict[str, Any]:
    job = planned.job
    return {
        "run": record.id,
        "name": record.name,
        "launcher": record.launcher,
        "job": record.job_ids[-1] if record.job_ids else None,
        "jobs": list(record.job_ids),
        "state": record.state,
        "gpus": record.gpus,
        "nodes": record.nodes,
        "hardware": record.hardware,
        "gpu_hours": planned.gpu_hours,
        "bundle": record.bundle,
        "logs": action.logs(record, planned.script),
        "findings": [finding.as_dict() for finding in job.findings],
        "notes": [*job.notes, *planned.notes],
    }


def _costs(planned: Planned) -> str:
    if planned.gpu_hours is None:
        return "no time limit"
    return (
        f"{planned.gpu_hours:,.4g} GPU-hours at most "
        f"({planned.job.gpus} x {shlex.quote(planned.job.cluster.time)}"
        f"{f' x {planned.links} jobs' if planned.links > 1 else ''})"
    )


def _time(planned: Planned, store: Store) -> str:
    """Return whether the time limit is enough, as far as anybody knows; "" without a limit."""
    if planned.job.launcher != "slurm":
        return ""
    from moectl.actions.step_seconds import predicted_step_seconds  # noqa: PLC0415
    from moectl.actions.time_limit import fits  # noqa: PLC0415

    return fits(planned, predicted_step_seconds(planned.job, store))


def _secrets_note(planned: Planned) -> list[str]:
    missing = planned.missing_secrets
    return (
        [f"this shell does not have {', '.join(missing)}, which the job needs"] if missing else []
    )
