"""Everything an estimate says of one run, from its effective values, its mesh and its GPU.

    prepared = prepare(values, release)          what depends on the model alone
    found = assess(prepared, values, request)    memory, FLOPs, step time of one candidate

The planner asks thousands of candidates of one prepared model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from moectl.estimate import flops, memory
from moectl.estimate.architecture import Architecture, of_values
from moectl.estimate.layout import Layout, layout_of
from moectl.estimate.memory import Estimate
from moectl.estimate.spread import spread_of
from moectl.estimate.step_time import StepTime, machine_of, step_time
from moectl.estimate.work import work_of
from moectl.facts import maxtext
from moectl.facts.yaml_facts import read
from moectl.values import Hardware

SURE: Final = "fits"
LIKELY: Final = "should fit"
OPEN: Final = "may not fit"
NEVER: Final = "does not fit"
_MOST_GPUS = 1 << 17


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model, prepared for many meshes.

    Attributes:
        name: MaxText's name of the model.
        release: the MaxText release.
        model: its dimensions; None where MaxText counts it by formulas that are not followed.
        layout: its weights; None where the tables cannot tell.
        total, active: parameters, and those a token is multiplied with; None without a layout.
    """

    name: str
    release: str
    model: Architecture | None
    layout: Layout | None
    total: int | None
    active: int | None


@dataclass(frozen=True, slots=True)
class Request:
    """What a candidate is assessed for.

    Attributes:
        hardware: the platform.
        ici, dcn: degrees by the name in MaxText's key (fsdp, expert, pipeline, ...).
        fraction: share of GPU memory that XLA's pool takes.
        slop: XLA's memory_limit_slop_factor in percent.
        calibration: measured efficiencies, by the names of step_model.yaml.
    """

    hardware: Hardware
    ici: Mapping[str, int]
    dcn: Mapping[str, int]
    fraction: float
    slop: int
    calibration: Mapping[str, float] | None = None

    @property
    def gpus(self) -> int:
        """Return the GPUs in all."""
        return prod(self.ici.values()) * prod(self.dcn.values())


@dataclass(frozen=True, slots=True)
class Room:
    """GPU memory of one device in bytes.

    Attributes:
        visible: what the driver shows.
        context: what CUDA itself takes before the pool is made.
        pool: XLA's pool, in which all arrays of the program lie.
        scheduler: what XLA's scheduler plans a step with: (pool - arguments) x slop.
        outside: what is left for buffers that are not XLA's: NCCL, expert exchange, libraries.
    """

    visible: int
    context: int
    pool: int
    scheduler: int
    outside: int


@dataclass(frozen=True, slots=True)
class Assessment:
    """What an estimate says.

    Attributes:
        prepared: the model.
        request: what was asked.
        memory: memory of one GPU; None where nothing honest can be said.
        room: GPU memory there is; None where the platform's is not known.
        flops_per_token: training FLOPs a token as MaxText counts; None with `time`.
        megatron_per_token: the same as Megatron's recipe of the model counts.
        time: the time of a step; None where the platform or the decoder is not known.
        model_flops: model FLOPs a device and step, which need no platform; None with
            `flops_per_token`.
    """

    prepared: Prepared
    request: Request
    memory: Estimate | None
    room: Room | None
    flops_per_token: float | None
    megatron_per_token: float | None
    time: StepTime | None
    model_flops: float | None = None

    @property
    def verdict(self) -> str | None:
        """Return whether the step fits: one of SURE, LIKELY, OPEN, NEVER; None if unknown."""
        found, room = self.memory, self.room
        if found is None or room is None:
            return None
        if found.total("high") <= room.pool:
            return SURE
        if least(found) > room.pool:
            return NEVER
        return LIKELY if found.total() <= room.pool else OPEN

    @property
    def fits(self) -> bool | None:
        """Whether nothing certain speaks against it; None if unknown."""
        verdict = self.verdict
        return None if verdict is None else verdict != NEVER

    def term(self, name: str) -> int:
        """Return the bytes of one part of the step's arena, 0 where there is none."""
        if self.memory is None:
            return 0
        return next((term.bytes for term in self.memory.terms if term.name == name), 0)


def prepare(values: Mapping[str, Any], release: str) -> Prepared:
    """Return what depends on the model alone.

    Args:
        values: effective MaxText values.
        release: the MaxText release.
    """
    model = of_values(values)
    try:
        layout = layout_of(values, release)
    except ValueError:
        layout = None
    experts, top_k = values.get("num_experts"), values.get("num_experts_per_tok")
    active = None
    if layout is not None and isinstance(experts, int) and isinstance(top_k, int):
        active = layout.active(experts, top_k)
    return Prepared(
        name=str(values.get("model_name")),
        release=release,
        model=model,
        layout=layout,
        total=layout.parameters() if layout is not None else None,
        active=active,
    )


