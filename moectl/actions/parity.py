"""Two paths of the MoE layer on this machine: same seed, same data, losses compared."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moectl.actions.plan import Wishes
from moectl.actions.rehearse import Staged, Tell, Trained, stage, started, train
from moectl.errors import UsageError
from moectl.facts import maxtext
from moectl.facts.yaml_facts import read
from moectl.launch.store import Store
from moectl.settings.flatten import raise_all
from moectl.settings.options import assignments
from moectl.settings.setting import Setting
from moectl.shrink.fit import as_settings
from moectl.shrink.judge import Tolerance, Verdict, parity, tolerance, trained
from moectl.shrink.rules import FACTS
from moectl.values import Origin

ORIGIN = Origin("--against")
_EXPERT, _FILLED = "parallelism.ici.expert", "parallelism.ici.fsdp"
UNMEASURED = (
    "how many tokens the capacity-limited path dropped is not known: MaxText 0.2.5 writes no count "
    "of them (layers/moe.py); what they are worth shows in the losses"
)


@dataclass(frozen=True, slots=True)
class Sides:
    """Two rehearsals that differ in one thing.

    Attributes:
        one: the run itself, in the precision that is compared in.
        other: the same with what it is compared with.
        about: what each of them is, one clause.
        allowed: how far their losses may lie apart.
        notes: what a person should know.
    """

    one: Staged
    other: Staged
    about: tuple[str, str]
    allowed: Tolerance
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison found: what was judged, in order, and the two jobs."""

    sides: Sides
    verdicts: tuple[Verdict, ...]
    jobs: tuple[Trained, Trained]
    seconds: float

    @property
    def good(self) -> bool:
        """Whether everything holds."""
        return all(each.good for each in self.verdicts)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "rehearsal": self.sides.one.as_dict(),
            "one": self.sides.about[0],
            "other": self.sides.about[1],
            "allowed": {"first": self.sides.allowed.first, "growth": self.sides.allowed.growth},
            "notes": list(self.sides.notes),
            "good": self.good,
            "seconds": round(self.seconds, 1),
            "verdicts": [each.as_dict() for each in self.verdicts],
            "jobs": [job.as_dict() for job in self.jobs],
        }


def stage_both(target: str, wishes: Wishes, against: str, steps: int | None = None) -> Sides:
    """Return the two rehearsals of a comparison; nothing is written.

    Args:
        target: what is rehearsed.
        wishes: what was asked for beside it.
        against: a named path, or "KEY=VALUE[,KEY=VALUE]".
        steps: steps to train; the table's without.

    Raises:
        UsageError: the path is unknown, or both sides are the same on this machine.
        MoectlError: as of `stage`.
    """
    facts = read(FACTS)
    paths: Mapping[str, Any] = facts["paths"]
    if against not in paths and "=" not in against:
        raise UsageError(
            f"--against {against!r} is no path: {', '.join(paths)}, or KEY=VALUE[,KEY=VALUE]"
        )
    common = as_settings(_precision(facts["parity"]["dtype"]), ORIGIN)
    one = stage(target, wishes, steps, common)
    notes: list[str] = [f"both in {facts['parity']['dtype']}, where the order of sums says little"]
    if "=" in against:
        other = stage(target, wishes, steps, [*common, *_assigned(against, one)])
        if _same(one, other):
            raise UsageError(
                f"with {against} nothing changes on this machine, so there is nothing to compare: "
                "the run says it already, or something stands in for it here"
            )
        about = f"the same with {against}"
    else:
        other = stage(target, wishes, steps, [*common, *_named(against, one)])
        if _same(one, other):
            name = facts["instead_of_the_same"]
            notes.append(f"on this machine the run is {paths[against]['about']} itself")
            against = name
            other = stage(target, wishes, steps, [*common, *_named(name, one)])
        if _same(one, other):
            raise UsageError(f"the run is {paths[against]['about']}; name another path")
        about = paths[against]["about"]
    drops = [_drops(side) for side in (one, other)]
    if any(drops):
        notes.append(UNMEASURED)
    allowed = tolerance(dropless=not any(drops))
    return Sides(one, other, (_about(one), about), allowed, tuple(notes))


