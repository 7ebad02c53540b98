"""An estimate as text for people and as data for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moectl.estimate.assessment import Assessment
from moectl.facts.yaml_facts import read

if TYPE_CHECKING:
    from moectl.actions.estimate import Answer
    from moectl.estimate.memory import Estimate

_GIB = 1 << 30
_TERA = 1e12
_HOUR_DIGITS = 1000


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its key in estimate_lines.yaml or step_model.yaml, and what stands behind it."""

    key: str
    value: str
    part: bool = False


def as_dict(answer: Answer, *, explain: bool = False) -> dict[str, Any]:
    """Return the estimate as plain data; None where nothing honest can be said.

    With `explain` every line of the text comes with its formula and source.
    """
    found = answer.assessment
    memory, room, time = found.memory, found.room, found.time
    ranges: dict[str, Any] = {"step_time_s": None, "tflops_per_gpu": None, "mfu": None}
    if time is not None:
        ranges = {
            "step_time_s": _range(time.seconds("fast"), time.seconds(), time.seconds("slow")),
            "tflops_per_gpu": _range(
                time.flops("slow") / _TERA, time.flops() / _TERA, time.flops("fast") / _TERA
            ),
            "mfu": {
                **_range(time.mfu("slow"), time.mfu(), time.mfu("fast")),
                "dtype": time.dtype,
                "dense_peak_tflops": round(time.peak / _TERA, 3),
            },
        }
    return {
        "target": answer.target,
        "model": found.prepared.name,
        "hardware": found.request.hardware.name,
        "gpus": found.request.gpus,
        "mesh": {
            "ici": _above_one(found.request.ici),
            "dcn": _above_one(found.request.dcn),
        },
        "batch": {
            "per_device": answer.batch,
            "accumulation": answer.accumulation,
            "sequence_length": answer.sequence,
        },
        "parameters": {"total": found.prepared.total, "active": found.prepared.active},
        "bytes_per_device": _bytes(found),
        "host_bytes_per_device": memory.host if memory is not None else None,
        "host_parts_per_device": None
        if memory is None
        else {
            "parameters": memory.weights_host,
            "optimizer": memory.moments_host,
            "activations": memory.activations_host,
        },
        "fits": found.fits,
        "verdict": found.verdict,
        "memory_basis": None
        if memory is None
        else {"kind": memory.basis, "measured": memory.measured, "compiled": memory.compiled},
        "pool": None
        if room is None
        else {
            "visible": room.visible,
            "context": room.context,
            "fraction": found.request.fraction,
            "pool": room.pool,
            "scheduler_limit": room.scheduler,
            "outside": room.outside,
        },
        "gpus_that_hold": answer.holds,
        "gpus_that_hold_with": list(answer.holds_with),
        "flops_per_step_per_device": found.model_flops,
        "flops_counted_by": "MaxText 0.2.5",
        "flops_per_token": {"maxtext": found.flops_per_token, "megatron": found.megatron_per_token},
        **ranges,
        "tokens_per_s_per_gpu": round(time.tokens_per_second(), 3) if time is not None else None,
        "dominant": time.dominant if time is not None else None,
        "parts_s": None
        if time is None
        else {name: round(seconds, 6) for name, seconds in time.parts["middle"].items()},
        "calibrated": time.calibrated if time is not None else False,
        "budget": _budget(answer),
        "errors": list(answer.errors),
        "findings": [finding.as_dict() for finding in answer.findings],
        "notes": list(answer.notes),
        **({"lines": _explained(answer)} if explain else {}),
    }


def _explained(answer: Answer) -> list[dict[str, Any]]:
    rows = []
    for section, lines in _sections(answer):
        for line in lines:
            formula, *sources = _reasons(line)
            rows.append(
                {
                    "section": section,
                    "line": _title(line),
                    "value": " ".join(line.value.split()),
                    "formula": formula,
                    "sources": [source.removeprefix("source: ") for source in sources],
                }
            )
    return rows


def _bytes(found: Assessment) -> dict[str, Any] | None:
    memory, room = found.memory, found.room
    if memory is None:
        return None
    # What is offloaded is not on the device but for what is fetched: the parts are the peak.
    moments = 0 if memory.moments_host else memory.moments
    first = 0 if memory.moments_host else memory.mu
    return {
        "parameters": memory.weights - memory.weights_host,
        "optimizer": moments,
        "first_moment": first,
        "second_moment": moments - first,
        "fetched_parameters": found.term("weights fetched for the step"),
        "fetched_moments": found.term("moments fetched for the update"),
        "gradients": found.term("gradients") + found.term("gradient accumulation"),
        "activations": found.term("kept activations"),
        "moe_buffers": found.term("expert buffers"),
        "gathered_weights": found.term("gathered layers") + found.term("vocabulary tables"),
        "logits": found.term("logits"),
        "arguments": memory.arguments,
        "peak": memory.total(),
        "peak_low": memory.total("low"),
        "peak_high": memory.total("high"),
        "limit": room.pool if room is not None else None,
    }


