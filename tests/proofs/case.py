"""The steps that are compiled, and what is kept of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import yaml

from moectl.actions.plan import Wishes
from moectl.actions.prove import Proof, prove
from moectl.actions.render import plan_job
from moectl.estimate.memory import Estimate, estimate
from moectl.job import Job

HERE = Path(__file__).parent
PEAKS = HERE / "peaks.tsv"
DEPTHS = HERE / "depths.tsv"
COLUMNS = (
    "id", "target", "mesh", "argument", "output", "alias", "temp", "peak", "total", "host_temp",
    "seconds", "versions", "largest",
)  # fmt: skip
DEPTH_COLUMNS = ("id", "low", "high", "whole", "argument", "temp", "peak")
_LARGEST = 12


@dataclass(frozen=True, slots=True)
class Case:
    """A preset for some GPUs with keys set."""

    id: str
    preset: str
    gpus: int
    hardware: str
    sets: tuple[str, ...]

    def job(self) -> Job:
        return plan_job(self.preset, gpus=self.gpus, hardware=self.hardware, sets=self.sets)

    def proof(self, layers: int | None = None) -> Proof:
        options = {"gpus": (self.gpus, "--gpus"), "hardware": (self.hardware, "--hardware")}
        return prove(self.preset, Wishes(options=options, sets=self.sets), layers=layers)

    def estimate(self) -> Estimate | None:
        job = self.job()
        mesh = {axis: degree.total for axis, degree in job.mesh.degrees.items()}
        return estimate(job.effective, mesh, job.container.image.maxtext)


def cases() -> list[Case]:
    rows = yaml.safe_load((HERE / "cases.yaml").read_text("utf-8"))["cases"]
    return [Case(**{**row, "sets": tuple(row["sets"])}) for row in rows]


def shallow() -> list[Case]:
    """Return the cases that are compiled in two depths as well."""
    chosen = yaml.safe_load((HERE / "cases.yaml").read_text("utf-8"))["shallow"]
    return [case for case in cases() if case.id in chosen]


def shallow_row(case: Case, proof: Proof) -> dict[str, str]:
    """Return what two depths say of the whole; bytes of one device."""
    at = proof.depths
    assert at is not None
    return {
        "id": case.id,
        "low": str(at.low),
        "high": str(at.high),
        "whole": str(at.whole),
        "argument": str(proof.memory["argument_size"]),
        "temp": str(proof.memory["temp_size"]),
        "peak": str(proof.peak),
    }


def row_of(case: Case, proof: Proof) -> dict[str, str]:
    """Return what is kept of a compile; sizes in bytes of one device."""
    memory = proof.memory
    largest = [
        f"{one['bytes'] / 2**30:.2f} GiB {one['space']} {' '.join(one['shapes'][:3])}"
        for one in proof.compiled.buffers[:_LARGEST]
    ]
    return {
        "id": case.id,
        "target": proof.target,
        "mesh": " ".join(f"{axis}={size}" for axis, size in proof.compiled.mesh.items()),
        "argument": str(memory["argument_size"]),
        "output": str(memory["output_size"]),
        "alias": str(memory["alias_size"]),
        "temp": str(memory["temp_size"]),
        "peak": str(proof.peak),
        "total": str(proof.total),
        "host_temp": str(memory["host_temp_size"]),
        "seconds": f"{proof.compiled.seconds:.0f}",
        "versions": " ".join(f"{k}={v}" for k, v in proof.compiled.versions.items()),
        "largest": "; ".join(largest),
    }


def text_of(rows: Sequence[Mapping[str, str]], columns: Sequence[str] = COLUMNS) -> str:
    lines = ["\t".join(columns), *("\t".join(row[name] for name in columns) for row in rows)]
    return "\n".join(lines) + "\n"


def kept(path: Path = PEAKS) -> dict[str, dict[str, str]]:
    """Return what a table holds, by case."""
    if not path.is_file():
        return {}
    head, *lines = (line.split("\t") for line in path.read_text("utf-8").splitlines())
    return {row["id"]: row for row in (dict(zip(head, line, strict=True)) for line in lines)}


@dataclass(frozen=True, slots=True)
class Compared:
    """An estimate beside a compile, both in bytes of one device."""

    case: Case
    row: Mapping[str, str]
    estimate: Estimate | None

    @property
    def error(self) -> float | None:
        """Return how far the middle estimate is off the compiled peak, relative to it."""
        if self.estimate is None:
            return None
        return self.estimate.total() / int(self.row["peak"]) - 1


def compared() -> list[Compared]:
    """Return every case that the table holds, with its estimate."""
    table = kept()
    return [Compared(case, table[case.id], case.estimate()) for case in cases() if case.id in table]


def summary(rows: Sequence[Compared]) -> tuple[float, float]:
    """Return the median and the worst of the errors, without their signs."""
    errors = [abs(row.error) for row in rows if row.error is not None]
    return median(errors), max(errors)
