"""Rules on what a MaxText config says of the start of its processes, whatever starts them."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.rules.launching import whole
from moectl.rules.rule import Fault, rules
from moectl.workload import Workload

RULES = rules()

_TIMEOUT = "jax_distributed_initialization_timeout"
_SHORT_START = 60  # JAX's own default is 300 s; an image import alone can take minutes


@RULES.rule(
    "NET105",
    "a short time-out",
    reason="The first process waits this long for all others, image import and slow nodes "
    "included, and then ends the run.",
    remedy="leave it at JAX's 300 s, or raise it with the number of nodes",
    source="MaxText 0.2.5 utils/max_utils.py:283-347; JAX 0.12.0.1 _src/distributed.py:104-170",
    severity="warning",
    stage="later",
)
def timeouts(w: Workload) -> Iterator[Fault]:
    """Find time-outs that end healthy runs."""
    if not w.is_maxtext:
        return
    start = w.value(_TIMEOUT)
    if w.said(_TIMEOUT) is None or not isinstance(start, int) or start >= _SHORT_START:
        return
    nodes = whole(w.layout.nodes)
    if start <= 0 or nodes != 1:
        where = f" of {nodes} nodes" if nodes is not None else ""
        yield Fault(
            _TIMEOUT,
            f"all processes{where} must be there within {start} s; MaxText's default is 300 s",
            w.where(_TIMEOUT),
            severity="error" if start <= 0 else None,
        )
