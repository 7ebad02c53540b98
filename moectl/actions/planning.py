"""Searches the meshes of a model for the fastest run that fits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from moectl.actions.calibrations import known
from moectl.actions.estimate import request_of
from moectl.actions.plan import Wishes, plan
from moectl.errors import MoectlError, UsageError, ValueUsageError
from moectl.estimate.assessment import OPEN, gpus_that_hold, prepare
from moectl.facts import maxtext
from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.planner.meshes import Layout, Space, matches, meshes, nearest
from moectl.planner.search import UNDIVIDED, Candidate, Question, Refused, divided, search, trials
from moectl.render.lock import locked_settings, nested
from moectl.settings.files import preset_names

_FACTS = "plan.yaml"
_MOST_GPUS = 16_384
_TRIED_NODES = 4096
_NEAR_NODES = 33
_OWN_REMAT = "as it is"
_WHY_NOT = re.compile(r"(ici|dcn)_([a-z_]+?)(?:_parallelism)?=(\d{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Row:
    """One ranked mesh.

    Attributes:
        rank: from 1.
        candidate: mesh, micro-batch, remat policy, and what is predicted.
        why: what it costs against the first, or what it is dominated by.
    """

    rank: int
    candidate: Candidate
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found = self.candidate
        time = found.assessment.time
        assert time is not None  # noqa: S101 - what has no time is not ranked
        return {
            "rank": self.rank,
            "gpus": found.assessment.request.gpus,
            "mesh": found.layout.as_dict(),
            "per_device_batch_size": found.trial.batch,
            "gradient_accumulation_steps": found.trial.accumulation,
            "remat": found.trial.remat,
            "peak_bytes": found.peak_bytes,
            "fits": found.assessment.verdict,
            "step_time_s": time.seconds(),
            "tokens_per_s_per_gpu": found.tokens_per_second,
            "tflops_per_gpu": time.flops() / 1e12,
            "calibrated": time.calibrated,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Planned:
    """What a search found.

    Attributes:
        target: what was planned.
        job: the job it starts from.
        gpus: GPUs in all.
        rows: the best meshes.
        refused: meshes that are not ranked, each with the reason.
        ranked: how many are ranked.
        notes: what the person should know.
    """

    target: str
    job: Job
    gpus: int
    rows: tuple[Row, ...]
    refused: tuple[Refused, ...]
    ranked: tuple[Candidate, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """What is planned.

    Attributes:
        target: preset name, path of a run file, or a bundle's folder.
        wishes: what was asked for beside it; gpus among them.
        global_batch: sequences a step; None leaves it open.
        top: how many meshes are wanted.
        calibration: measured efficiencies; None takes those that were kept.
    """

    target: str
    wishes: Wishes
    global_batch: int | None = None
    top: int = 5
    calibration: Mapping[str, float] | None = field(default=None)


def planned(ask: Ask, gpus: int) -> Planned:
    """Return the best meshes of a model for a number of GPUs.

    Raises:
        UsageError: no mesh, or no micro-batch; with what is possible near it.
        MoectlError: what was typed cannot be meant.
    """
    job = _base(ask)
    values = dict(job.effective)
    space, why = space_of(job, gpus)
    if gpus % space.gpus_per_node or not 0 < gpus <= _MOST_GPUS:
        legal = f"a multiple of {space.gpus_per_node}, the GPUs of a node, up to {_MOST_GPUS}"
        raise ValueUsageError("--gpus", gpus, legal)
    layouts = list(meshes(space))
    if not layouts:
        near = nearest(space, _TRIED_NODES, _MOST_GPUS)
        hint = f"; {' or '.join(map(str, near))} have one" if near else ""
        raise UsageError(f"{gpus} GPUs have no mesh of the axes that {ask.target} may use{hint}")
    facts = read(_FACTS)
    tried = list(
        trials(values, gpus, facts["batches"]["values"], facts["remat"]["values"], ask.global_batch)
    )
    if not tried:
        raise ValueUsageError(
            "--global-batch",
            ask.global_batch,
            f"a multiple of the {gpus} GPUs: every GPU takes whole sequences",
        )
    request = request_of(job, ask.calibration or known(job))
    prepared = prepare(values, maxtext.load(job.container.image.maxtext).release)
    question = Question(prepared, values, request, layouts, tried, facts["widened"])
    found, refused = search(question)
    if not found and all(one.why == UNDIVIDED for one in refused):
        raise UsageError(
            f"{gpus} GPUs have no mesh over which every weight of {ask.target} can be cut"
            f"{_near(question, space)}"
        )
    if not found:
        raise UsageError(_nothing(ask, gpus, refused, question))
    rows = _allowed(ask, gpus, found, space, refused)
    notes = [f"axes: {', '.join(space.ici)} inside a slice, {', '.join(space.dcn)} across: {why}"]
    if any(row.candidate.assessment.verdict == OPEN for row in rows):
        notes.append("what may not fit is ranked after all that should; `moectl estimate` has more")
    time = rows[0].candidate.assessment.time
    if time is not None and time.calibrated:
        notes.append("rates follow a measured run of this platform and image (moectl calibrate)")
    return Planned(ask.target, job, gpus, tuple(rows), tuple(refused), tuple(found), tuple(notes))


def _near(question: Question, space: Space) -> str:
    """Return the nearest numbers of GPUs whose meshes cut every weight, as a clause."""
    found = []
    for step in (-space.gpus_per_node, space.gpus_per_node):
        for number in range(1, _NEAR_NODES):
            gpus = space.gpus + step * number
            if not 0 < gpus <= _MOST_GPUS:
                break
            layouts = meshes(replace(space, gpus=gpus))
            if any(divided(question, layout) for layout in layouts):
                found.append(gpus)
                break
    return f"; {' or '.join(map(str, sorted(found)))} GPUs have one" if found else ""


def own_gpus(ask: Ask) -> int | None:
    """Return the GPUs that a run file or bundle says itself; None for a preset."""
    return None if ask.target in preset_names() else _base(ask).gpus


def space_of(job: Job, gpus: int) -> tuple[Space, str]:
    """Return what the meshes of a job may be made of, and why its axes are these."""
    facts = read(_FACTS)
    row = next(
        row
        for row in facts["axes"]
        if all(job.effective.get(key) == value for key, value in row["when"].items())
    )
    experts = job.effective.get("num_experts")
    usable = job.cluster.usable_nodes or job.cluster.nodes_per_domain
    domain = usable * job.hardware.gpus_per_node if usable else job.hardware.usable_domain_gpus
    space = Space(
        gpus=gpus,
        gpus_per_node=job.hardware.gpus_per_node,
        domain_gpus=domain,
        ici=tuple(row["ici"]),
        dcn=tuple(row["dcn"]),
        experts=experts if isinstance(experts, int) else None,
        within_node=tuple(facts["within_node"]),
    )
    return space, row["why"]


def why_not(ask: Ask, found: Planned, said: str) -> list[str]:
    """Return why meshes with some degrees are not first, a sentence each.

    Args:
        ask: what was planned.
        found: the search; its rules judged the rows it shows, and judge here what is asked for.
        said: degrees, e.g. "ici_expert=16,dcn_fsdp=2".

    Raises:
        ValueUsageError: it cannot be read.
    """
    wanted: dict[tuple[str, str], int] = {}
    for part in said.split(","):
        match = _WHY_NOT.fullmatch(part.strip())
        if not match:
            raise ValueUsageError("--why-not", said, "degrees, e.g. ici_expert=16,dcn_fsdp=2")
        wanted[match[1], match[2]] = int(match[3])
    first = found.ranked[0]
    space, _ = space_of(found.job, found.gpus)
    told = []
    for rank, candidate in enumerate(found.ranked, start=1):
        if matches(candidate.layout, wanted):
            fault = "" if rank <= len(found.rows) else _faults(ask, found.gpus, candidate, space)
            told.append(
                f"{candidate.layout}: {fault or f'rank {rank}, {against(candidate, first)}'}"
            )
    told += [f"{one.layout}: {one.why}" for one in found.refused if matches(one.layout, wanted)]
    return told or [
        f"no mesh of {found.gpus} GPUs has {said}: the degrees must multiply to it, slices be "
        f"whole nodes of one domain, and experts be divided; {found.notes[0]}"
    ]


def against(candidate: Candidate, first: Candidate) -> str:
    """Return what a candidate costs against the first, by the parts that differ most."""
    if candidate is first:
        parts = first.assessment.time.parts["middle"] if first.assessment.time else {}
        largest = sorted(parts, key=lambda name: -parts[name])[:2]
        return "first; most of a step is " + " and ".join(_title(name) for name in largest)
    mine, best = _per_token(candidate), _per_token(first)
    share = first.tokens_per_second / candidate.tokens_per_second - 1
    worst = max(mine, key=lambda name: mine[name] - best.get(name, 0.0))
    text = f"{share:.1%} slower a token"
    if candidate.assessment.verdict == OPEN and first.assessment.verdict != OPEN:
        text = "may not fit"
    elif mine[worst] > best.get(worst, 0.0):
        text += f", most of it {_title(worst)}"
    return text


def options_of(layout: Layout, candidate: Candidate, space: Space) -> dict[str, tuple[Any, str]]:
    """Return the settings of the run file that make a candidate, as options."""
    flag = "moectl plan"
    said: dict[str, tuple[Any, str]] = {
        f"parallelism.{group}.{axis}": (layout.degree(group, axis), flag)
        for group, axes in (("ici", space.ici), ("dcn", space.dcn))
        for axis in axes
    }
    said["batch.per_device"] = (candidate.trial.batch, flag)
    said["batch.accumulation"] = (candidate.trial.accumulation, flag)
    if candidate.trial.remat != _OWN_REMAT:
        said["remat.policy"] = (candidate.trial.remat, flag)
    return said


def job_of(ask: Ask, found: Planned, row: Row) -> Job:
    """Return the job of a ranked mesh, judged by every rule."""
    space, _ = space_of(found.job, found.gpus)
    return plan(ask.target, _wishes(ask, found.gpus, row.candidate, space))


def _wishes(ask: Ask, gpus: int, candidate: Candidate, space: Space) -> Wishes:
    said = {path: wish for path, wish in ask.wishes.options.items() if path not in {"batch.global"}}
    said |= {"gpus": (gpus, "--gpus")} | options_of(candidate.layout, candidate, space)
    return replace(ask.wishes, options=said)


def _base(ask: Ask) -> Job:
    """Return the job that the search starts from, at its own number of GPUs."""
    left = {"gpus", "batch.global"}
    said = {path: wish for path, wish in ask.wishes.options.items() if path not in left}
    return plan(ask.target, replace(ask.wishes, options=said))


def _allowed(
    ask: Ask, gpus: int, found: list[Candidate], space: Space, refused: list[Refused]
) -> list[Row]:
    """Return the first meshes that every rule lets pass; what is refused is taken out."""
    rows: list[Row] = []
    for candidate in list(found):
        if len(rows) == ask.top:
            break
        told = _faults(ask, gpus, candidate, space)
        if told:
            found.remove(candidate)
            refused.append(Refused(candidate.layout, told))
            continue
        rows.append(Row(len(rows) + 1, candidate, against(candidate, found[0])))
    if not rows:
        raise UsageError(
            f"rules refuse every mesh of {gpus} GPUs for {ask.target}, the fastest because "
            f"{refused[-1].why}"
        )
    return rows


def _faults(ask: Ask, gpus: int, candidate: Candidate, space: Space) -> str:
    """Return what the rules say against a candidate; nothing of the memory's doubts."""
    try:
        job = plan(ask.target, _wishes(ask, gpus, candidate, space))
    except MoectlError as error:
        return str(error).splitlines()[0]
    stops = [finding for finding in job.findings if finding.stops]
    return f"{stops[0].code}: {stops[0].message}" if stops else ""


