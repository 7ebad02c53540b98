"""How long a training step takes, as a range, part by part.

    step = sum of the parts below, each work over what the hardware reaches of its peak

Compute: GEMMs, attention, element-wise work. Traffic: expert dispatch and combine, which nothing
hides; gathered weights and reduced gradients, hidden behind compute up to a share; gradients of
data replicas; tensor parallel traffic. What the hardware reaches is data with its sources
(`facts/data/step_model.yaml`), never fitted to the figure that is predicted; a calibration from
a measured run may be passed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import log2
from typing import Any, Final, Literal

from moectl.estimate.activations import COMPUTE_BYTES
from moectl.estimate.spread import Spread
from moectl.estimate.work import Work, ranks_hit
from moectl.facts.yaml_facts import read
from moectl.values import Hardware

Pace = Literal["slow", "middle", "fast"]
PACES: Final[tuple[Pace, ...]] = ("slow", "middle", "fast")
_TERA = 1e12
_GIGA = 1e9

Efficiencies = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of one step.

    Attributes:
        parts: seconds by part and pace; the parts are those of step_model.yaml.
        hidden: seconds of traffic by pace that compute hides.
        model_flops: model FLOPs a device and step, as MaxText counts them.
        tokens: tokens a device and step.
        peak: dense FLOP/s of the dtype in which the experts are multiplied.
        dtype: that dtype.
        calibrated: whether measured efficiencies were used.
    """

    parts: Mapping[Pace, Mapping[str, float]]
    hidden: Mapping[Pace, float]
    model_flops: float
    tokens: float
    peak: float
    dtype: str
    calibrated: bool = False

    def seconds(self, pace: Pace = "middle") -> float:
        """Return the seconds of a step."""
        return sum(self.parts[pace].values())

    def flops(self, pace: Pace = "middle") -> float:
        """Return model FLOP/s a device."""
        return self.model_flops / self.seconds(pace)

    def tokens_per_second(self, pace: Pace = "middle") -> float:
        """Return tokens a second and device."""
        return self.tokens / self.seconds(pace)

    def mfu(self, pace: Pace = "middle") -> float:
        """Return the share of `peak` that the model's FLOPs are."""
        return self.flops(pace) / self.peak

    @property
    def dominant(self) -> str:
        """Return the part that takes the longest, middle pace."""
        parts = self.parts["middle"]
        return max(parts, key=lambda name: parts[name])


@dataclass(frozen=True, slots=True)
class Machine:
    """Peaks of one platform, as the step model needs them: FLOP/s and bytes/s a GPU, one way."""

    name: str
    peaks: Mapping[str, float]
    memory: float
    nvlink: float
    network: float
    host_link: float
    domain: int
    optional: frozenset[str] = field(default_factory=frozenset)


def machine_of(hardware: Hardware) -> Machine | None:
    """Return the peaks of a platform; None where the catalogue lacks one."""
    figures = hardware.figures
    dense = figures.get("dense_tflops")
    needed = [figures.get(key) for key in ("hbm_gbs", "nvlink_gbs", "nic_gbps")]
    if not isinstance(dense, Mapping) or not all(isinstance(n, int | float) for n in needed):
        return None
    memory, nvlink, network = (float(str(number)) for number in needed)
    peaks = {name: float(value) * _TERA for name, value in dense.items() if value}
    if "bf16" not in peaks:
        return None
    for name, share in read("step_model.yaml")["shares_of_bf16"].items():
        peaks.setdefault(name, peaks["bf16"] * share)
    return Machine(
        name=hardware.name,
        peaks=peaks,
        memory=memory * _GIGA,
        nvlink=nvlink * _GIGA,
        network=network / 8 * _GIGA,
        host_link=float(figures.get("host_link_gbs") or 0) * _GIGA,
        domain=hardware.usable_domain_gpus,
    )


@lru_cache(maxsize=1)
def efficiencies() -> dict[Pace, dict[str, float]]:
    """Return every efficiency and share of step_model.yaml by pace."""
    facts = read("step_model.yaml")
    rows = {**facts["efficiencies"], **facts["shares"], "layer": facts["layer_seconds"]}
    return {
        pace: {name: float(row["values"][index]) for name, row in rows.items()}
        for index, pace in enumerate(PACES)
    }


