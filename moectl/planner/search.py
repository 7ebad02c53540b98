"""Ranks meshes, micro-batches and remat policies by predicted tokens a second.

A candidate is refused for the first reason that holds: a weight that the mesh does not divide,
memory. What remains is ranked by the middle prediction; each mesh counts once, with its best
micro-batch and policy. Nothing is drawn at random: the same question has the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from moectl.estimate.assessment import NEVER, OPEN, Assessment, Prepared, Request, assess, mesh_of
from moectl.estimate.layout import Layout as Weights
from moectl.estimate.memory import GIB
from moectl.planner.meshes import Layout

UNDIVIDED = "a weight is not divided by the axes that cut it"
_OWN = "as it is"
_TOLERANCE = 0.02  # MaxText 0.2.5 configs/base.yml sharding_tolerance


@dataclass(frozen=True, slots=True)
class Trial:
    """A micro-batch and a remat policy.

    Attributes:
        batch: sequences a GPU and micro-step.
        accumulation: micro-steps a step.
        remat: name of the policy.
        values: MaxText keys that it sets.
    """

    batch: int
    accumulation: int
    remat: str
    values: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mesh with a micro-batch and a remat policy, and what is predicted of it.

    Attributes:
        layout: the mesh.
        trial: micro-batch and policy.
        assessment: memory and time.
    """

    layout: Layout
    trial: Trial
    assessment: Assessment

    @property
    def tokens_per_second(self) -> float:
        """Return the tokens a second and GPU, middle prediction; 0 where none can be made."""
        time = self.assessment.time
        return time.tokens_per_second() if time is not None else 0.0

    @property
    def peak_bytes(self) -> int:
        """Return the middle estimate of a GPU's memory in bytes."""
        found = self.assessment.memory
        return found.total() if found is not None else 0


@dataclass(frozen=True, slots=True)
class Refused:
    """A mesh that is not among the ranked ones.

    Attributes:
        layout: the mesh.
        why: the reason.
        peak: bytes of a GPU's memory that its smallest trial takes, where that is the reason.
    """

    layout: Layout
    why: str
    peak: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched.

    Attributes:
        prepared: the model.
        values: effective MaxText values that no candidate changes.
        request: platform and memory settings; its mesh is replaced.
        layouts: the meshes.
        trials: the micro-batches and policies of each.
        widened: meshes of which all trials are tried, the best of more.
    """

    prepared: Prepared
    values: Mapping[str, Any]
    request: Request
    layouts: Sequence[Layout]
    trials: Sequence[Trial]
    widened: int


def search(question: Question) -> tuple[list[Candidate], list[Refused]]:
    """Return the candidates, best first, one a mesh, and the meshes that are refused."""
    refused: list[Refused] = []
    standing: list[tuple[Layout, Prepared]] = []
    for layout in question.layouts:
        prepared = divided(question, layout)
        if prepared is None:
            refused.append(Refused(layout, UNDIVIDED))
        else:
            standing.append((layout, prepared))
    if len(standing) > question.widened and question.trials:
        least = _least(question.trials)
        first = [(_assessed(question, each, least), each) for each in standing]
        first.sort(key=lambda item: _order(item[0]))
        standing = [each for _, each in first[: question.widened]]
        for candidate, each in first[question.widened :]:
            told = _unfit(candidate) or "slower than others at one sequence a GPU"
            refused.append(Refused(each[0], told))
    ranked: list[Candidate] = []
    for each in standing:
        tried = [_assessed(question, each, trial) for trial in question.trials]
        fitting = [candidate for candidate in tried if _unfit(candidate) is None]
        if fitting:
            ranked.append(min(fitting, key=_order))
        elif tried:
            least_candidate = min(tried, key=lambda candidate: candidate.peak_bytes)
            why = _unfit(least_candidate) or ""
            refused.append(Refused(each[0], why, least_candidate.peak_bytes))
    return _distinct(sorted(ranked, key=_order), refused), refused


def _distinct(ranked: Sequence[Candidate], refused: list[Refused]) -> list[Candidate]:
    """Return the best slicing of every set of degrees; the others are refused."""
    kept: dict[tuple[tuple[str, int], ...], Candidate] = {}
    for candidate in ranked:
        best = kept.setdefault(candidate.layout.totals(), candidate)
        if best is not candidate:
            why = f"the same degrees lie better as {best.layout}"
            refused.append(Refused(candidate.layout, why))
    return list(kept.values())


def _least(trials: Sequence[Trial]) -> Trial:
    """Return the trial that takes the least memory: the smallest batch, the last policy's."""
    return min(trials, key=lambda trial: (trial.batch, trial.remat == _OWN, trial.remat))


