"""What a run's figures are measured against: GPUs, precision, peak, and how FLOPs were counted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from moectl.facts.hardware import platform
from moectl.facts.yaml_facts import read
from moectl.report.gather import Material
from moectl.report.series import Series

_WORDS = {"None": None, "True": True, "False": False, "true": True, "false": False}
_MEMBER = re.compile(r"[A-Z][A-Za-z0-9]{1,60}\.([A-Z][A-Z0-9_]{0,60})", re.ASCII)
_WHOLE = re.compile(r"-?\d+", re.ASCII)
_NUMBER = re.compile(r"-?\d+\.\d*(?:e[+-]?\d{1,3})?|-?\d+e[+-]?\d{1,3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody says of a run that its files do not.

    Attributes:
        hardware: the platform, "" for what the files say.
        precision: the row of its peaks that MFU divides by, "" for what the files say.
        gpus: GPUs in all, None for what the files say.
    """

    hardware: str = ""
    precision: str = ""
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a run is.

    Attributes:
        config: MaxText's keys as text, the echo before what the bundle says.
        config_places: where each stands.
        gpus: GPUs in all, None where nothing says it.
        gpus_place: who says so.
        hardware: the platform, "" for an unknown one.
        precision: precision of the matrix products, "" where nothing says it.
        precision_why: who says so, or why nothing does.
        peak: dense peak of a GPU in that precision, TFLOP/s, or None.
        peak_why: who says so, or why there is none.
        model_tflop: model FLOPs of a step and GPU by MaxText's formula, in TFLOP, counted here
            from the configuration; None where that cannot be.
        model_why: why not, or the formula.
    """

    config: Mapping[str, str]
    config_places: Mapping[str, str]
    gpus: int | None
    gpus_place: str
    hardware: str
    precision: str
    precision_why: str
    peak: float | None
    peak_why: str
    model_tflop: float | None
    model_why: str


def context(material: Material, series: Series, wish: Wish) -> Context:
    """Return what a run is, by its logs, its bundle and what somebody says.

    Raises:
        UnknownNameError: the hardware is in no catalogue.
    """
    config, places = _config(material, series)
    gpus, gpus_place = _gpus(material, series, wish)
    hardware = (
        platform(wish.hardware or material.hardware).name
        if (wish.hardware or material.hardware)
        else ""
    )
    precision, precision_why = _precision(config, places, wish)
    peak, peak_why = _peak(hardware, precision, precision_why)
    tflop, model_why = _model(config)
    return Context(
        config, places, gpus, gpus_place, hardware, precision, precision_why, peak, peak_why,
        tflop, model_why,
    )  # fmt: skip


def _config(material: Material, series: Series) -> tuple[dict[str, str], dict[str, str]]:
    config = dict(material.config)
    places = dict.fromkeys(config, material.config_place)
    starts = [
        (piece.file, piece.start) for run in series.runs for piece in run.pieces if piece.start
    ]
    if not starts:  # no step yet
        starts = [(str(log.path), start) for log in material.logs for start in log.starts[-1:]]
    if starts:
        file, start = starts[-1]
        config |= {key: _said(text) for key, text in start.config.items()}
        places |= {key: f"{file}:{line}" for key, line in start.lines.items()}
    return config, places


def _said(text: str) -> str:
    """Return a value of the echo as a configuration has it: a choice is printed Class.MEMBER."""
    match = _MEMBER.fullmatch(text)
    return read("report.yaml")["members"].get(match[1], match[1].lower()) if match else text


def _gpus(material: Material, series: Series, wish: Wish) -> tuple[int | None, str]:
    if wish.gpus is not None:
        return wish.gpus, "--gpus"
    paths = set(series.paths)
    for log in reversed(material.logs):
        if paths and str(log.path) not in paths:
            continue
        for said in reversed(log.said):
            if said.kind == "devices" and said.value:
                return int(said.value), f"{log.path}:{said.line}"
    return material.gpus, "the record of the run" if material.gpus else ""


def _precision(config: Mapping[str, str], places: Mapping[str, str], wish: Wish) -> tuple[str, str]:
    facts = read("report.yaml")["precision"]
    if wish.precision:
        return wish.precision, "--precision"
    held = [(key, config[key]) for key in facts["keys"] if key in config]
    said = [(key, value) for key, value in held if value not in {"", "None"}]
    for key, value in said:
        known = facts["by_value"].get(value)
        if known:
            return known, f"{key}: {value} at {places[key]}"
        return "", f"no peak is known for {key}: {value}; --precision names one"
    if held:
        key = held[-1][0]
        return facts["by_value"][""], f"no {key} at {places[key]}"
    return "", "nothing says the precision; --precision names it"


def _peak(hardware: str, precision: str, why: str) -> tuple[float | None, str]:
    if not hardware:
        return None, "nothing says the GPU; --hardware names it"
    if not precision:
        return None, why
    peaks = platform(hardware).figures.get("dense_tflops", {})
    if not isinstance(peaks, Mapping) or precision not in peaks:
        return None, f"no dense peak is known of {hardware} in {precision}"
    return float(peaks[precision]), f"dense {precision} of {hardware} ({why})"


def _model(config: Mapping[str, str]) -> tuple[float | None, str]:
    """Return the model FLOPs of a step and GPU in TFLOP, counted from the configuration."""
    from moectl.estimate import architecture, flops  # noqa: PLC0415 - only with an echo

    values = {key: value(text) for key, text in config.items()}
    sequence, batch = values.get("max_target_length"), values.get("per_device_batch_size")
    accumulation = values.get("gradient_accumulation_steps", 1)
    whole = isinstance(sequence, int) and isinstance(accumulation, int)
    if not whole or not isinstance(batch, int | float):
        return None, "the configuration is not echoed in the log"
    model = architecture.of_values(values)
    if model is None:
        return None, "the configuration tells of no model whose formula is followed here"
    try:
        tokens = flops.tokens_per_step(batch, int(sequence or 0), int(accumulation or 0))
        counted = flops.per_token(model, int(sequence or 0)).training * tokens / 1e12
    except (OverflowError, ZeroDivisionError):
        counted = float("inf")
    if not isfinite(counted) or counted <= 0:
        return None, "the configuration has absurd dimensions"
    return counted, "model FLOPs as MaxText 0.2.5 counts them, from the echoed configuration"


def value(text: str) -> Any:
    """Return a value of MaxText's echo: Python's way to write numbers, lists, None and truth."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) < 40 and _WHOLE.fullmatch(text):
        return int(text)
    if len(text) < 40 and _NUMBER.fullmatch(text):
        return float(text)
    if text.startswith("[") and text.endswith("]"):
        parts = (part.strip().strip("'\"") for part in text[1:-1].split(","))
        return [value(part) for part in parts if part and not part.startswith("[")]
    return text