def assess(prepared: Prepared, values: Mapping[str, Any], request: Request) -> Assessment:
    """Return the assessment of one candidate; some 0.1 ms.

    Args:
        prepared: the model, of the same dimensions and rules as `values`.
        values: effective MaxText values: batch, sequence, remat, precision, MoE path.
        request: mesh, platform and memory settings.
    """
    mesh = mesh_of(request.ici, request.dcn, prepared.release)
    found = (
        memory.estimate(values, mesh, prepared.release, prepared.layout)
        if prepared.layout is not None
        else None
    )
    work = None
    if prepared.model is not None:
        work = work_of(
            prepared.model,
            values,
            offloaded=found.activations_host if found else 0,
            stored=found.weights_host + found.moments_host if found else 0,
        )
    machine = machine_of(request.hardware)
    time = None
    if work is not None and machine is not None:
        spread = spread_of(request.ici, request.dcn, machine.domain)
        time = step_time(work, spread, machine, request.calibration)
    each = other = None
    if work is not None and prepared.model is not None:
        each = flops.per_token(prepared.model, work.sequence).training
        layers = flops.megatron_prediction_layers(prepared.name) or prepared.model.prediction
        other = flops.megatron(prepared.model, work.sequence, layers)
    return Assessment(
        prepared=prepared,
        request=request,
        memory=found,
        room=room_of(request, found.arguments if found else 0),
        flops_per_token=each,
        megatron_per_token=other,
        time=time,
        model_flops=work.model_flops if work is not None else None,
    )


def mesh_of(ici: Mapping[str, int], dcn: Mapping[str, int], release: str) -> dict[str, int]:
    """Return the size of every mesh axis by its name in the mesh (pipeline is "stage" there)."""
    catalogue = maxtext.load(release)
    sizes = {}
    for axis in catalogue.mesh_axes:
        name = catalogue.axes[axis].ici.removeprefix("ici_").removesuffix("_parallelism")
        sizes[axis] = ici.get(name, 1) * dcn.get(name, 1)
    return sizes


def room_of(request: Request, arguments: int) -> Room | None:
    """Return the GPU memory there is; None where the platform's is not known."""
    visible = request.hardware.figures.get("hbm_visible_bytes")
    if not isinstance(visible, int):
        return None
    context = int(read("memory.yaml")["context_bytes"])
    size = memory.pool(visible, request.fraction)
    return Room(
        visible=visible,
        context=context,
        pool=size,
        scheduler=memory.scheduler_limit(size, arguments, request.slop),
        outside=visible - context - size,
    )


def gpus_that_hold(prepared: Prepared, values: Mapping[str, Any], request: Request) -> int | None:
    """Return how many GPUs a model takes at one sequence a GPU, by doubling FSDP; None if many.

    It holds it where the verdict would be "fits" or "should fit", with FSDP over all GPUs that the
    other axes leave. Doublings of the GPUs that are asked for are looked at, up to 131,072.
    """
    room = room_of(request, 0)
    if prepared.layout is None or room is None:
        return None
    one = {**values, "per_device_batch_size": 1}
    ici, factor = dict(request.ici), 1
    while request.gpus * factor <= _MOST_GPUS:
        mesh = mesh_of({**ici, "fsdp": ici.get("fsdp", 1) * factor}, request.dcn, prepared.release)
        layout = prepared.layout.narrowed(mesh)
        found = memory.estimate(one, mesh, prepared.release, layout)
        if found is None:
            return None
        if found.total() <= room.pool and layout.divides(mesh):
            return request.gpus * factor
        factor *= 2
    return None


def least(found: Estimate) -> int:
    """Return the bytes below which a step is sure not to run: the middle where runs were measured.

    Of compiled steps it is the low end, into which XLA presses what is too large; of others
    weights, moments and gradients.
    """
    if found.measured:
        return found.total()
    return found.total("low") if found.compiled else found.least


def gpus_for_weights(parameters: float, item_bytes: int, gpu_bytes: float) -> float:
    """Return how many GPUs' memory the weights alone fill.

    Args:
        parameters: number of parameters.
        item_bytes: bytes of one.
        gpu_bytes: memory of a GPU.
    """
    return parameters * item_bytes / gpu_bytes


def gpu_hours(tokens: float, tokens_per_second: float) -> float:
    """Return GPU-hours of a budget of tokens at tokens a second and GPU."""
    return tokens / tokens_per_second / 3600


def cost(hours: float, price: float) -> float:
    """Return what GPU-hours cost at a price an hour, in its currency."""
    return hours * price
