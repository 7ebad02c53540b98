"""Rules on profiling, scheduling and memory settings that fight each other."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.findings import Finding
from moectl.job import Job
from moectl.rules.places import at as _at

CODES = ("MEM101", "PERF101", "PERF102", "PROF101", "PROF102")


def check(job: Job) -> Iterator[Finding]:
    """Yield the findings about PGLE, traces and memory."""
    if _variable(job, "JAX_ENABLE_PGLE").casefold() in {"1", "true", "yes", "on", "y", "t"}:
        yield from _pgle(job)
    yield from _slop(job)


def _pgle(job: Job) -> Iterator[Finding]:
    runs = int(_variable(job, "JAX_PGLE_PROFILING_RUNS") or 3)
    profiler = job.effective.get("profiler")
    skip = job.effective.get("skip_first_n_steps_for_profiler")
    if profiler == "nsys":
        yield Finding(
            "PROF102",
            "error",
            "profile.profiler",
            "PGLE and nsys both subscribe to CUPTI, which takes one subscriber: the trace is "
            "empty or the run aborts (JAX-Toolbox docs/PGLE.md; jax PR 24910).",
            "--set switches.pgle.enabled=false",
            *_at(job, "profile.profiler"),
        )
    if profiler == "xplane" and isinstance(skip, int) and skip <= runs:
        yield Finding(
            "PROF101",
            "error",
            "profile.skip_steps",
            f"PGLE profiles steps 0 to {runs - 1} and recompiles in step {runs}, but the xplane "
            f"trace starts at step {skip}; CUPTI takes one subscriber (JAX-Toolbox docs/PGLE.md).",
            f"--set profile.skip_steps={runs + 1}",
            *_at(job, "profile.skip_steps"),
        )
    if job.processes_per_node > 1:
        yield Finding(
            "PERF101",
            "warning",
            "switches.pgle.enabled",
            f"PGLE profiles in each of {job.processes_per_node} processes a node; profiling "
            "sessions that collide and a wedge at the recompile were reported "
            "(marin PR 8209, issue 7344). Not seen here: no GPU.",
            "--set switches.pgle.enabled=false",
            *_at(job, "switches.pgle.enabled"),
        )
    buffers = job.xla_flags.get("xla_gpu_enable_command_buffer")
    if buffers is None or buffers.value:
        yield Finding(
            "PERF102",
            "warning",
            "switches.command_buffers",
            "JAX turns command buffers off while PGLE profiles and on again for the recompile, "
            "so the profile and the final program differ (jax/_src/compiler.py:569).",
            "--set switches.command_buffers=[]",
            *_at(job, "switches.command_buffers"),
        )


def _slop(job: Job) -> Iterator[Finding]:
    slop = job.xla_flags.get("xla_gpu_memory_limit_slop_factor")
    if slop is not None and isinstance(slop.value, int) and slop.value > 95:
        yield Finding(
            "MEM101",
            "warning",
            "xla_flags.xla_gpu_memory_limit_slop_factor",
            f"a slop factor of {slop.value} lets the scheduler plan with {slop.value} % of what "
            "arguments leave of the pool: more overlap, less margin before out of memory "
            "(flag help; marin issue 8508).",
            "--set xla_flags.xla_gpu_memory_limit_slop_factor=95",
            *_at(job, "xla_flags.xla_gpu_memory_limit_slop_factor"),
        )


def _variable(job: Job, name: str) -> str:
    found = job.environment.get(name)
    return str(found.value) if found else ""
