"""From what a person typed to a job with its findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from moectl.errors import MoectlError, UnknownNameError, UsageError, ValueUsageError
from moectl.facts import maxtext
from moectl.job import Job
from moectl.resolve import runtime
from moectl.resolve.job import Context, platform_of, resolve, with_findings
from moectl.resolve.merge import merge
from moectl.rules.run import codes, findings
from moectl.settings.files import (
    LOCK_NAME,
    Preset,
    RunFile,
    cluster_profile,
    preset,
    preset_names,
    run_file,
)
from moectl.settings.flatten import judge, raise_all
from moectl.settings.options import assignments, option
from moectl.settings.setting import Setting
from moectl.values import Hardware

# The number of GPUs is judged with the platform, which says what is legal near it.
_JUDGED_LATER = frozenset({"gpus"})
_ALLOWED = "allowed on the command line"
LOCAL = "local"


class CannotRenderError(MoectlError):
    """The model is known, but MaxText cannot run it."""

    def __init__(self, found: Preset) -> None:
        missing = found.estimate_only["missing"] if found.estimate_only else ""
        super().__init__(f"{found.name} can be estimated but not rendered: {missing}")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a person asks for beside the preset or run file; None leaves it to them.

    Attributes:
        options: run-file path to value and the option that said it, e.g.
            {"gpus": (128, "--gpus")}.
        sets: `key=value` texts of `--set`.
        cluster: path of a cluster profile.
        usual_cluster: the one of $MOECTL_CLUSTER, for runs that name none; a lock holds its own.
        allow: codes of findings that are overruled.
        fallbacks: like options, for what the run file itself does not say.
        fitted: settings that make the run fit a machine, stronger than all others.
    """

    options: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    sets: Sequence[str] = ()
    cluster: Path | None = None
    usual_cluster: Path | None = None
    allow: Sequence[str] = ()
    fallbacks: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    fitted: Sequence[Setting] = ()


def plan(target: str, wishes: Wishes) -> Job:
    """Return the job of a preset, run file or bundle, findings included.

    Args:
        target: preset name, path of a run or lock file, or a bundle's folder.
        wishes: what was asked for beside it.

    Raises:
        MoectlError: what was typed cannot be meant; the message says what is legal.
    """
    job = _planned(target, wishes)
    return _on_this_machine(job, target, wishes) if job.launcher == LOCAL else job


def _on_this_machine(job: Job, target: str, wishes: Wishes) -> Job:
    """Return the job as this machine can run it; its notes say what stands in for what."""
    from moectl.launch.local import gpus  # noqa: PLC0415 - few jobs are local
    from moectl.shrink.cpu import adapted, on_gpus, stand_ins  # noqa: PLC0415

    if (job.cluster.devices or ("gpu" if gpus() else "cpu")) == "gpu":
        return _planned(target, replace(wishes, fitted=(*wishes.fitted, *on_gpus())))
    found = stand_ins(job)
    fitted = _planned(target, replace(wishes, fitted=(*wishes.fitted, *adapted(found))))
    if fitted.gpus % fitted.processes:
        raise ValueUsageError(
            "cluster.processes",
            fitted.processes,
            f"a divisor of {fitted.gpus}, the devices that they share evenly",
        )
    said = f"{fitted.gpus} virtual CPU devices in {fitted.processes} process"
    notes = [said if fitted.processes == 1 else f"{said}es", *map(str, found)]
    return replace(fitted, notes=(*fitted.notes, *notes))