def compare(sides: Sides, store: Store, tell: Tell) -> Compared:
    """Train both, one after the other, and compare.

    Args:
        sides: the two.
        store: where their runs are written down.
        tell: called with a sentence whenever there is something new.

    Raises:
        MoectlError: one cannot be started.
    """
    begun = time.monotonic()
    jobs = (train(sides.one, store, tell), train(sides.other, store, tell))
    return Compared(sides, tuple(judged(sides, jobs)), jobs, time.monotonic() - begun)


def judged(sides: Sides, jobs: tuple[Trained, Trained]) -> list[Verdict]:
    """Return what two jobs say: of each by itself, and whether they agree."""
    steps = sides.one.steps
    verdicts = []
    for name, job in zip(("one", "other"), jobs, strict=True):
        each = [started(job), *(trained(job.losses, steps) if job.losses else ())]
        verdicts += [Verdict(f"{name}: {v.name}", v.good, v.why) for v in each]
    return [*verdicts, parity(jobs[0].losses, jobs[1].losses, steps, sides.allowed)]


def _precision(dtype: str) -> dict[str, Any]:
    return {
        "precision.dtype": dtype,
        "precision.weight_dtype": dtype,
        "precision.mu_dtype": dtype,
        "precision.quantization": "",
        "checkpoints.enabled": False,
    }


def _named(name: str, one: Staged) -> list[Setting]:
    """Return the settings of a named path."""
    row = read(FACTS)["paths"][name]
    said = {**read(FACTS)["all_paths"], **row["set"]}
    expert = one.small.degrees.get("expert", 1)
    if row.get("one_expert_group") and one.rendered.job.on_cpu and expert > 1:
        # Between expert groups tokens travel by a ragged all-to-all, which the CPU lacks.
        said |= {_EXPERT: 1, _FILLED: one.small.degrees.get("fsdp", 1) * expert}
    return as_settings(said, ORIGIN)


def _assigned(text: str, one: Staged) -> list[Setting]:
    """Return the settings of "KEY=VALUE[,KEY=VALUE]"; a comma inside brackets is a value's.

    Raises:
        UsageError: unknown keys, or values that cannot be meant.
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    job = one.rendered.job
    catalogue = maxtext.load(job.container.image.maxtext)
    found, faults = assignments(parts, catalogue)
    raise_all([UsageError(str(fault).replace("--set", "--against")) for fault in faults])
    model = catalogue.model(str(job.effective.get("model_name"))) or {}
    said = {}
    for setting in found:
        head, _, key = setting.path.partition(".")
        in_model = head == "maxtext" and key in model
        said[f"model.overrides.{key}" if in_model else setting.path] = setting.value
    return as_settings(said, ORIGIN)


def _same(one: Staged, other: Staged) -> bool:
    """Whether MaxText is told the same, mesh included."""
    first, second = one.rendered.job, other.rendered.job
    told = [
        {key: value for key, value in job.effective.items() if value not in (None, False, "")}
        for job in (first, second)
    ]
    return told[0] == told[1] and first.mesh == second.mesh


def _drops(staged: Staged) -> bool:
    """Whether an expert takes a limited number of tokens."""
    said = staged.rendered.job.effective
    limited = isinstance(said.get("capacity_factor"), int | float) and said["capacity_factor"] > 0
    return limited and not said.get("sparse_matmul") and not said.get("te_moe_block")


def _about(staged: Staged) -> str:
    """Return which path a run takes on this machine."""
    said = staged.rendered.job.effective
    if said.get("te_moe_block"):
        return "Transformer Engine's MoEBlock"
    name = "sparse" if said.get("sparse_matmul") else "capacity" if _drops(staged) else "dense"
    return str(read(FACTS)["paths"][name]["about"])
