"""The runs that are estimated and asked of real MaxText: every preset on at least four meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moectl.actions.estimate import request_of
from moectl.actions.plan import Wishes, plan
from moectl.estimate.assessment import Assessment, assess, prepare
from moectl.job import Job
from moectl.render.config import arguments, plain
from moectl.settings.files import preset, preset_names
from tests.judge.client import Judge, Verdict

# Transformer Engine is not in the judge's environment, and no size or layout of a weight hangs
# on these, nor do FLOPs; MaxText imports it as soon as it traces the state.
WITHOUT_TE = {"quantization": "", "attention": "dot_product"}
MICRO_STEPS = "gradient_accumulation_steps"
# Of these some are narrowed by moectl, some have replicas, and the last is another platform.
SIZES: tuple[tuple[int, str, str, dict[str, str]], ...] = (
    (0, "", "benchmark", {}),
    (256, "", "pretrain", {}),
    (64, "", "benchmark", {"per_device_batch_size": "2", "max_target_length": "2048"}),
    (1024, "", "benchmark", {MICRO_STEPS: "2"}),
    (128, "h100-hgx", "benchmark", {"weight_dtype": "float32"}),
)
# Those of the default tests: latent attention with narrowed rules, delta nets, an overridden
# architecture, biases and windows.
FEW = (
    ("deepseek3-671b", 3),
    ("qwen3-next-80b-a3b", 1),
    ("glm-5-744b", 0),
    ("gpt-oss-20b", 4),
    ("llama4-17b-128e", 2),
)


@dataclass(frozen=True, slots=True)
class Point:
    """One run: the job, and its estimate."""

    job: Job
    found: Assessment

    @property
    def name(self) -> str:
        """Return how a table calls it."""
        degrees = self.job.mesh.degrees.items()
        mesh = " x ".join(f"{axis} {d.total}" for axis, d in degrees if d.total > 1)
        return f"{self.job.preset}, {self.job.gpus} {self.job.hardware.name}, {mesh}"


@dataclass(frozen=True, slots=True)
class Compared:
    """A point and what real MaxText says of it."""

    point: Point
    verdict: Verdict

    @property
    def ours(self) -> tuple[int, int, int]:
        """Return parameters, their bytes a device, and the optimizer's bytes a device."""
        found = self.point.found
        assert found.memory is not None
        return found.prepared.total or 0, found.memory.weights, found.memory.moments

    @property
    def theirs(self) -> tuple[int, int, int]:
        """Return the same by MaxText."""
        held = self.verdict.bytes
        return self.verdict.parameters, held["parameters"], held["optimizer"]

    @property
    def flops_error(self) -> float:
        """Return our FLOPs over MaxText's, minus 1."""
        assert self.point.found.time is not None
        return self.point.found.time.model_flops / self.verdict.flops - 1

    @property
    def equal(self) -> bool:
        """Whether bytes are equal and FLOPs within 1e-6."""
        return self.verdict.accepted and self.ours == self.theirs and abs(self.flops_error) < 1e-6


def point(name: str, size: int) -> Point:
    """Return a preset at one of `SIZES`."""
    gpus, platform, form, sets = SIZES[size]
    options: dict[str, tuple[Any, str]] = {"form": (form, "--form")}
    if gpus:
        options["gpus"] = (gpus, "--gpus")
    if platform:
        options["hardware"] = (platform, "--hardware")
    job = plan(name, Wishes(options=options, sets=[f"{k}={v}" for k, v in sets.items()]))
    values = dict(job.effective)
    prepared = prepare(values, "0.2.5")
    return Point(job, assess(prepared, values, request_of(job)))


def names() -> list[str]:
    """Return the presets that have a MaxText model."""
    return [name for name in preset_names() if preset(name).estimate_only is None]


def every() -> list[Point]:
    """Return every preset at every size."""
    return [point(name, size) for name in names() for size in range(len(SIZES))]


def compared(points: Sequence[Point], judge: Judge) -> list[Compared]:
    """Have real MaxText answer for the points."""
    verdicts = judge([_question(one.job) for one in points])
    return [Compared(one, verdict) for one, verdict in zip(points, verdicts, strict=True)]


def _question(job: Job) -> dict[str, Any]:
    return {
        "id": f"{job.preset} {job.gpus}",
        "mode": "state",
        "config": {**plain(job.config), **WITHOUT_TE},
        "arguments": arguments(job),
        "devices": job.gpus,
        "slices": job.mesh.slices,
        "flops": True,
        "keys": ["num_experts"],
    }