def _budget(answer: Answer) -> dict[str, Any] | None:
    budget = answer.budget
    if budget is None:
        return None
    return {
        "tokens": budget.tokens,
        "gpu_hours": round(budget.hours, 3),
        "days": round(budget.days, 3),
        "price_per_gpu_hour": budget.price,
        "cost": None if budget.cost is None else round(budget.cost, 2),
    }


def text(answer: Answer, *, explain: bool = False) -> str:
    """Return the estimate as text; with `explain` every line with its formula and source."""
    out: list[str] = [_head(answer), ""]
    for title, lines in _sections(answer):
        out.append(title)
        width = max((len(_title(line)) for line in lines), default=0) + 2
        for line in lines:
            out.append(f"  {_title(line):<{width}}{line.value}")
            if explain:
                out += [f"      {text}" for text in _reasons(line)]
        out.append("")
    out += [f"note: {note}" for note in answer.notes]
    if answer.findings:
        out.append("")
    for finding in answer.findings:
        out.append(f"error {finding.code} {finding.field}: {finding.message}")
        out += [f"  {finding.hint}"] if finding.hint else []
    return "\n".join(out).rstrip() + "\n"


def _head(answer: Answer) -> str:
    request = answer.assessment.request
    axes = [
        f"{axis} {ici}{f' x {request.dcn[axis]}' if request.dcn.get(axis, 1) > 1 else ''}"
        for axis, ici in request.ici.items()
        if ici > 1 or request.dcn.get(axis, 1) > 1
    ]
    axes += [f"{a} 1 x {d}" for a, d in request.dcn.items() if d > 1 and a not in request.ici]
    steps = "" if answer.accumulation == 1 else f", {answer.accumulation} micro-steps"
    return (
        f"{answer.assessment.prepared.name} on {request.gpus} {request.hardware.name}: "
        f"{', '.join(axes) or 'one GPU'} (ICI x DCN); "
        f"{answer.batch:g} x {answer.sequence} tokens a GPU{steps}"
    )


def _sections(answer: Answer) -> Iterator[tuple[str, list[Line]]]:
    found = answer.assessment
    if found.prepared.total is not None:
        yield "model", _model_lines(found)
    if found.memory is not None:
        yield "memory of a GPU", list(_memory_lines(answer))
    if found.time is not None:
        yield "step", [*_flops_lines(found), *_step_lines(found)]
        parts = sorted(found.time.parts["middle"].items(), key=lambda item: -item[1])
        total = found.time.seconds()
        yield (
            "parts of the step, in the middle of the range",
            [
                Line(name, f"{seconds:8.3f} s {seconds / total:5.0%}", part=True)
                for name, seconds in parts
                if seconds > 0
            ],
        )
    elif found.model_flops is not None:
        yield "step", list(_flops_lines(found))
    if answer.budget is not None:
        yield "cost", [Line("budget", _cost(answer))]


def _model_lines(found: Assessment) -> list[Line]:
    lines = [Line("total", f"{(found.prepared.total or 0) / 1e9:,.2f} B")]
    if found.prepared.active is None:
        return lines
    model = found.prepared.model
    experts = ""
    if model is not None and model.experts > 1:
        experts = f", {model.top_k + model.shared} experts a token"
        experts += f" ({model.top_k} of {model.experts} routed, {model.shared} shared)"
    return [*lines, Line("active", f"{found.prepared.active / 1e9:,.2f} B{experts}")]


