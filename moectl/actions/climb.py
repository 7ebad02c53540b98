"""Climbs: runs of growing size, each started only when the one below passed its gate.

The gates are jobs too, and the scheduler holds the dependencies, so nobody's machine has to
stay awake. What is submitted can be told from the records alone: a climb that was interrupted
goes on where it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from moectl.actions.launch import backend_of, intent, plan_launch
from moectl.actions.plan import Wishes
from moectl.actions.render import Rendered, write
from moectl.campaign.gates import files, thresholds
from moectl.campaign.ladder import (
    Climb,
    Rung,
    bundle_of,
    gate_of,
    load,
    root,
    save,
)
from moectl.campaign.standing import Ladder, gates_of, job_of, look
from moectl.errors import BackendError, MoectlError, UsageError
from moectl.files import write_folder
from moectl.launch.backend import Backend
from moectl.launch.record import RunRecord
from moectl.launch.settle import moment
from moectl.launch.store import Store, run_id
from moectl.launch.submit import launch
from moectl.settings.bundle_names import LAUNCH

_ATTEMPTS = 1000
# What waits for a gate that failed is taken out of the queue.
_WITHDRAWN = ("--kill-on-invalid-dep=yes",)


def plan_climb(
    target: str, wishes: Wishes, counts: Sequence[int], said: Mapping[str, float]
) -> tuple[Climb, list[Rendered]]:
    """Return a climb with its rendered rungs; nothing is written.

    Raises:
        UsageError: rungs that do not grow, or a gate that nothing can pass.
        MoectlError: a rung cannot be rendered, as `launch` says it.
    """
    if len(counts) < 2 or list(counts) != sorted(set(counts)):
        raise UsageError(
            f"--rungs {','.join(map(str, counts))} do not climb: two or more numbers of GPUs, "
            "each larger than the one before"
        )
    asked = thresholds(said)
    if not 0 < asked["efficiency"] <= 1.5 or asked["straggler"] < 1 or asked["loss"] <= 0:
        raise UsageError(
            "no rung could pass: an efficiency lies between 0 and 1.5, a straggler factor is 1 or "
            "more, a loss tolerance above 0"
        )
    name = _rendered(target, wishes, counts[0]).job.name
    rendered = [_rendered(target, wishes, gpus, name) for gpus in counts]
    for one in rendered:
        steps = one.job.effective.get("steps")
        if isinstance(steps, int) and steps <= asked["skip"]:
            raise UsageError(
                f"no rung could pass: it has {steps} steps and the first {int(asked['skip'])} do "
                f"not count; --set steps={int(asked['skip']) + 10}"
            )
    now = moment()
    identity = run_id(name, now)
    rungs = tuple(_rung(name, gpus, now, 1) for gpus in counts)
    words = {
        "options": {path: [value, flag] for path, (value, flag) in wishes.options.items()},
        "sets": list(wishes.sets),
        "cluster": str(wishes.cluster) if wishes.cluster else None,
        "usual_cluster": str(wishes.usual_cluster) if wishes.usual_cluster else None,
        "allow": list(wishes.allow),
    }
    absolute = str(Path(target).absolute()) if Path(target).exists() else target
    return Climb(identity, name, absolute, now, words, asked, rungs), rendered


def start(store: Store, climb: Climb, rendered: Sequence[Rendered]) -> Ladder:
    """Write a climb down and submit it.

    Raises:
        BackendError: the scheduler would refuse a rung, or cannot be asked; nothing is left.
        LocalFilesError: the file system refuses.
    """
    backend = _scheduler(rendered[0])
    folder = root(store.root) / climb.id
    for one in rendered:
        try:
            backend.test(one.files[LAUNCH], Path.cwd())
        except BackendError as error:
            raise BackendError(
                f"the rung of {one.job.gpus} GPUs cannot run here: {error}"
            ) from None
    for index, one in enumerate(rendered):
        _write_rung(folder, climb, index, one)
    save(root(store.root), climb)
    return _advance(store, backend, climb)


def resume(
    store: Store, said: str, sets: Sequence[str] = (), change: Mapping[str, float] | None = None
) -> Ladder:
    """Go on with a climb: submit what was never submitted, and try again from a failed rung.

    Args:
        store: where records lie.
        said: the climb.
        sets: further `--set`s, from the failed rung on.
        change: thresholds that are others from now on.

    Raises:
        UsageError: every rung passed, or one is under way.
        MoectlError: as of `start`.
    """
    climb = load(root(store.root), said)
    folder = root(store.root) / climb.id
    wishes = _wishes(climb.said)
    wishes = replace(wishes, sets=(*wishes.sets, *sets))
    rendered = _rendered(climb.target, wishes, climb.rungs[0].gpus, climb.name)
    backend = _scheduler(rendered)
    if change:
        climb = replace(climb, thresholds={**climb.thresholds, **change})
    now = look(store, backend, climb)
    if now.unreachable:
        raise BackendError(now.unreachable)
    if now.done:
        raise UsageError(f"{climb.id} is done: every rung passed")
    first = next(
        (index for index, one in enumerate(now.rungs) if one.state in {"failed", "lost"}), None
    )
    if first is not None:
        if sets:
            climb = replace(climb, said={**climb.said, "sets": list(wishes.sets)})
        for one in now.rungs[first:]:
            _end(store, backend, folder, one.rung)
        moment_now = moment()
        for index in range(first, len(climb.rungs)):
            old = climb.rungs[index]
            attempt = _free(folder, old)
            rung = _rung(climb.name, old.gpus, moment_now, attempt)
            climb = climb.renewed(index, rung)
            _write_rung(folder, climb, index, _rendered(climb.target, wishes, old.gpus, climb.name))
        save(root(store.root), climb)
    return _advance(store, backend, climb)


def _advance(store: Store, backend: Backend, climb: Climb) -> Ladder:
    """Submit every rung and gate that is not, each behind the one before."""
    folder = root(store.root) / climb.id
    now = look(store, backend, climb)
    before: str | None = None  # the gate's job that the next rung waits for
    for index, one in enumerate(now.rungs):
        rung = climb.rungs[index]
        if one.state == "failed":
            break
        if one.state == "passed":
            before = None
            continue
        job = one.job
        if not job:
            options = [f"--dependency=afterok:{before}", *_WITHDRAWN] if before else []
            job = _submitted(store, backend, climb, rung, options)
        gate = job_of(gates_of(folder), rung.gate)
        if not gate:
            gate = _submitted_gate(folder, backend, rung, job)
        before = gate
    return look(store, backend, climb)


def _submitted(
    store: Store, backend: Backend, climb: Climb, rung: Rung, options: Sequence[str]
) -> str:
    folder = root(store.root) / climb.id
    bundle = bundle_of(folder, rung)
    planned = plan_launch(str(bundle), Wishes())
    record = replace(intent(planned), id=rung.run, target=climb.target, bundle=str(bundle))
    return _launched(store, backend, record, options)


def _submitted_gate(folder: Path, backend: Backend, rung: Rung, job: str) -> str:
    record = RunRecord(
        id=rung.gate,
        name=rung.gate,
        created=moment(),
        launcher=backend.name,
        target=str(gate_of(folder, rung)),
        bundle=str(gate_of(folder, rung)),
        gpus=0,
        nodes=1,
        hardware="",
    )
    return _launched(gates_of(folder), backend, record, [f"--dependency=afterany:{job}"])


def _launched(store: Store, backend: Backend, record: RunRecord, options: Sequence[str]) -> str:
    known = job_of(store, record.id)
    if known:
        return known
    found = launch(store, backend, record, lambda _: None, options=options, again=True)
    return found.job_ids[-1]


def _end(store: Store, backend: Backend, folder: Path, rung: Rung) -> None:
    """End what is left of a rung that is tried again: it waits for what never comes."""
    for held, identity in ((store, rung.run), (gates_of(folder), rung.gate)):
        if job := job_of(held, identity):
            backend.cancel([job], identity)


def _scheduler(rendered: Rendered) -> Backend:
    """Return what holds dependencies between jobs.

    Raises:
        UsageError: the launcher holds none.
    """
    backend = backend_of(rendered.job)
    if backend.name != "slurm":
        raise UsageError(
            f"a climb wants a scheduler that holds dependencies between jobs, which {backend.name} "
            "does not: climb on a Slurm cluster"
        )
    return backend


def _rendered(target: str, wishes: Wishes, gpus: int, name: str = "") -> Rendered:
    """Return a rung; each has a name of its own, so that none takes up another's checkpoints."""
    said = {**wishes.options, "gpus": (gpus, "--rungs")}
    if name:
        said["name"] = (f"{name}-{gpus}", "--rungs")
    return plan_launch(target, replace(wishes, options=said)).rendered


