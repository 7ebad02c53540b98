"""What `import moectl` offers: the commands as functions, without options, printing or exits.

Every function takes plain values, returns a typed result and raises
`moectl.errors.MoectlError` where the command would say why and leave with its exit code.
Modules are loaded when a function first needs them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from moectl.actions.api_runs import (
    Path_,
    cancel,
    compare,
    diff,
    import_,
    report,
    resume,
    runs,
    scaling,
    status,
    trace,
    verify,
)
from moectl.actions.plan import Wishes

if TYPE_CHECKING:
    from moectl.actions.estimate import Answer
    from moectl.actions.planning import Planned
    from moectl.actions.prove import Proof
    from moectl.actions.rehearse import Rehearsal
    from moectl.actions.render import Rendered
    from moectl.checked import Report as Checked
    from moectl.job import Job
    from moectl.launch.record import RunRecord


__all__ = [
    "Asks",
    "cancel",
    "compare",
    "diff",
    "estimate",
    "explain",
    "import_",
    "launch",
    "plan",
    "prove",
    "rehearse",
    "render",
    "report",
    "resume",
    "runs",
    "scaling",
    "show",
    "status",
    "trace",
    "validate",
    "verify",
]


class Asks(TypedDict, total=False):
    """What may be asked for beside a target; all of it may be left out.

    Attributes:
        gpus: GPUs in all.
        hardware: GPU platform, a name or alias of `moectl hardware list`.
        form: "benchmark" or "pretrain".
        name: name of the run.
        image: container image.
        launcher: "slurm", "local" or "kubernetes".
        global_batch: sequences a step over all GPUs.
        settings: paths of a run file or MaxText keys, with their values.
        cluster: path of a cluster profile; without one the profile of $MOECTL_CLUSTER counts
            no more than it does for a command: where the target names none.
        allow: codes of findings that are overruled.
    """

    gpus: int
    hardware: str
    form: str
    name: str
    image: str
    launcher: str
    global_batch: int
    settings: Mapping[str, Any]
    cluster: Path_
    allow: Collection[str]


_PATHS = {
    "gpus": "gpus",
    "hardware": "hardware",
    "form": "form",
    "name": "name",
    "image": "container.image",
    "launcher": "launcher",
    "global_batch": "batch.global",
}
_OTHERS = frozenset({"settings", "cluster", "allow"})


def show(target: Path_, **asks: Unpack[Asks]) -> Job:
    """Return the job of a preset, run file or bundle: every value with its origin, findings too.

    Raises:
        MoectlError: what was asked for cannot be meant.
    """
    from moectl.actions.plan import plan as planned  # noqa: PLC0415

    return planned(os.fspath(target), _wishes(asks))


def render(
    target: Path_, output: Path_ | None = None, *, force: bool = False, **asks: Unpack[Asks]
) -> Rendered:
    """Return the files of a job, and write them when a folder is named.

    Args:
        target: preset, run file, or folder of a bundle.
        output: folder of the bundle; None writes nothing.
        force: whether files that are there already are replaced.
        asks: see `Asks`.

    Raises:
        FindingsError: error findings remain that nobody allowed.
        LocalFilesError: the folder holds other files, or the file system refuses.
        MoectlError: what was asked for cannot be meant.
    """
    from moectl.actions import render as action  # noqa: PLC0415

    rendered = action.render(os.fspath(target), _wishes(asks))
    if output is not None:
        action.write(rendered, Path(output), force=force)
    return rendered


def validate(
    *paths: Path_,
    gpus: int | None = None,
    gpus_per_node: int | None = None,
    hardware: str | None = None,
    image: str | None = None,
    maxtext: str | None = None,
    jaxlib: str | None = None,
    xla_flags: str | None = None,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
) -> Checked:
    """Return what would fail on the cluster, in any files that start training.

    Args:
        paths: files and folders.
        gpus: GPUs in all, where no file says it; `gpus_per_node` likewise.
        gpus_per_node: GPUs a node.
        hardware: GPU platform, where no file says it; `image` likewise.
        image: container image.
        maxtext: MaxText release to judge against; `jaxlib` likewise.
        jaxlib: jaxlib release to judge against.
        xla_flags: a text of XLA_FLAGS to judge by itself.
        select: codes or families to report; empty for all.
        ignore: codes or families to leave out.

    Raises:
        MoectlError: a value cannot be meant. What a file is refused for is a finding.
    """
    from moectl.actions.validate import validate as checked  # noqa: PLC0415
    from moectl.given import Given  # noqa: PLC0415

    given = Given(
        gpus=gpus,
        gpus_per_node=gpus_per_node,
        hardware=hardware,
        image=image,
        maxtext=maxtext,
        jaxlib=jaxlib,
        xla_flags=() if xla_flags is None else (xla_flags,),
        select=tuple(select),
        ignore=tuple(ignore),
    )
    return checked([os.fspath(path) for path in paths], given)


def explain(name: str) -> list[dict[str, Any]]:
    """Return what a code, key, path, flag, variable, preset or platform stands for.

    Raises:
        UsageError: nobody knows the name; the nearest are named.
    """
    from moectl.actions.explain import explain as explained  # noqa: PLC0415

    return explained(name)


def estimate(
    target: Path_,
    *,
    tokens: float | None = None,
    price: float | None = None,
    **asks: Unpack[Asks],
) -> Answer:
    """Return memory, FLOPs, step time and cost of a job, as ranges with their sources.

    Args:
        target: preset, run file, or folder of a bundle.
        tokens: tokens to train on, for the time and GPU-hours of a whole training.
        price: price of a GPU-hour.
        asks: see `Asks`.

    Raises:
        MoectlError: what was asked for cannot be meant.
    """
    from moectl.actions.estimate import estimate as estimated  # noqa: PLC0415

    return estimated(
        os.fspath(target),
        _wishes(asks),
        tokens=None if tokens is None else repr(tokens),
        price=None if price is None else repr(price),
    )


def plan(target: Path_, *, top: int = 5, **asks: Unpack[Asks]) -> Planned:
    """Return the best meshes, micro-batches and remat policies, ranked by predicted speed.

    Args:
        target: preset, run file, or folder of a bundle.
        top: how many are judged by every rule and returned.
        asks: see `Asks`; `gpus` is wanted where the target does not say it itself.

    Raises:
        MoectlError: what was asked for cannot be meant, or no mesh is possible.
    """
    from moectl.actions.planning import Ask, own_gpus, planned  # noqa: PLC0415
    from moectl.errors import UsageError  # noqa: PLC0415

    batch = asks.get("global_batch")
    others = {name: value for name, value in asks.items() if name != "global_batch"}
    ask = Ask(os.fspath(target), _wishes(others), batch, top)
    gpus = asks.get("gpus") or own_gpus(ask)
    if gpus is None:
        raise UsageError("plan wants gpus")
    return planned(ask, gpus)


def prove(
    target: Path_,
    *,
    layers: int | None = None,
    fresh: bool = False,
    timeout: float | None = None,
    tell: Callable[[str], None] | None = None,
    **asks: Unpack[Asks],
) -> Proof:
    """Return what the real compiler says of the real training step, without a GPU (minutes).

    Args:
        target: preset, run file, or folder of a bundle.
        layers: compile models of so many and twice as many layers and extrapolate.
        fresh: whether to compile again what is known already.
        timeout: seconds that a compile may take.
        tell: gets a sentence whenever something that takes long begins.
        asks: see `Asks`.

    Raises:
        MoectlError: what was asked for cannot be meant, or the compiler refuses.
    """
    from moectl.actions.prove import prove as proved  # noqa: PLC0415

    return proved(
        os.fspath(target), _wishes(asks), layers=layers, fresh=fresh, seconds=timeout, say=tell
    )


def rehearse(
    target: Path_,
    *,
    steps: int | None = None,
    tell: Callable[[str], None] | None = None,
    **asks: Unpack[Asks],
) -> Rehearsal:
    """Train the same run made small on this machine, and return what was judged (minutes).

    Args:
        target: preset, run file, or folder of a bundle.
        steps: steps to train.
        tell: gets a sentence whenever something that takes long begins.
        asks: see `Asks`.

    Raises:
        MoectlError: what was asked for cannot be meant, or nothing can be trained here.
    """
    from moectl.actions import rehearse as action  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415

    staged = action.stage(os.fspath(target), _wishes(asks), steps)
    return action.rehearse(staged, Store(), tell or _silent)


def launch(
    target: Path_,
    *,
    again: bool = False,
    agreed: bool = False,
    tell: Callable[[str], None] | None = None,
    **asks: Unpack[Asks],
) -> RunRecord:
    """Render, submit and write down a run; return its record.

    Args:
        target: preset, run file, or a bundle, which is launched as it stands.
        again: whether a live run of the same name is no obstacle.
        agreed: whether GPU-hours beyond the limit of the cluster profile are agreed to.
        tell: gets a sentence whenever something that takes long begins.
        asks: see `Asks`.

    Raises:
        FindingsError: error findings remain that nobody allowed.
        BackendError: the scheduler refuses or cannot be asked.
        MoectlError: what was asked for cannot be meant.
    """
    from moectl.actions import launch as action  # noqa: PLC0415
    from moectl.launch.store import Store  # noqa: PLC0415
    from moectl.launch.submit import launch as submitted  # noqa: PLC0415

    planned = action.plan_launch(os.fspath(target), _wishes(asks))
    action.require_secrets(planned)
    backend = action.backend_of(planned.job)
    action.prepare(planned, tell or _silent)
    action.require_agreement(planned, None if agreed else action.limit(planned.job), None)
    return submitted(
        Store(),
        backend,
        action.intent(planned),
        action.writer(planned),
        again=again,
        bundles=action.bundles(planned.job),
    )


def _wishes(asks: Mapping[str, Any]) -> Wishes:
    """Return what was asked for, as the actions take it.

    Raises:
        UsageError: a name that nothing is asked by.
    """
    from moectl.errors import UnknownNameError  # noqa: PLC0415
    from moectl.settings.emit import flow  # noqa: PLC0415
    from moectl.settings.profiles import find  # noqa: PLC0415

    for name in asks.keys() - _PATHS.keys() - _OTHERS:
        raise UnknownNameError("argument", name, [*_PATHS, *_OTHERS])
    cluster = asks.get("cluster")
    return Wishes(
        options={
            path: (asks[name], name) for name, path in _PATHS.items() if asks.get(name) is not None
        },
        sets=tuple(
            f"{key}={flow(value, omegaconf=False)}"
            for key, value in (asks.get("settings") or {}).items()
        ),
        cluster=None if cluster is None else find(os.fspath(cluster), os.environ),
        usual_cluster=find(None, os.environ) if cluster is None else None,
        allow=tuple(asks.get("allow") or ()),
    )


def _silent(_: str) -> None:
    """Tell nobody."""