def _memory_lines(answer: Answer) -> Iterator[Line]:
    found = answer.assessment
    memory, room = found.memory, found.room
    assert memory is not None  # noqa: S101 - the caller has looked
    away = ", in host memory" if memory.weights_host else ""
    yield Line("parameters", f"{_gib(memory.weights)}  exact, {memory.weights} bytes{away}")
    away = ", in host memory" if memory.moments_host else ""
    yield Line("mu", f"{_gib(memory.mu)}  exact{away}")
    yield Line("nu", f"{_gib(memory.moments - memory.mu)}  exact{away}")
    yield Line("arguments", _gib(memory.arguments))
    for term in memory.terms:
        yield Line(term.name, _gib(term.bytes))
    yield Line(
        "peak",
        f"{_gib(memory.total())}  ({_gib(memory.total('low')).strip()} to "
        f"{_gib(memory.total('high')).strip()}; {_basis(memory)})",
    )
    if room is not None:
        yield Line(
            "pool",
            f"{_gib(room.pool)}  {found.request.fraction:g} of {_gib(room.visible).strip()}: "
            f"{found.verdict}{_holds(answer)}",
        )
        yield Line("scheduler", f"{_gib(room.scheduler)}  slop factor {found.request.slop}")
        yield Line("outside", _gib(room.outside))
    yield Line("host", _gib(memory.host))


def _basis(memory: Estimate) -> str:
    if memory.compiled:
        return "steps of this kind were compiled"
    return f"runs of this kind were {'' if memory.measured else 'not '}measured"


def _holds(answer: Answer) -> str:
    if answer.holds is None:
        return ""
    how = f" with --set {' --set '.join(answer.holds_with)}" if answer.holds_with else ""
    if answer.holds == answer.assessment.request.gpus:
        return f"; one sequence a GPU fits{how}"
    return f"; {answer.holds} GPUs hold it at one sequence a GPU{how}"


def _flops_lines(found: Assessment) -> Iterator[Line]:
    assert found.model_flops is not None  # noqa: S101 - the callers have looked
    yield Line("flops", f"{found.model_flops / _TERA:,.1f} TFLOP")
    if found.megatron_per_token and found.flops_per_token:
        more = found.megatron_per_token / found.flops_per_token
        yield Line("megatron", f"{found.model_flops * more / _TERA:,.1f} TFLOP ({more - 1:+.1%})")


def _step_lines(found: Assessment) -> Iterator[Line]:
    time = found.time
    assert time is not None  # noqa: S101 - the caller has looked
    calibrated = "calibrated" if time.calibrated else "not calibrated"
    yield Line(
        "step",
        f"{time.seconds():.3f} s  ({time.seconds('fast'):.3f} to {time.seconds('slow'):.3f}), "
        f"{calibrated}",
    )
    yield Line(
        "tflops",
        f"{time.flops() / _TERA:,.0f}  ({time.flops('slow') / _TERA:,.0f} to "
        f"{time.flops('fast') / _TERA:,.0f})",
    )
    yield Line(
        "tokens",
        f"{time.tokens_per_second():,.0f}  ({time.tokens_per_second('slow'):,.0f} to "
        f"{time.tokens_per_second('fast'):,.0f})",
    )
    yield Line(
        "mfu",
        f"{time.mfu():.1%} of {time.peak / _TERA:,.0f} TFLOP/s, the dense {time.dtype} peak of "
        f"{found.request.hardware.name}",
    )


def _cost(answer: Answer) -> str:
    budget = answer.budget
    assert budget is not None  # noqa: S101 - the caller has looked
    digits = 0 if budget.hours >= _HOUR_DIGITS else 2
    said = f"{_short(budget.tokens)} tokens: {budget.hours:,.{digits}f} GPU-hours, "
    said += f"{budget.days:,.1f} days on {answer.assessment.request.gpus} GPUs"
    return said if budget.cost is None else f"{said}, {budget.cost:,.0f} at {budget.price:g} each"


def _short(number: float) -> str:
    """Write a number with a unit of thousands, as `--tokens` takes it."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if number >= size:
            return f"{number / size:g}{unit}"
    return f"{number:g}"


def _facts(line: Line) -> Mapping[str, Any]:
    if line.part:
        row: Mapping[str, Any] = read("step_model.yaml")["parts"][line.key]
        return row
    found: Mapping[str, Any] = read("estimate_lines.yaml")["lines"][line.key]
    return found


def _title(line: Line) -> str:
    return str(_facts(line)["title"])


def _reasons(line: Line) -> list[str]:
    row = _facts(line)
    if not line.part:
        return [row["formula"], f"source: {row['source']}"]
    known = read("step_model.yaml")["sources"]
    sources = [known[code] for code in row["sources"]] or ["judgement"]
    return [row["formula"], *(f"source: {source}" for source in sources)]


def _gib(size: int) -> str:
    return f"{size / _GIB:8.2f} GiB"


def _range(low: float, mid: float, high: float) -> dict[str, float]:
    return {"low": round(low, 6), "mid": round(mid, 6), "high": round(high, 6)}


def _above_one(degrees: Mapping[str, int]) -> dict[str, int]:
    return {axis: degree for axis, degree in degrees.items() if degree != 1}
