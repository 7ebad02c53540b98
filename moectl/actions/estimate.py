"""Estimates a preset or run file: memory, FLOPs, step time and cost, before a GPU is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moectl.actions.calibrations import known
from moectl.actions.plan import Wishes, find, plan
from moectl.errors import MoectlError, UnknownNameError, UsageError, ValueUsageError
from moectl.estimate import flops
from moectl.estimate.architecture import Architecture, of_published
from moectl.estimate.assessment import (
    LIKELY,
    NEVER,
    SURE,
    Assessment,
    Prepared,
    Request,
    assess,
    cost,
    gpu_hours,
    gpus_that_hold,
    least,
    prepare,
)
from moectl.estimate.memory import fraction_of
from moectl.facts import hardware, maxtext
from moectl.facts.yaml_facts import read
from moectl.findings import Finding
from moectl.job import Job
from moectl.settings.files import Preset
from moectl.values import Hardware

_SLOP = "xla_gpu_memory_limit_slop_factor"
_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}
_GUIDE = "a YAML file can describe another one, see docs/estimates.md"
# What a published architecture is assessed as: the block, one sequence, bfloat16, full remat.
_USUAL: Mapping[str, Any] = {
    "per_device_batch_size": 1,
    "max_target_length": 4096,
    "gradient_accumulation_steps": 1,
    "te_moe_block": True,
    "attention": "cudnn_flash_te",
    "remat_policy": "full",
    "ragged_buffer_factor": 2.0,
}
_RELEASE = "0.2.5"
_GIB = 1 << 30
# Slices go to FSDP instead of replicas of the data, where moectl's own mesh has those.
_ALL_FSDP = ("dcn_data_parallelism=1", "dcn_fsdp_parallelism=-1")
_TRIES = 4  # doublings of the GPUs that arithmetic says hold it


@dataclass(frozen=True, slots=True)
class Budget:
    """What a budget of tokens takes: GPU-hours, days of all GPUs, and cost if a price is given."""

    tokens: float
    hours: float
    days: float
    price: float | None

    @property
    def cost(self) -> float | None:
        """Return the cost in the currency of the price."""
        return None if self.price is None else cost(self.hours, self.price)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an estimate answers.

    Attributes:
        target: what was asked for.
        assessment: the estimate.
        job: the job; None for a model that MaxText cannot run.
        batch, sequence, accumulation: sequences a device and micro-step, tokens a sequence,
            micro-steps.
        budget: of `--tokens`.
        holds: GPUs that the model takes at one sequence a GPU, where it does not fit.
        holds_with: what to `--set` there beside the batch; empty for the mesh moectl chooses.
        errors: codes of error findings of the job.
        notes: what the person should know.
        findings: the error findings whole.
    """

    target: str
    assessment: Assessment
    job: Job | None
    batch: float
    sequence: int
    accumulation: int
    budget: Budget | None
    holds: int | None
    errors: tuple[str, ...]
    notes: tuple[str, ...]
    holds_with: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def estimate(
    target: str,
    wishes: Wishes,
    *,
    tokens: str | None = None,
    price: str | None = None,
    calibration: Mapping[str, float] | None = None,
) -> Answer:
    """Return the estimate of a preset, a run file or a bundle.

    Args:
        target: preset name, path of a run or lock file, or a bundle's folder.
        wishes: what was asked for beside it. `hardware` may be the path of a YAML file.
        tokens: a budget of tokens, e.g. "14.8T".
        price: price of a GPU-hour, e.g. "2".
        calibration: measured efficiencies by the names of facts/data/step_model.yaml; left out,
            those that `moectl calibrate` kept for the platform and image.

    Raises:
        MoectlError: what was typed cannot be meant; the message says what is legal.
    """
    amount = None if tokens is None else quantity("--tokens", tokens)
    each = None if price is None else quantity("--price", price)
    if each is not None and amount is None:
        raise UsageError("--price needs a budget: --tokens, e.g. --tokens 14.8T")
    wishes = _own_hardware(wishes)
    found = find(target)
    if isinstance(found, Preset) and found.estimate_only is not None:
        answer = _published(target, found, wishes)
    else:
        job = _planned(target, wishes)
        answer = _of_job(target, wishes, job, calibration or known(job))
    time = answer.assessment.time
    if amount is None:
        return answer
    if time is None:
        note = "without a step time there is no cost of the tokens"
        return replace(answer, notes=(*answer.notes, note))
    hours = gpu_hours(amount, time.tokens_per_second())
    days = hours / answer.assessment.request.gpus / 24
    return replace(answer, budget=Budget(amount, hours, days, each))


