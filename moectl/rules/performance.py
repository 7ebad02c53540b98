"""Rules on profiles that disturb each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moectl.rules.rule import Fault, rules
from moectl.rules.xla_conditions import TRUE_WORDS
from moectl.workload import Workload

RULES = rules()
_ENABLE: Final = "JAX_ENABLE_PGLE"
_RUNS: Final = "JAX_PGLE_PROFILING_RUNS"
_SKIP: Final = "skip_first_n_steps_for_profiler"
_TRACE: Final = "xplane"
_DEFAULT_RUNS: Final = 3  # jax 0.12.0.1, jax.config


@RULES.rule(
    "PROF101",
    "trace while PGLE collects",
    reason="PGLE profiles the first steps and compiles again after them; CUPTI has one "
    "subscriber, so a trace at the same steps is empty or ends the run.",
    remedy="let the trace start after the step in which PGLE compiles again",
    source="NVIDIA/JAX-Toolbox docs/PGLE.md; jax-ml/jax PR 24910",
)
def trace_in_collection(w: Workload) -> Iterator[Fault]:
    """`profiler: xplane` that starts in one of PGLE's own steps."""
    enabled = w.variable(_ENABLE)
    if enabled is None or enabled.lower() not in TRUE_WORDS:
        return
    said = w.variable(_RUNS)
    if said is None and _RUNS in w.environment:
        return
    runs = int(said) if said and said.isdigit() else _DEFAULT_RUNS
    skip = w.value(_SKIP)
    if w.value("profiler") == _TRACE and isinstance(skip, int) and skip <= runs:
        message = (
            f"PGLE profiles steps 0 to {runs - 1} and compiles again in step {runs}, but the "
            f"{_TRACE} trace starts at step {skip}"
        )
        hint = f"write {_SKIP}: {runs + 1}"
        if w.kind == "run file":
            hint = f"--set profile.skip_steps={runs + 1}"
        yield Fault(_SKIP, message, w.where(_SKIP, "profiler", _ENABLE), hint)
