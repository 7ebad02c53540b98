"""What the rules about scripts have in common: known values, options, and what is around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from moectl.values import Origin, Value
from moectl.workload import Batch, Option, Step, Text, Workload

SRUN: Final = "srun"

# Slurm runs these; the first is what the directives of a batch script speak to.
SBATCH: Final = "sbatch"
SLURM_PROGRAMS: Final = frozenset({SRUN, SBATCH, "salloc"})

# MaxText's two ways onto GPUs (0.2.5 utils/max_utils.py:283-347): one process a GPU, found by
# JAX itself; and one process a node, told by variables.
PROCESS_PER_GPU: Final = "gpu_multiprocess"
PROCESS_PER_NODE: Final = "gpu"

_SOURCED = re.compile(r"^[^#\n]*?(?:^|[;&|\s])(?:source|\.|eval)[ \t]+\S", re.MULTILINE)


def whole(value: Value | None) -> int | None:
    """Return a layout value as a number; None when it is not said or not known."""
    found = value.value if value is not None else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def known(text: Text | None) -> str | None:
    """Return a text whose every character is known, else None."""
    return text.text if text is not None and text.known else None


def option_text(option: Option | None) -> str | None:
    """Return the known value of an option, else None."""
    return known(option.value) if option is not None else None


def number(text: str | None) -> int | None:
    """Return a plain decimal number, else None."""
    plain = text is not None and text.isascii() and text.isdigit() and len(text) < 10
    return int(text) if plain and text is not None else None


def mode(w: Workload) -> str:
    """Return MaxText's way onto GPUs; empty when it is another one, or cannot be told."""
    found = w.value("hardware")
    if not w.is_maxtext or found not in {PROCESS_PER_GPU, PROCESS_PER_NODE}:
        return ""
    return "" if w.value("skip_jax_distributed_system") is True else str(found)


def slurm_mode(w: Workload) -> str:
    """Return the same where Slurm, or nobody known, starts the processes.

    In a pod JAX knows no local rank, so that a process takes every GPU it sees.
    """
    return mode(w) if w.manifest is None else ""


def steps(w: Workload) -> Iterator[Step]:
    """Yield every command of the script, those inside others after them."""
    waiting = list(w.batch.steps) if w.batch is not None else []
    while waiting:
        step = waiting.pop(0)
        yield step
        waiting[:0] = step.inside


def slurm_options(w: Workload) -> Iterator[tuple[str, Option]]:
    """Yield the options of Slurm's programs in a script, each with its program."""
    if w.batch is None:
        return
    for option in w.batch.directives:
        yield SBATCH, option
    for step in steps(w):
        if step.program in SLURM_PROGRAMS:
            for option in step.options:
                yield step.program, option


def spoken(w: Workload, *names: str) -> Option | None:
    """Return the option that counts for the step that starts MaxText: srun's, then sbatch's."""
    found = w.step.option(*names) if w.step is not None and w.step.program == SRUN else None
    return found or (w.batch.directive(*names) if w.batch is not None else None)


def environment_is_closed(batch: Batch) -> bool:
    """Whether a script sets its variables itself, and takes none from another file."""
    return _SOURCED.search(batch.text) is None


def closed_container(w: Workload) -> Step | None:
    """Return the container that the command of a script runs in, if it has none of its variables.

    Docker and its relatives hand on what -e and --env-file name, and nothing else.
    """
    from moectl.facts.launchers import load  # noqa: PLC0415

    step, found = w.step, None
    while step is not None:
        program = load().program(step.program)
        if program is not None and program.role == "container":
            found = None if program.keeps_environment else step
        step = step.inside[0] if len(step.inside) == 1 else None
    return found


def line_origin(w: Workload, line: int, column: int | None = 1) -> Origin:
    """Return the place of a line of the workload's file."""
    return Origin(w.origin.layer, w.origin.file, line, column)


def place(origin: Origin) -> str:
    """Return " (line 3)" for the second place a message names; empty when it has no line."""
    return f" (line {origin.line})" if origin.line else ""
