"""Rules on pipeline parallelism: stages, repeats and layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moectl.mesh import divisors
from moectl.rules.maxtext_words import (
    degree_keys,
    whole,
    write,
)
from moectl.rules.rule import Fault, rules
from moectl.workload import Workload

RULES = rules()
_SOURCE = "MaxText 0.2.5 "
_TYPES = _SOURCE + "configs/types.py:"


@RULES.rule(
    "PIPE101",
    "layers that the stages do not divide",
    reason="Every stage holds the same number of layers in every repeat; a remainder would be "
    "left out, so MaxText refuses it.",
    remedy="change the stages, or pipeline fewer layers with pipeline_parallel_layers",
    source=_TYPES + "4553",
    stage="config",
)
def stage_layers(w: Workload) -> Iterator[Fault]:
    """Find pipelined layers that are no multiple of stages x layers a stage."""
    if w.value("using_pipeline_parallelism") is not True:
        return
    stages, layers = w.value("num_stages"), w.value("pipeline_parallel_layers")
    each = w.value("num_layers_per_pipeline_stage")
    if not whole(stages, layers, each) or w.effective.get("num_pipeline_repeats") != -1:
        return
    unit = stages * each
    if unit and layers % unit == 0:
        return
    keys = ("num_layers_per_pipeline_stage", *_degree_keys(w), "base_num_decoder_layers")
    sentence = (
        f"{stages} stages x {each} layers a stage = {unit}, which does not divide the "
        f"{layers} pipelined layers{_whose(w)}"
    )
    yield Fault(
        "pipeline_parallel_layers", sentence, _where_layers(w, keys), _fewer(layers, unit, w)
    )


def _degree_keys(w: Workload) -> list[str]:
    keys = ("ici_pipeline_parallelism", "dcn_pipeline_parallelism")
    return [key for key in keys if (degree := w.value(key)) and whole(degree) and degree > 1]


def _where_layers(w: Workload, keys: tuple[str, ...]) -> Any:
    return w.where("pipeline_parallel_layers", *keys)


def _whose(w: Workload) -> str:
    """Say where the number of layers comes from when nobody said it."""
    if w.said("pipeline_parallel_layers") is not None:
        return ""
    total, dense = w.value("num_decoder_layers"), w.value("first_num_dense_layers")
    layers = w.value("pipeline_parallel_layers")
    if whole(total, dense) and dense and total - dense == layers:
        return f" (of {total} layers, {dense} are dense and not pipelined)"
    return ""


def _fewer(layers: int, unit: int, w: Workload) -> str:
    """Suggest how many layers to pipeline, and which stages would divide them."""
    stages = w.value("num_stages")
    if not whole(stages) or not 0 < stages <= layers:
        return ""
    most = layers // stages * stages
    held = ", ".join(map(str, reversed([*divisors(most // stages)])))
    part = f"pipeline_parallel_layers={most} with" if most != layers else ""
    parts = [f"{part} num_layers_per_pipeline_stage of {held}".strip()]
    if 0 < unit <= layers and layers // unit * unit != most:
        parts.append(f"pipeline_parallel_layers={layers // unit * unit} as it is")
    return "; or ".join(parts)


@RULES.rule(
    "PIPE102",
    "stages, repeats and layers that are not the pipelined layers",
    reason="Each pipelined layer has one place in one repeat of one stage.",
    remedy="leave num_pipeline_repeats at -1, and MaxText computes it",
    source=_TYPES + "4583",
    stage="config",
)
def pipelined_layers(w: Workload) -> Iterator[Fault]:
    """Find stages x repeats x layers a stage that differ from the pipelined layers."""
    if w.value("using_pipeline_parallelism") is not True:
        return
    stages, layers = w.value("num_stages"), w.value("pipeline_parallel_layers")
    each, repeats = w.value("num_layers_per_pipeline_stage"), w.value("num_pipeline_repeats")
    if whole(stages, layers, each, repeats) and stages * each * repeats != layers:
        sentence = (
            f"{stages} stages x {repeats} repeats x {each} layers a stage = "
            f"{stages * each * repeats}, but {layers} layers are pipelined{_whose(w)}"
        )
        where = w.where("num_pipeline_repeats", "pipeline_parallel_layers", *_degree_keys(w))
        yield Fault("num_pipeline_repeats", sentence, where)


@RULES.rule(
    "PIPE109",
    "pipeline on a mesh without a data axis",
    reason="MaxText puts the stage axis before the data axis, and looks for both.",
    remedy="leave mesh_axes out",
    source=_TYPES + "4616",
    stage="config",
)
def stage_without_data(w: Workload) -> Iterator[Fault]:
    """Find mesh axes with `stage` and without `data`."""
    axes = w.value("mesh_axes")
    if w.value("using_pipeline_parallelism") is not True or not isinstance(axes, list):
        return
    if "stage" in axes and "data" not in axes:
        yield Fault("mesh_axes", "mesh_axes has stage, but no data", w.where("mesh_axes"))


@RULES.rule(
    "PIPE110",
    "sparse matmul in a pipeline",
    reason="Guides of large MoE runs keep the grouped matmul out of pipeline stages; the "
    "combination is not tried on hardware here.",
    remedy="sparse_matmul: false with pipeline parallelism",
    source="AMD-AGI/maxtext-slurm skills/model-config-guide",
    severity="warning",
    stage="advice",
)
def sparse_pipeline(w: Workload) -> Iterator[Fault]:
    """Find sparse_matmul with a pipeline, where there are experts or the file says it."""
    if w.value("using_pipeline_parallelism") is not True or w.value("sparse_matmul") is not True:
        return
    count = w.value("num_experts")
    if w.said("sparse_matmul") is not None or (whole(count) and count > 1):
        stages = w.value("num_stages")
        sentence = f"sparse_matmul is on, and the layers are a pipeline of {stages} stages"
        where = w.where("sparse_matmul", *degree_keys("stage"))
        yield Fault("sparse_matmul", sentence, where, write(w, sparse_matmul=False))
