"""Reads MaxText's metrics_file: a JSON object a line, in full precision."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from moectl.logs.blocks import Blocks
from moectl.logs.columns import by_sink
from moectl.logs.table import Batch, Table

_BIGGEST_STEP = 10**12
# A line of an evaluation has its own keys and the step of training it came after.
_OF_STEP = frozenset({"seconds", "loss"})


@dataclass(slots=True)
class MetricsFile:
    """A metrics file, read to its present end; `update` reads what it gained.

    Attributes:
        path: the file.
        table: its steps.
        run_name: of its last line, "" where none says it.
        damaged: lines that are no JSON object with a step.
    """

    path: Path
    table: Table = field(default_factory=Table)
    run_name: str = ""
    damaged: int = 0
    blocks: Blocks = field(init=False)

    def __post_init__(self) -> None:
        self.blocks = Blocks(self.path)

    def update(self) -> int:
        """Read on to the end; return how many steps came.

        Raises:
            OSError: the file cannot be read.
        """
        before = self.table.count
        for block, first in self.blocks.gained():
            names: tuple[str, ...] = ()
            steps: list[int] = []
            lines: list[int] = []
            rows: list[tuple[float, ...]] = []
            for number, line in enumerate(block.split(b"\n")[:-1], first):
                row = self._row(line)
                if row is None:
                    continue
                step, values = row
                if tuple(values) != names and steps:
                    self._add(names, steps, lines, rows)
                    steps, lines, rows = [], [], []
                names = tuple(values)
                steps.append(step)
                lines.append(number)
                rows.append(tuple(values.values()))
            self._add(names, steps, lines, rows)
        return self.table.count - before

    def _add(
        self,
        names: tuple[str, ...],
        steps: list[int],
        lines: list[int],
        rows: list[tuple[float, ...]],
    ) -> None:
        if steps:
            times = [float("nan")] * len(steps)
            self.table.extend(Batch(names, steps, lines, times, list(zip(*rows, strict=True))))

    def _row(self, line: bytes) -> tuple[int, dict[str, float]] | None:
        if not line.strip():
            return None
        try:
            said: Any = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        step = _number(said.get("step")) if isinstance(said, dict) else None
        if step is None or not 0 <= step < _BIGGEST_STEP:
            self.damaged += 1
            return None
        if isinstance(said.get("run_name"), str):
            self.run_name = said["run_name"]
        values = dict(_values(said))
        return (int(step), values) if _OF_STEP & values.keys() else None


def _values(said: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for key, column in by_sink().items():
        value = _number(said.get(key))
        if value is not None:
            yield column.name, value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
