"""What the processes of a preflight write, and what its judge makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support.programs import load

PLAN: dict[str, Any] = {
    "ranks": 8,
    "per_node": 2,
    "gpus_per_slice": 4,
    "spare": 1,
    "dcn": [("fsdp", 2)],
    "ici": [("fsdp", 2), ("expert", 2)],
    "environment": {"XLA_FLAGS": "--a=1 --b=2", "NCCL_DEBUG": "WARN"},
    "secrets": ["NCCL_SECRET"],
    "watched": ["XLA_", "NCCL_", "JAX_"],
    "by_rank": ["JAX_PARTITION_INDEX", "JAX_LOCAL_DEVICE_IDS"],
    "folders": [],
    "wait": 300,
    "limit": 60,
    "used_mib": 1024,
    "platforms": {
        "gpu": {"alone": 1.5, "together": 2.0, "least": 0.0005},
        "other": {"alone": 4.0, "together": 10.0, "least": 0.25},
    },
}
Records = dict[int, Any]


def program(name: str, **changes: Any) -> ModuleType:
    module = load(name)
    module.PLAN = PLAN | changes  # type: ignore[attr-defined]
    return module


def records(plan: Mapping[str, Any] = PLAN) -> Records:
    """Return what processes write that are all well."""
    groups = program("preflight").arrangements(plan)
    return {
        rank: {
            "format": 1,
            "rank": rank,
            "node": f"gpu{rank // plan['per_node']:03d}",
            "stage": "done",
            "error": "",
            "environment": {
                **plan["environment"],
                "JAX_PARTITION_INDEX": str(rank // plan["gpus_per_slice"]),
            },
            "gpu": {"name": "NVIDIA GB200", "memory.total": "189471", "memory.used": "4"},
            "memory": {"MemTotal": 900000},
            "versions": {"python": "3.12.3", "jax": "0.12.0", "platform": "gpu", "device": "x"},
            "work": {"matrix product of 8192": 0.001, "copy of 256 MiB": 0.0002},
            "axes": {
                title: {"first": group[0], "seconds": 0.001}
                for title, members in groups
                for group in members
                if rank in group
            },
        }
        for rank in range(plan["ranks"])
    }


def judged(
    folder: Path, held: Mapping[int, Any], *, retry: bool = False, **changes: Any
) -> tuple[int, dict[str, Any]]:
    """Return the judge's exit code and verdict; a record that is text is written as it stands."""
    plan = PLAN | changes
    nodes = [f"gpu{index:03d} 0 -\n" for index in range(plan["ranks"] // plan["per_node"])]
    (folder / "preflight").mkdir(parents=True, exist_ok=True)
    (folder / "nodes").write_text("".join(nodes))
    for rank, record in held.items():
        text = record if isinstance(record, str) else json.dumps(record)
        (folder / "preflight" / f"rank-{rank}.json").write_text(text)
    words = ["--retry"] if retry else []
    main = program("preflight_judge", **changes).main
    code = main([*words, str(folder / "preflight"), str(folder)])
    return code, json.loads((folder / "preflight.json").read_text())


def faults(said: Mapping[str, Any]) -> list[tuple[str, list[int], list[str]]]:
    return [(fault["kind"], fault["ranks"], fault["nodes"]) for fault in said["faults"]]