def _nothing(ask: Ask, gpus: int, refused: list[Refused], question: Question) -> str:
    """Return why there is no candidate, and how many GPUs it takes."""
    held = gpus_that_hold(
        question.prepared,
        question.values,
        replace(question.request, ici={"fsdp": gpus}, dcn={}),
    )
    hint = f"; from about {held} GPUs one sequence a GPU fits" if held and held > gpus else ""
    least = min((one for one in refused if one.peak), key=lambda one: one.peak, default=None)
    why = f", the least with {least.layout}: {least.why}" if least else ""
    return f"{ask.target} fits {gpus} GPUs of {question.request.hardware.name} in no way{why}{hint}"


def _per_token(candidate: Candidate) -> dict[str, float]:
    time = candidate.assessment.time
    if time is None:
        return {}
    return {name: seconds / time.tokens for name, seconds in time.parts["middle"].items()}


def _title(part: str) -> str:
    return str(read("step_model.yaml")["parts"][part]["title"])


def sweep(ask: Ask, counts: Sequence[int]) -> list[Planned]:
    """Return the best mesh of several numbers of GPUs.

    Raises:
        UsageError: one of them has none.
    """
    return [planned(replace(ask, top=1), gpus) for gpus in counts]


def run_file(ask: Ask, found: Planned, row: Row) -> str:
    """Return a run file of a ranked mesh.

    A preset stays named in it; of a run file or bundle everything is written out.
    """
    space, _ = space_of(found.job, found.gpus)
    head = [f"# Rank {row.rank} of `moectl plan`: {row.candidate.layout}; {row.why}.", "moectl: 1"]
    if ask.target in preset_names():
        said = {
            path: value
            for path, (value, _) in _wishes(ask, found.gpus, row.candidate, space).options.items()
        }
        said = {"preset": ask.target, "gpus": said.pop("gpus"), **said}
        if "hardware" in said:
            said["hardware"] = found.job.hardware.name
        return "\n".join([*head, *nested(said), ""])
    settings = locked_settings(job_of(ask, found, row))
    return "\n".join([*head, *nested({path: value.value for path, value in settings.items()}), ""])
