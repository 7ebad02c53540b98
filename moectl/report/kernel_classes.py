"""Which class a kernel belongs to, and which part of the model, by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, TypeAlias

from moectl.facts.yaml_facts import read
from moectl.logs.xplane import FACTS, Kernel

Kind: TypeAlias = Literal["compute", "moving"]
UNKNOWN = "unknown"
ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class KernelClass:
    """A class of kernels.

    Attributes:
        id: its name for programs.
        title: its name for people.
        kind: compute, or moving: communication and copies, which compute may hide.
    """

    id: str
    title: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Booked:
    """Where a kernel is booked.

    Attributes:
        id: its class, or `UNKNOWN`.
        part: whether it only helps another kernel, so that its duration is no latency of one.
        source: what says so; empty for an unknown one.
    """

    id: str
    part: bool = False
    source: str = ""


@cache
def classes() -> tuple[KernelClass, ...]:
    """Return all classes, the one of unknown kernels last."""
    facts = read(FACTS)
    known = [KernelClass(name, row["title"], row["kind"]) for name, row in facts["classes"].items()]
    row = facts["unknown"]
    return (*known, KernelClass(UNKNOWN, row["title"], row["kind"]))


@cache
def _rows() -> Sequence[tuple[re.Pattern[str] | None, re.Pattern[str] | None, Booked]]:
    facts = read(FACTS)
    return [
        (
            re.compile(row["kernel"]) if "kernel" in row else None,
            re.compile(row["op"]) if "op" in row else None,
            Booked(row["class"], row.get("part", False), facts["sources"][row["source"]]),
        )
        for row in facts["rows"]
    ]


@lru_cache(maxsize=65536)
def booked(name: str, operation: str = "") -> Booked:
    """Return where a kernel is booked.

    Args:
        name: the kernel.
        operation: the HLO operation it is of, where the profile says.
    """
    for kernel, op, found in _rows():
        if (kernel is None or kernel.search(name)) and (op is None or op.search(operation)):
            return found
    return Booked(UNKNOWN)


@cache
def layers() -> tuple[tuple[str, str], ...]:
    """Return id and title of the parts of a model that are told apart."""
    return (
        *((row["id"], row["title"]) for row in read(FACTS)["layers"]),
        (ELSEWHERE, "elsewhere or not told"),
    )


@lru_cache(maxsize=65536)
def _layer(scope: str) -> str:
    return next(
        (row["id"] for row in read(FACTS)["layers"] if re.search(row["scope"], scope)), ELSEWHERE
    )


def layer_of(kernel: Kernel) -> str:
    """Return the part of the model that a kernel works for."""
    return _layer(kernel.scope) if kernel.scope else ELSEWHERE
