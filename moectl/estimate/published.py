"""Published training speeds, and what the step model says of the same runs.

The rows (`facts/data/published_runs.tsv`) are measurements by others, each with its source.
Megatron's are expressed as the MaxText mesh of the same degrees: expert parallelism as the expert
axis, its other data replicas as the data axis, weights beside the experts whole on every GPU.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from moectl.estimate import architecture
from moectl.estimate.spread import Spread, spread_of
from moectl.estimate.step_time import StepTime, machine_of, step_time
from moectl.estimate.work import work_of
from moectl.facts import hardware, maxtext
from moectl.resources import fact

_RELEASE = "0.2.5"
# Kernels of an earlier day on the mesh of a later row; no model that knows the mesh only tells
# them apart.
_EARLIER = "ladder"
# Megatron keeps the outputs of GEMMs and does cheap steps again.
_MEGATRON_AGAIN = {"attention_gemm": 0.0, "attention": 0.0, "mlp": 0.0, "experts": 0.0}
_QUANTIZATION = {"mxfp8": "te_mxfp8", "fp8": "te_fp8_currentscaling", "bf16": ""}


@dataclass(frozen=True, slots=True)
class Run:
    """A published run.

    Attributes:
        model: MaxText's name of the model.
        framework, release, hardware, gpus, sequence, note, source: as published.
        micro_batch, global_batch: sequences; of MaxText a device and a step.
        tensor, pipeline, repeats, context, expert, fsdp: degrees; repeats are virtual stages.
        precision: "mxfp8", "fp8" or "bf16".
        prediction: multi-token-prediction layers.
        tflops: TFLOP/s a GPU in the framework's own count, 0 if not published.
        tokens: tokens a second and GPU, 0 if not published.
    """

    model: str
    framework: str
    release: str
    hardware: str
    gpus: int
    sequence: int
    micro_batch: int
    global_batch: int
    tensor: int
    pipeline: int
    repeats: int
    context: int
    expert: int
    fsdp: int
    precision: str
    prediction: int
    tflops: float
    tokens: float
    note: str
    source: str

    @property
    def earlier(self) -> bool:
        """Whether the same source has later kernels on the same mesh."""
        return self.note.startswith(_EARLIER)

    @property
    def replicas(self) -> int:
        """Return the data replicas beside fsdp and expert; 0 where the degrees do not fit."""
        whole, rest = divmod(
            self.gpus, self.tensor * self.pipeline * self.context * self.expert * self.fsdp
        )
        return 0 if rest else whole


@dataclass(frozen=True, slots=True)
class Prediction:
    """A published run with what the step model says of it."""

    run: Run
    time: StepTime

    @property
    def error(self) -> float:
        """Return predicted over published tokens a second, minus 1."""
        return self.time.tokens_per_second() / self.run.tokens - 1

    @property
    def inside(self) -> bool:
        """Whether the published figure lies in the predicted range."""
        slow = self.time.tokens_per_second("slow")
        return slow <= self.run.tokens <= self.time.tokens_per_second("fast")


def runs() -> list[Run]:
    """Return all published rows."""
    text = fact("published_runs.tsv").read_text("utf-8")
    kinds = dict(Run.__annotations__)
    convert: Mapping[str, Any] = {"int": int, "float": lambda t: float(t or 0), "str": str}
    return [
        Run(**{name: convert[kinds[name]](value) for name, value in row.items()})
        for row in csv.DictReader(text.splitlines(), delimiter="\t")
    ]


def predict(run: Run) -> Prediction | None:
    """Return what the step model says; None where no MaxText mesh expresses the run."""
    machine = machine_of(hardware.platform(run.hardware))
    catalogue = maxtext.load(_RELEASE)
    file = catalogue.model(run.model)
    if machine is None or file is None or not run.tokens or not run.replicas:
        return None
    native = run.framework == "maxtext"
    groups = run.gpus // (run.tensor * run.pipeline * run.context)
    micro = 1 if native else run.global_batch // (run.micro_batch * groups)
    if micro < 1:
        return None
    values = {
        **catalogue.base,
        **file,
        "per_device_batch_size": run.global_batch / run.gpus / micro,
        "max_target_length": run.sequence,
        "gradient_accumulation_steps": micro,
        "num_pipeline_repeats": run.repeats,
        "num_pipeline_microbatches": micro,
        "te_moe_block": True,
        "attention": "cudnn_flash_te",
        "quantization": _QUANTIZATION[run.precision],
        "te_gmm_quantization": _QUANTIZATION[run.precision],
        "remat_policy": "custom",
        **(_published_recipe() if native else {}),
    }
    model = architecture.of_values(values)
    if model is None:
        return None
    model = replace(model, prediction=run.prediction)
    work = work_of(model, values, again=None if native else _MEGATRON_AGAIN)
    if work is None:
        return None
    return Prediction(run, step_time(work, _spread(run, machine.domain), machine))


def _published_recipe() -> dict[str, Any]:
    """Return what the recipe of the one MaxText run sets, from its preset."""
    from moectl.settings.files import preset  # noqa: PLC0415

    said = preset("deepseek3-671b").run
    return {
        "quantization": said["precision"]["quantization"],
        "ragged_buffer_factor": said["moe"]["receive_factor"],
        **said["remat"]["tensors"],
    }


def _spread(run: Run, domain: int) -> Spread:
    """Return the mesh: as much inside a domain as fits, expert and tensor axes first."""
    if run.framework == "maxtext":
        across = max(1, run.gpus // domain)
        return spread_of(
            {"fsdp": run.fsdp // across, "expert": run.expert}, {"fsdp": across}, domain
        )
    inner = {"tensor": run.tensor, "expert": run.expert, "data": run.replicas}
    found = spread_of({**inner, "pipeline": run.pipeline}, {}, domain)
    return replace(found, whole=True)


def summary(found: Sequence[Prediction]) -> dict[str, float]:
    """Return median absolute error, rank correlation, and the share inside the range."""
    errors = [abs(row.error) for row in found]
    said = [row.run.tokens * row.time.model_flops / row.time.tokens for row in found]
    ours = [row.time.flops() for row in found]
    return {
        "rows": len(found),
        "median_error": median(errors),
        "worst_error": max(errors),
        "rank_correlation": rank_correlation(said, ours),
        "inside": sum(row.inside for row in found) / len(found),
    }


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rank correlation; ties share their mean rank."""
    a, b = _ranks(first), _ranks(second)
    middle = (len(a) - 1) / 2
    top = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    spread = sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b)
    return top / spread**0.5 if spread else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    first = {value: ordered.index(value) for value in set(values)}
    return [first[v] + (ordered.count(v) - 1) / 2 for v in values]