def quantity(option: str, text: str) -> float:
    """Return a number with a unit of thousands, e.g. "14.8T".

    Raises:
        ValueUsageError: it is none, or not above zero.
    """
    number, unit = text.strip(), ""
    if number[-1:].upper() in _UNITS and number[-1:].isalpha():
        number, unit = number[:-1], number[-1].upper()
    try:
        value = float(number) * _UNITS[unit] if number.isascii() else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < 1e30:
        raise ValueUsageError(option, text, "a number above zero, e.g. 14.8T, 100B or 2")
    return value


def _planned(target: str, wishes: Wishes) -> Job:
    try:
        return plan(target, wishes)
    except UnknownNameError as error:
        if error.kind != "hardware":
            raise
        raise UnknownNameError(
            error.kind, error.name, hardware.known(), where=error.where, why=_GUIDE
        ) from error


def _own_hardware(wishes: Wishes) -> Wishes:
    """Take a platform from the file that `--hardware` names, if it names one."""
    said = wishes.options.get("hardware")
    if said is None or Path(str(said[0])).suffix not in {".yaml", ".yml"}:
        return wishes
    from moectl.settings.hardware_file import hardware_file  # noqa: PLC0415

    name = hardware_file(Path(str(said[0]))).name
    return replace(wishes, options={**wishes.options, "hardware": (name, said[1])})


def request_of(job: Job, calibration: Mapping[str, float] | None = None) -> Request:
    """Return what a job is assessed for."""
    facts = read("memory.yaml")
    said = {name: value.value for name, value in job.environment.items()}
    slop = job.xla_flags[_SLOP].value if _SLOP in job.xla_flags else facts["default_slop"]
    return Request(
        hardware=job.hardware,
        ici={name: degree.ici for name, degree in job.mesh.degrees.items()},
        dcn={name: degree.dcn for name, degree in job.mesh.degrees.items()},
        fraction=fraction_of(said),
        slop=int(slop),
        calibration=calibration,
    )


def _of_job(
    target: str, wishes: Wishes, job: Job, calibration: Mapping[str, float] | None
) -> Answer:
    release = maxtext.load(job.container.image.maxtext).release
    values = dict(job.effective)
    prepared = prepare(values, release)
    request = request_of(job, calibration)
    stops = tuple(finding for finding in job.findings if finding.stops)
    found = assess(prepared, values, request)
    notes = list(job.notes)
    if found.memory is None:
        notes.append(
            "memory is not estimated: there is no table of these weights (scan_layers false, "
            "pipeline stages, an architecture or a dtype that it does not follow)"
        )
    if prepared.model is None:
        notes.append("FLOPs are not estimated: this decoder is counted by other formulas")
    elif found.time is None:
        notes.append(f"{request.hardware.name} has no published peaks, so no time is estimated")
    holds: int | None = None
    holds_with: tuple[str, ...] = ()
    if found.verdict == NEVER:
        notes.append(_why_not(found))
        holds, holds_with = _held(target, wishes, job, prepared, request)
    return Answer(
        target=target,
        assessment=found,
        job=job,
        batch=float(job.batch.per_device),
        sequence=job.batch.sequence_length,
        accumulation=job.batch.accumulation,
        budget=None,
        holds=holds,
        errors=tuple(dict.fromkeys(finding.code for finding in stops)),
        notes=tuple(notes),
        holds_with=holds_with,
        findings=stops,
    )


def _why_not(found: Assessment) -> str:
    """Say what of a step does not fit: the part of it for which the verdict was given."""
    memory, room = found.memory, found.room
    assert memory is not None  # noqa: S101 - it has a verdict
    assert room is not None  # noqa: S101 - it has a verdict
    if memory.measured:
        what = "the middle of the range is"
    elif memory.compiled:
        what = "even the low end of the range is"
    else:
        held = [] if memory.weights_host else ["weights"]
        held += [] if memory.moments_host or not memory.moments else ["moments"]
        what = f"{', '.join(held)} and gradients alone are" if held else "gradients alone are"
    size, pool = least(memory) / _GIB, room.pool / _GIB
    return f"{what} {size:.1f} GiB, and XLA's pool has {pool:.1f} GiB"