def _rung(name: str, gpus: int, now: str, attempt: int) -> Rung:
    run = run_id(f"{name}-{gpus}", now)
    return Rung(gpus, run, f"{run}-gate", attempt)


def _free(folder: Path, rung: Rung) -> int:
    """Return the next attempt whose folders are not there."""
    for attempt in range(rung.attempt + 1, _ATTEMPTS):
        tried = replace(rung, attempt=attempt)
        if not bundle_of(folder, tried).exists() and not gate_of(folder, tried).exists():
            return attempt
    raise UsageError(f"{folder} holds {_ATTEMPTS} attempts of {rung.gpus} GPUs; begin a new climb")


def _write_rung(folder: Path, climb: Climb, index: int, rendered: Rendered) -> None:
    rung = climb.rungs[index]
    folder.mkdir(parents=True, exist_ok=True)
    write(rendered, bundle_of(folder, rung))
    held = {name: text.encode() for name, text in files(folder, climb, index, rendered.job).items()}
    write_folder(gate_of(folder, rung), held, seal="asked.json", force=True)


def _wishes(said: Mapping[str, Any]) -> Wishes:
    return Wishes(
        options={path: (value, flag) for path, (value, flag) in said["options"].items()},
        sets=tuple(said["sets"]),
        cluster=Path(said["cluster"]) if said["cluster"] else None,
        usual_cluster=Path(said["usual_cluster"]) if said["usual_cluster"] else None,
        allow=tuple(said["allow"]),
    )


def shown(store: Store, said: str) -> Ladder:
    """Return a climb as it is now; without a scheduler, as far as verdicts tell.

    Raises:
        UnknownNameError: there is none of that name.
    """
    climb = load(root(store.root), said)
    try:
        backend = _scheduler(_rendered(climb.target, _wishes(climb.said), climb.rungs[0].gpus))
    except MoectlError:
        return look(store, None, climb)
    return look(store, backend, climb)
