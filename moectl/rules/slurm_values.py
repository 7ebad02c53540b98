"""What the values of Slurm's options look like; tried on sbatch of Slurm 22.05.8."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_TIME = re.compile(
    r"[+-]?\d+(?::\d+){0,2}|\d+-(?:\d+(?::\d+){0,2})?|infinite|unlimited", re.IGNORECASE | re.ASCII
)
_MEMORY = re.compile(r"(?:\+?\d+|-0+)(?:[kmgt]b?)?", re.IGNORECASE | re.ASCII)
_POSITIVE = re.compile(r"\+?0*[1-9]\d*", re.ASCII)
_NODES = re.compile(r"\d+[km]?(?:-\d+[km]?(?::\d+)?)?(?:,\d+(?:-\d+(?::\d+)?)?)*", re.IGNORECASE)
_GPUS = re.compile(r"(?:[^:,]+:\d+[km]?|[^:,]+)(?:,(?:[^:,]+:\d+[km]?|[^:,]+))*", re.IGNORECASE)

Grammar = tuple[re.Pattern[str], str]
_A_TIME: Grammar = (_TIME, "minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS or UNLIMITED")
_A_SIZE: Grammar = (_MEMORY, "a whole number with K, M, G or T (megabytes without)")
_A_COUNT: Grammar = (_POSITIVE, "a whole number above 0")
_A_NODE_COUNT: Grammar = (_NODES, "a number of nodes, or least-most")
_A_GPU_COUNT: Grammar = (_GPUS, "a number, or type:number")

GRAMMARS: Final[Mapping[str, Grammar]] = {
    "--time": _A_TIME,
    "--time-min": _A_TIME,
    "--mem": _A_SIZE,
    "--mem-per-cpu": _A_SIZE,
    "--mem-per-gpu": _A_SIZE,
    "--tmp": _A_SIZE,
    "--ntasks": _A_COUNT,
    "--ntasks-per-node": _A_COUNT,
    "--ntasks-per-core": _A_COUNT,
    "--ntasks-per-socket": _A_COUNT,
    "--ntasks-per-gpu": _A_COUNT,
    "--cpus-per-task": _A_COUNT,
    "--cpus-per-gpu": _A_COUNT,
    "--nodes": _A_NODE_COUNT,
    "--gpus": _A_GPU_COUNT,
    "--gpus-per-node": _A_GPU_COUNT,
    "--gpus-per-task": _A_GPU_COUNT,
    "--gpus-per-socket": _A_GPU_COUNT,
}
"""What the values of these options look like, and that in words."""


def value_fault(name: str, text: str) -> str:
    """Return what would be legal where a value is not; empty when it is, or nobody says."""
    grammar = GRAMMARS.get(name)
    if grammar is not None:
        pattern, legal = grammar
        return "" if pattern.fullmatch(text) else legal
    return "" if name != "--gres" or not text else _gres_fault(text)


def _gres_fault(text: str) -> str:
    """Judge only what is surely wrong of a --gres list: sites give their resources any name."""
    for entry in text.split(","):
        parts = entry.removeprefix("gres:").split(":")
        number = parts[-1].rstrip("kKmMgGtTpP")
        if parts[0].isdigit() or "" in parts or (len(parts) == 3 and not number.isdigit()):
            return "name, name:count or name:type:count, e.g. gpu:8"
    return ""