def _planned(target: str, wishes: Wishes) -> Job:
    """Return the job as it was asked for."""
    source = find(target)
    own_paths = {s.path for s in source.settings} if isinstance(source, RunFile) else set()
    filled = {p: wish for p, wish in wishes.fallbacks.items() if p not in own_paths}
    wished = {**filled, **wishes.options}
    said = [option(path, value, flag) for path, (value, flag) in wished.items()]
    faults = [
        fault
        for s in said
        if s.path not in _JUDGED_LATER and (fault := judge(s.path, s.value, s.origin))
    ]
    faults += _unknown_codes(wishes.allow, "--allow")
    raise_all(faults)
    file = source if isinstance(source, RunFile) else None
    found = source if isinstance(source, Preset) else _base_preset(source)
    if found is not None and found.estimate_only is not None:
        raise CannotRenderError(found)
    profile = wishes.cluster or (None if file and file.lock else wishes.usual_cluster)
    site = cluster_profile(profile) if profile else []
    own = list(file.settings) if file else []
    platform = platform_of([*own, *said], found)
    if file and file.lock:
        _refuse_thawing(file, wishes, platform)
    if file:
        raise_all(_unknown_codes([code for code, _ in file.accept], file.path))
    form = _chosen(wishes, "form") or (file.form if file else "") or "benchmark"
    layers: list[Setting] = []
    if found is not None:
        layers += found.settings(form, platform)
        if not any(setting.path == "gpus" for setting in [*own, *said]):
            said.append(option("gpus", found.gpus, f"preset {found.name}"))
    layers += [*site, *own]
    facts = dict(file.lock.get("facts") or {}) if file else {}
    image = runtime.image(merge([*layers, *said]), facts)
    sets, set_faults = assignments(wishes.sets, maxtext.load(image.maxtext))
    said += [*sets, *wishes.fitted]
    faults += set_faults
    platform = platform_of([*own, *said], found)
    context = Context(
        preset=found,
        hardware=platform,
        facts=facts,
        accept=_accepted(found, file, wishes.allow),
    )
    try:
        job = resolve([*layers, *said], context)
    except UsageError as error:
        faults.append(error)
    raise_all(faults)
    return with_findings(job, findings(job))


def _chosen(wishes: Wishes, path: str) -> str:
    """Return what an option or a `--set` says of a path that decides which layers are read."""
    for text in reversed(wishes.sets):
        key, _, value = text.partition("=")
        if key == path:
            return value
    return str(wishes.options.get(path, ("", ""))[0] or "")


def _refuse_thawing(file: RunFile, wishes: Wishes, platform: Hardware) -> None:
    """Refuse another form or platform for a lock, which holds the values of one of each.

    Raises:
        UsageError: with what to render instead.
    """
    held = merge(file.settings)
    for path, now in (("form", _chosen(wishes, "form")), ("hardware", platform.name)):
        if now and held.get(path) != now:
            raise UsageError(
                f"{file.path} is a lock: its values are those of {path} {held.get(path)}, so it "
                f"cannot become {now}; render {file.preset or 'the run file'} with it instead"
            )


def _unknown_codes(said: Sequence[str], where: str) -> list[UsageError]:
    if not said:
        return []
    known = codes()
    return [
        UnknownNameError("finding code", code, known, where=where)
        for code in said
        if code not in known
    ]


def find(target: str) -> Preset | RunFile:
    """Return what a target names: a preset, or else a run file.

    Raises:
        UnknownNameError: neither; the nearest presets are named.
    """
    if target in preset_names():
        return preset(target)
    path = Path(target)
    looks_like_path = "/" in target or path.suffix in {".yaml", ".yml"}
    if path.is_dir() and not (path / LOCK_NAME).is_file():
        raise UsageError(f"{path} is a folder without {LOCK_NAME}, so it is no bundle")
    if looks_like_path or path.exists():
        return run_file(path)
    raise UnknownNameError("preset", target, preset_names(), why="and no file of that name")


def _base_preset(file: RunFile) -> Preset | None:
    """Return the preset a run file builds on; a lock holds everything already."""
    if not file.preset or file.lock:
        return None
    return preset(file.preset, where=file.path)


def _accepted(
    found: Preset | None, file: RunFile | None, allow: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Return the accepted codes with their reasons, the weakest first."""
    accepted: dict[str, str] = {}
    if found is not None:
        accepted |= {row["code"]: row["reason"] for row in found.accept}
    if file is not None:
        accepted |= dict(file.accept)
    accepted |= {code: _ALLOWED for code in allow if code not in accepted}
    return tuple(accepted.items())
