"""For each check of MaxText a configuration that it refuses and one that it only just accepts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.differential.case import Case

ROWS = Path(__file__).with_name("directed.yaml")
COMMON: Mapping[str, Any] = {
    "base_config": "base.yml",
    "hardware": "gpu_multiprocess",
    "run_name": "directed",
    "base_output_directory": "out",
}


def directed() -> list[Case]:
    """Return both cases of every row, the refused one first."""
    rows = yaml.safe_load(ROWS.read_text(encoding="utf-8"))
    return [case for number, row in enumerate(rows) for case in both(number, row)]


def both(number: int, row: Mapping[str, Any]) -> list[Case]:
    """Return the refused and the accepted case of a row."""
    check = str(row["check"])
    where = f"configs/types.py:{check}" if check.isdigit() else check
    return [
        Case(
            id=f"directed-{number}-{side}",
            text=text(row, row[side], words=False),
            arguments=arguments(row, row[side]),
            devices=row.get("devices", 8),
            slices=row.get("slices", 1),
            title=f"{where} {side}: {json.dumps(row[side])}",
            check=where,
            accepted=side == "good",
        )
        for side in ("bad", "good")
    ]


def text(row: Mapping[str, Any], side: Mapping[str, Any], *, words: bool) -> str:
    """Return the file of one side; with `words` its own keys are on the command line."""
    said = dict(COMMON)
    if "model" in row:
        said["model_name"] = row["model"]
    if not row.get("words", words):
        said |= {**row.get("with", {}), **side}
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in said.items())


def arguments(row: Mapping[str, Any], side: Mapping[str, Any]) -> list[str]:
    """Return the command line of one side."""
    if not row.get("words"):
        return []
    said = {**row.get("with", {}), **side}
    return [f"{key}={json.dumps(value)}" for key, value in said.items()]
