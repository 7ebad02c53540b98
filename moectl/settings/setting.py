"""One thing somebody said, and the layers of force it is said in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from moectl.values import Origin


class Layer(IntEnum):
    """Who wins: a greater layer overrides a smaller one."""

    DEFAULT = 0
    HARDWARE = 1
    PRESET = 2
    PRESET_FORM = 3
    PRESET_HARDWARE = 4
    SCALING = 5
    CLUSTER = 6
    RUN_FILE = 7
    OPTION = 8


@dataclass(frozen=True, slots=True)
class Setting:
    """A value as said.

    Attributes:
        path: dotted run-file path, e.g. "environment.NCCL_DEBUG".
        value: the raw value.
        layer: its force.
        origin: where it was said.
    """

    path: str
    value: Any
    layer: Layer
    origin: Origin