def step_time(
    work: Work,
    spread: Spread,
    machine: Machine,
    calibration: Mapping[str, float] | None = None,
) -> StepTime:
    """Return the time of a step.

    Args:
        work: what a device does in a micro-step.
        spread: the mesh.
        machine: the GPUs.
        calibration: measured efficiencies and shares by the names of step_model.yaml; each
            replaces its whole range.
    """
    known = efficiencies()
    facts = read("step_model.yaml")
    traffic = _traffic(work, spread, facts)
    parts: dict[Pace, Mapping[str, float]] = {}
    hidden: dict[Pace, float] = {}
    for pace in PACES:
        reached = known[pace] if not calibration else {**known[pace], **calibration}
        parts[pace], hidden[pace] = _parts(work, spread, machine, reached, traffic, facts)
    dtype = work.expert_dtype if work.model.experts > 1 else work.dense_dtype
    found = _peak_dtype(dtype, machine, facts)
    return StepTime(
        parts=parts,
        hidden=hidden,
        model_flops=work.model_flops,
        tokens=work.tokens * work.accumulation,
        peak=machine.peaks[found],
        dtype=found,
        calibrated=bool(calibration),
    )


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Bytes a GPU receives in a micro-step, over NVLink and over its network card; hops."""

    exchange_near: float
    exchange_far: float
    weights_near: float
    weights_far: float
    weights_latency: float
    tensor: float
    gradients: float


def _traffic(work: Work, spread: Spread, facts: Mapping[str, Any]) -> _Traffic:
    model, wire = work.model, _wire(work, facts)
    near = far = 0.0
    if spread.expert > 1 and model.experts > 1:
        one = work.tokens * model.emb * wire["activation"] * model.moe * work.transfers
        if work.deduplicated:
            copies = ranks_hit(model.experts, model.top_k, spread.expert)
            domains = spread.expert // spread.expert_near
            across = ranks_hit(model.experts, model.top_k, domains) if domains > 1 else 0.0
        else:
            copies = work.rows
            domains = spread.expert // spread.expert_near
            across = work.rows if domains > 1 else 0.0
        near = one * copies * (spread.expert - 1) / spread.expert
        far = one * across * (domains - 1) / domains if domains > 1 else 0.0
    weights_near, weights_far, latency = _weights(work, spread, facts)
    tensor = 8 * work.tokens * model.emb * wire["activation"] * (spread.tensor - 1) * model.layers
    if spread.context > 1:
        keys = (
            model.kv_heads * (model.query + model.value)
            if model.latent is None
            else (model.latent.rank + model.latent.rope)
        )
        tensor += 3 * work.tokens * keys * wire["activation"] * (spread.context - 1) * model.layers
    return _Traffic(
        near, far, weights_near, weights_far, latency, tensor, _gradients(work, spread, facts)
    )


def _weights(work: Work, spread: Spread, facts: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return bytes near and far, and latency, of gathering weights and reducing gradients."""
    wire, lag = _wire(work, facts), facts["latency"]
    gather = wire["quantized_weight"] if work.quantized_gather else wire["weight"]
    groups = (
        # elements a device uses in all layers, ranks that share them, those near, bytes
        (
            work.expert_weights / (spread.expert * spread.tensor * spread.stages),
            spread.fsdp,
            spread.fsdp_near,
            2 * gather + wire["gradient"],
        ),
        (
            work.other_weights / (spread.tensor * spread.stages),
            spread.fsdp * spread.expert,
            spread.fsdp_near * spread.expert_near,
            2 * wire["weight"] + wire["gradient"],
        ),
        (
            work.tables / spread.tensor,
            spread.fsdp * spread.expert,
            spread.fsdp_near * spread.expert_near,
            1.5 * wire["weight"],
        ),
    )
    near = far = latency = 0.0
    for elements, ranks, close, each in groups[: 1 if spread.whole else None]:
        if ranks <= 1 or not elements:
            continue
        received = elements * each * (ranks - 1) / ranks
        near += received
        domains = max(1, ranks // max(1, close))
        far += received / close if domains > 1 else 0.0
        hops = (close - 1) * lag["nvlink"] + log2(domains) * lag["network"]
        latency += 3 * work.model.layers * hops
    return near, far, latency


def _gradients(work: Work, spread: Spread, facts: Mapping[str, Any]) -> float:
    experts = work.expert_weights / (spread.expert * spread.tensor * spread.fsdp * spread.stages)
    others = (work.other_weights / spread.stages + work.tables) / spread.tensor
    replicas = spread.data
    if spread.whole:
        replicas *= spread.fsdp * spread.expert
    else:
        others /= spread.fsdp * spread.expert
    sent = experts * (spread.data - 1) / spread.data + others * (replicas - 1) / replicas
    return float(2 * sent * _wire(work, facts)["gradient"])


def _parts(
    work: Work,
    spread: Spread,
    machine: Machine,
    reached: Efficiencies,
    traffic: _Traffic,
    facts: Mapping[str, Any],
) -> tuple[dict[str, float], float]:
    """Return seconds by part, and the seconds of traffic that compute hides."""
    dense, dense_kind = _peak(work.dense_dtype, machine, facts)
    experts, expert_kind = _peak(work.expert_dtype, machine, facts)
    plain, memory = machine.peaks[work.core_dtype], machine.memory * reached["memory"]
    grown = _padding(work, spread)
    core = reached["attention"] if work.fused else reached["scores"]
    nvlink, network = machine.nvlink * reached["nvlink"], machine.network * reached["network"]
    parts = {
        "attention_gemm": work.attention_gemm / (dense * reached[f"gemm_{dense_kind}"]),
        "attention": work.attention / (plain * core) + work.score_bytes / memory,
        "dense_gemm": work.dense_gemm / (dense * reached[f"gemm_{dense_kind}"]),
        "expert_gemm": work.expert_gemm
        * max(grown, reached["imbalance"])
        / (experts * reached[f"grouped_{expert_kind}"]),
        "logits": work.logits / (plain * reached["gemm_bf16"]),
        "elementwise": work.moved / memory,
    }
    compute = sum(parts.values())
    parts["exchange"] = reached["imbalance"] * max(
        traffic.exchange_near / (machine.nvlink * reached["exchange"]),
        traffic.exchange_far / network,
    )
    wait = traffic.weights_near / nvlink + traffic.weights_far / network + traffic.weights_latency
    shown = max(wait - reached["hidden"] * compute, reached["exposed_weights"] * wait)
    parts["weights"] = shown
    parts["tensor"] = traffic.tensor / nvlink
    host = machine.host_link * reached["host_link"]
    back = 2 * work.offloaded / host if host else 0.0
    parts["offload"] = max(0.0, back - reached["hidden"] * compute)
    if spread.stages > 1:
        micro = work.microbatches or spread.stages
        parts["bubble"] = (spread.stages - 1) / (micro * work.repeats) * sum(parts.values())
    if work.accumulation != 1:
        parts = {name: seconds * work.accumulation for name, seconds in parts.items()}
    held = (work.expert_weights + work.other_weights + work.tables) / (
        spread.fsdp * spread.expert * spread.tensor * spread.stages
    )
    # Nothing hides these: the weights come before the forward pass, the moments before the update.
    parts["offload"] += 2 * work.stored / host if host else 0.0
    parts["optimizer"] = held * facts["optimizer_bytes"]["values"] / memory
    across = network if spread.data_far > 1 else nvlink
    parts["dcn"] = reached["exposed_gradients"] * traffic.gradients / across
    total = sum(parts.values())
    starts = reached["layer"] * work.model.layers / spread.stages * work.accumulation
    parts["other"] = reached["other"] * total + starts
    doublings = log2(max(1.0, spread.gpus / machine.domain))
    parts["straggling"] = reached["straggling"] * doublings * total
    return parts, (wait - shown) * work.accumulation


def _wire(work: Work, facts: Mapping[str, Any]) -> dict[str, float]:
    """Return bytes of an element that goes over the wire; what is quantized keeps its own."""
    wire: dict[str, float] = facts["wire"]
    grown = work.width / COMPUTE_BYTES
    return {k: v if k == "quantized_weight" else v * grown for k, v in wire.items()}


def _padding(work: Work, spread: Spread) -> float:
    """Return rows multiplied over rows wanted where each local expert multiplies all rows."""
    if not work.padded:
        return 1.0
    local = max(1, work.model.experts // spread.expert)
    return local * (work.bound or spread.expert)


def _peak(dtype: str, machine: Machine, facts: Mapping[str, Any]) -> tuple[float, str]:
    found = _peak_dtype(dtype, machine, facts)
    return machine.peaks[found], facts["kinds"][found]


def _peak_dtype(dtype: str, machine: Machine, facts: Mapping[str, Any]) -> str:
    """Return the dtype whose peak counts: the nearest that the GPU has."""
    while dtype not in machine.peaks:
        dtype = facts["falls_back"][dtype]
    return dtype