def divided(question: Question, layout: Layout) -> Prepared | None:
    """Return the model with its weights cut over a mesh; None where that cannot be."""
    prepared = question.prepared
    if prepared.layout is None:
        return prepared
    mesh = mesh_of(dict(layout.ici), dict(layout.dcn), prepared.release)
    try:
        narrowed = prepared.layout.narrowed(mesh)
    except ValueError:
        return None
    if narrowed is prepared.layout:
        return prepared
    if not narrowed.divides(mesh) or _stuck(question, prepared.layout, mesh):
        return None
    return replace(prepared, layout=narrowed)


def _stuck(question: Question, held: Weights, mesh: Mapping[str, int]) -> bool:
    """Return whether narrower rules leave more uncut than MaxText tolerates."""
    from moectl.facts import weights  # noqa: PLC0415
    from moectl.sharding import impossible  # noqa: PLC0415

    values = question.values
    return bool(
        impossible(
            held.leaves,
            held.rules,
            mesh,
            str(values.get("weight_dtype", "float32")),
            weights.load(question.prepared.release).wanted_axes,
            tolerance=float(values.get("sharding_tolerance", _TOLERANCE)),
        )
    )


def _assessed(question: Question, each: tuple[Layout, Prepared], trial: Trial) -> Candidate:
    layout, prepared = each
    request = replace(question.request, ici=dict(layout.ici), dcn=dict(layout.dcn))
    values = {**question.values, **dict(trial.values)}
    return Candidate(layout, trial, assess(prepared, values, request))


def _unfit(candidate: Candidate) -> str | None:
    """Return why a candidate cannot be taken; None where nothing speaks against it."""
    found = candidate.assessment
    if found.memory is None or found.room is None:
        return "its memory cannot be estimated"
    # What does not even fit at the low end of the range is no candidate.
    if found.verdict == NEVER or found.memory.total("low") > found.room.pool:
        return (
            f"{candidate.trial.batch} x {candidate.trial.remat}: {_gib(found.memory.total())} of "
            f"the {_gib(found.room.pool)} GiB that XLA's pool has"
        )
    return None if found.time is not None else "its time cannot be estimated"


def _order(candidate: Candidate) -> tuple[Any, ...]:
    unfit = _unfit(candidate) is not None
    # What only fits if the estimate is too high comes after all that should fit.
    doubtful = candidate.assessment.verdict == OPEN
    rate = -candidate.tokens_per_second
    return unfit, doubtful, rate, candidate.peak_bytes, candidate.layout.ici, candidate.layout.dcn


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}"


def trials(
    values: Mapping[str, Any],
    gpus: int,
    batches: Sequence[int],
    policies: Sequence[str],
    global_batch: int | None,
) -> Iterator[Trial]:
    """Yield the micro-batches and policies to try.

    Args:
        values: effective MaxText values; their own policy is tried first, as it stands.
        gpus: GPUs in all.
        batches: sequences a GPU and micro-step.
        policies: further remat policies.
        global_batch: sequences a step, which accumulation makes up; None leaves it open, and
            there is one micro-step a step.
    """
    own = values.get("remat_policy")
    held = [(_OWN if own == "custom" else str(own), own)]
    held += [(name, name) for name in policies if name != own]
    for batch in batches:
        accumulation = 1
        if global_batch is not None:
            if global_batch % (batch * gpus):
                continue
            accumulation = global_batch // (batch * gpus)
        for name, policy in held:
            said = (
                ("per_device_batch_size", batch),
                ("gradient_accumulation_steps", accumulation),
                ("remat_policy", policy),
            )
            yield Trial(batch, accumulation, name, said)
