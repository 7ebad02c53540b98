"""Rules on the NVLink domain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moectl.rules.rule import Fault, rules
from moectl.workload import Workload

RULES = rules()
_EXPERT: Final = "ici_expert_parallelism"


@RULES.rule(
    "MESH103",
    "expert group larger than an NVLink domain",
    reason="Dispatch and combine of the experts cross the network, which is many times slower "
    "than NVLink.",
    remedy="an expert degree of at most the GPUs of one domain",
    source="moectl's hardware catalogue (`moectl hardware show`); own arithmetic",
    severity="warning",
    stage="advice",
)
def group_beyond_domain(w: Workload) -> Iterator[Fault]:
    """ICI expert degree against the usable GPUs of a domain."""
    expert = w.value(_EXPERT)
    if w.hardware is None or not isinstance(expert, int):
        return
    domain = w.hardware.usable_domain_gpus
    if expert > domain:
        message = (
            f"an expert group of {expert} GPUs does not fit one NVLink domain of {domain} usable "
            f"GPUs on {w.hardware.name}; its dispatch crosses the network"
        )
        hint = f"write {_EXPERT}: {domain}"
        if w.kind == "run file":
            hint = f"--set parallelism.ici.expert={domain}"
        yield Fault(_EXPERT, message, w.where(_EXPERT), hint)
