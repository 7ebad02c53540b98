"""The preset file: a partial run with its forms, its platforms and its reasons."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from moectl.spec.base import SpecModel
from moectl.spec.run import AcceptSpec


class PresetDefaults(SpecModel):
    """What is used when nothing is said."""

    gpus: Annotated[int, Field(ge=1)] = Field(description="GPUs of the reference run.")
    hardware: str = Field(description="Platform of the reference run.")


class PathSpec(SpecModel):
    """Which MoE path is taken, and why."""

    name: str = Field(description="te-moe-block or native-dropless.")
    why: str = Field(description="The reason, with the line of the source that decides.")


class EstimateOnlySpec(SpecModel):
    """Why a model cannot be rendered."""

    missing: str = Field(description="What the MaxText release lacks, in one sentence.")
    architecture: dict[str, Any] = Field(description="Dimensions, for estimates.")


class PresetSpec(SpecModel):
    """A preset."""

    moectl_preset: int = Field(1, description="Format of this file.")
    name: str = Field(description="Name people type.")
    title: str = Field(description="One line.")
    source: str = Field(description="Where its values come from.")
    path: PathSpec = Field(description="The MoE path.")
    defaults: PresetDefaults = Field(description="Platform and size when nothing is said.")
    notes: list[str] = Field(default_factory=list, description="What a user should know.")
    accept: list[AcceptSpec] = Field(
        default_factory=list, description="Warnings the preset accepts about itself."
    )
    estimate_only: EstimateOnlySpec | None = Field(
        None, description="Present where MaxText cannot run the model."
    )
    run: dict[str, Any] = Field(default_factory=dict, description="Partial run file.")
    forms: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Form to a partial run file on top."
    )
    for_hardware: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Platform name or architecture to a partial run file on top.",
    )
