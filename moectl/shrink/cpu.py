"""What of a job virtual CPU devices cannot run, and what runs in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.job import Job
from moectl.settings.setting import Layer, Setting
from moectl.values import Origin

FACTS = "local.yaml"
ORIGIN = Origin("CPU devices in place of GPUs")
LOCAL = Origin("local launcher")


@dataclass(frozen=True, slots=True)
class StandIn:
    """A path of the job that this machine cannot run.

    Attributes:
        lost: what does not run.
        instead: what runs in its place.
        source: where that is known from.
        sets: run-file path to the value it gets.
    """

    lost: str
    instead: str
    source: str
    sets: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.lost} cannot run on CPU devices; in place of it: {self.instead}"


def stand_ins(job: Job) -> list[StandIn]:
    """Return what of a job CPU devices cannot run, in the order of the table."""
    facts = read(FACTS)
    known = named(job)
    found = [
        StandIn(row["lost"], row["instead"], row["source"], row["set"])
        for row in facts["cpu"]
        if holds(row["when"], known)
    ]
    remat = facts["cpu_remat"]
    moved = [
        path
        for path, value in known.items()
        if path.startswith("remat.tensors.") and value == remat["location"]
    ]
    if moved:
        names = ", ".join(path.rpartition(".")[2] for path in moved)
        found.append(
            StandIn(
                f"activations kept in the host's memory ({names})",
                "the devices' own memory, which is the host's here",
                "jaxlib 0.12.0.1: the CPU's devices have one memory",
                dict.fromkeys(moved, remat["becomes"]),
            )
        )
    dropped = [name for name in job.xla_flags if name.startswith(tuple(facts["cpu_dropped_flags"]))]
    if dropped:
        count = f"{len(dropped)} XLA flag{'' if len(dropped) == 1 else 's'} of the GPU compiler"
        found.append(StandIn(count, "the CPU compiler's defaults", "XLA's xla.proto", {}))
    return found


def adapted(found: Sequence[StandIn]) -> list[Setting]:
    """Return the settings that put the stand-ins in place, stronger than all others."""
    variables = read(FACTS)["cpu_environment"]
    said = {path: value for each in found for path, value in each.sets.items()}
    said |= {f"environment.{name}": value for name, value in variables.items()}
    said |= {"cluster.devices": "cpu", "cluster.runtime": "none"}
    return [Setting(path, value, Layer.OPTION, ORIGIN) for path, value in said.items()]


def on_gpus() -> list[Setting]:
    """Return the settings of a run on this machine's own GPUs."""
    said = {"cluster.devices": "gpu", "cluster.runtime": "none"}
    return [Setting(path, value, Layer.OPTION, LOCAL) for path, value in said.items()]


def named(job: Job) -> dict[str, Any]:
    """Return everything about a job that a condition may name."""
    known: dict[str, Any] = dict(job.effective)
    known |= {path: value.value for path, value in job.settings.items()}
    known |= {f"environment.{name}": value.value for name, value in job.environment.items()}
    known |= {f"xla_flags.{name}": value.value for name, value in job.xla_flags.items()}
    known |= {f"mesh.{axis}": degree.total for axis, degree in job.mesh.degrees.items()}
    return known


def holds(when: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether all conditions of a row hold; one about a name that nobody said does not."""
    return all(
        any(_fits(known[name], wish) for wish in _wishes(wanted)) if name in known else False
        for name, wanted in when.items()
    )


def _wishes(wanted: Any) -> Iterator[str]:
    yield from [wanted] if isinstance(wanted, str) else wanted


def _fits(value: Any, wish: str) -> bool:
    if wish[:1] in {">", "<"}:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        limit = float(wish[1:])
        return value > limit if wish[0] == ">" else value < limit
    text = str(value).lower() if isinstance(value, bool) else str("" if value is None else value)
    return fnmatchcase(text, wish)