def _held(
    target: str, wishes: Wishes, job: Job, prepared: Prepared, request: Request
) -> tuple[int | None, tuple[str, ...]]:
    """Return the GPUs that hold a model at one sequence a GPU, and what to set there.

    A number is given only where the same run, planned on that many GPUs, is said to fit or
    should fit: on the mesh that moectl chooses, else with FSDP over all slices.
    """
    ici, dcn = dict(request.ici), dict(request.dcn)
    replicas = ici.pop("data", 1) * dcn.pop("data", 1)
    folded = replace(request, ici={**ici, "fsdp": ici.get("fsdp", 1) * replicas}, dcn=dcn)
    start = gpus_that_hold(prepared, dict(job.effective), folded)
    if start is None:
        return None, ()
    known_faults = {finding.code for finding in job.findings if finding.stops}
    for sets in ((), _ALL_FSDP):
        for gpus in (start << power for power in range(_TRIES)):
            asked = replace(
                wishes,
                options={k: v for k, v in wishes.options.items() if not k.startswith("batch.")}
                | {"gpus": (gpus, "--gpus")},
                sets=(*wishes.sets, "per_device_batch_size=1", *sets),
            )
            try:
                other = plan(target, asked)
            except MoectlError:  # no such mesh, or the person has said another
                continue
            values = dict(other.effective)
            release = maxtext.load(other.container.image.maxtext).release
            found = assess(prepare(values, release), values, request_of(other))
            faults = {finding.code for finding in other.findings if finding.stops}
            if other.gpus == gpus and found.verdict in {SURE, LIKELY} and faults <= known_faults:
                return gpus, sets
    return None, ()


def _published(target: str, found: Preset, wishes: Wishes) -> Answer:
    """Return the estimate of a model that MaxText cannot run, from its published dimensions."""
    assert found.estimate_only is not None  # noqa: S101 - the caller has looked
    if wishes.sets:
        raise UsageError(
            f"{found.name} has no run that --set could change: {found.estimate_only['missing']}"
        )
    said = {path: value for path, (value, _) in wishes.options.items()}
    platform = _platform(str(said.get("hardware", found.hardware)))
    gpus = int(said.get("gpus", found.gpus))
    model = of_published(found.estimate_only["architecture"])
    ici, dcn = _spread(gpus, platform, model)
    facts = read("memory.yaml")
    total, active = flops.parameters(model)
    prepared = Prepared(found.name, _RELEASE, model, None, total, active)
    request = Request(
        platform, ici, dcn, float(facts["common_fraction"]), int(facts["default_slop"])
    )
    return Answer(
        target=target,
        assessment=assess(prepared, _USUAL, request),
        job=None,
        batch=1.0,
        sequence=int(_USUAL["max_target_length"]),
        accumulation=1,
        budget=None,
        holds=None,
        errors=(),
        notes=(
            f"MaxText cannot run it: {found.estimate_only['missing']}",
            "parameters, FLOPs and time are from its published dimensions, as if it ran with the "
            "MoEBlock in bfloat16, one sequence of 4096 a GPU and full remat; memory is not "
            "estimated",
        ),
    )


def _platform(name: str) -> Hardware:
    try:
        return hardware.platform(name, where="--hardware")
    except UnknownNameError as error:
        raise UnknownNameError(
            error.kind, error.name, hardware.known(), where="--hardware", why=_GUIDE
        ) from error


def _spread(
    gpus: int, platform: Hardware, model: Architecture
) -> tuple[dict[str, int], dict[str, int]]:
    """Return a usual mesh: experts over 8 GPUs where they divide, FSDP over the rest."""
    from moectl.mesh import MeshError, MeshRequest, nearest_legal, solve  # noqa: PLC0415

    node = platform.gpus_per_node
    if gpus < 1 or gpus % node:
        near = nearest_legal(gpus, [node * count for count in range(1, gpus // node + 3)], 1)
        raise ValueUsageError(
            "--gpus",
            gpus,
            f"{platform.name} has {node} GPUs a node, so it is a multiple of {node}, e.g. "
            + " or ".join(map(str, near)),
        )
    try:
        return solve(
            MeshRequest(
                gpus=gpus,
                gpus_per_node=platform.gpus_per_node,
                domain_gpus=platform.usable_domain_gpus,
                ici={"expert": 8},
                dcn={},
                experts=model.experts,
            )
        )
    except MeshError as error:
        raise ValueUsageError("--gpus", gpus, str(error)) from error
