"""Rules on who the processes of a run are: ranks, their count, slices, and what starts them."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.errors import shown
from moectl.rules.launching import (
    PROCESS_PER_NODE,
    SRUN,
    closed_container,
    environment_is_closed,
    known,
    mode,
    number,
    place,
    whole,
)
from moectl.rules.rule import Fault, rules
from moectl.settings.layout import script_layout
from moectl.workload import MARK, Step, Text, Workload

RULES = rules()

_MAXTEXT = "MaxText 0.2.5 utils/max_utils.py:318-347"
_JAX = "JAX 0.12.0.1 _src/clusters/slurm_cluster.py"

_COORDINATOR, _COUNT, _RANK = "JAX_COORDINATOR_IP", "NNODES", "NODE_RANK"
_PARTITION = "JAX_PARTITION_INDEX"
# Slurm's variables for one task; JAX finds Slurm only when all of them are set.
_TASK_VARIABLES = (
    "SLURM_JOB_ID",
    "SLURM_STEP_NODELIST",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_LOCALID",
)
# Slurm gives every task its own value of these, and the batch script that of its first task.
_OF_ONE_TASK = ("SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID")
_HANDS_ON = ("-e", "--env")
_PYTHON = ("python", "python3")


@RULES.rule(
    "RUN205",
    "number of processes",
    reason="With hardware=gpu NNODES is the number of processes JAX waits for: one too many and "
    "all wait until the time-out, one too few and a process has a number that does not exist.",
    remedy="export NNODES=$SLURM_NNODES with one task a node",
    source=_MAXTEXT,
)
def process_count(w: Workload) -> Iterator[Fault]:
    """Compare NNODES with the layout."""
    if mode(w) != PROCESS_PER_NODE or _COORDINATOR not in w.environment:
        return
    if _COUNT not in w.environment:
        if _is_own_environment(w) and w.step is not None:
            yield Fault(
                _COUNT,
                f"{_COORDINATOR} is set and {_COUNT} is not: MaxText stops at int(None)",
                w.where(_COORDINATOR),
            )
        return
    text = known(w.environment[_COUNT])
    if text is None:
        return
    said, processes = number(text.strip()), whole(w.layout.processes)
    if not said:
        yield Fault(
            _COUNT, f"{shown(text)} is no number of processes", w.where(_COUNT), _layout_hint(w)
        )
    elif processes is not None and said != processes and w.layout.processes is not None:
        yield Fault(
            _COUNT,
            f"{_COUNT} is {said}, but the layout{place(w.layout.processes.origin)} starts "
            f"{processes} process{'' if processes == 1 else 'es'}",
            w.where(_COUNT),
            _layout_hint(w),
        )


def _layout_hint(w: Workload) -> str:
    processes = whole(w.layout.processes)
    return f"{_COUNT}={processes}" if processes else ""


@RULES.rule(
    "RUN206",
    "rank of a process",
    reason="With hardware=gpu NODE_RANK is the number of the process; it must be another one in "
    "each, so it is to be read inside the task.",
    remedy="srun bash -c 'NODE_RANK=$SLURM_PROCID exec python3 -m ...', in single quotes",
    source=_MAXTEXT,
)
def process_rank(w: Workload) -> Iterator[Fault]:
    """Find a rank that is missing, or the same in every process."""
    if mode(w) != PROCESS_PER_NODE or _COORDINATOR not in w.environment:
        return
    processes = whole(w.layout.processes)
    if _RANK not in w.environment:
        if _is_own_environment(w):
            yield Fault(
                _RANK,
                f"{_COORDINATOR} is set and {_RANK} is not: MaxText stops at int(None)",
                w.where(_COORDINATOR),
            )
        return
    rank = w.environment[_RANK]
    if rank.known and number(rank.text.strip()) is None:
        yield Fault(_RANK, f"{shown(rank.text)} is no number of a process", rank.origin)
    elif processes is None or processes < 2:
        return
    elif rank.known:
        yield Fault(
            _RANK,
            f"{_RANK} is {rank.text.strip()} in each of the {processes} processes",
            rank.origin,
        )
    elif (named := _read_too_early(w, rank)) is not None:
        yield Fault(
            _RANK,
            f"{named} is read in the batch script, before srun starts the tasks, so {_RANK} "
            f"is the same in each of the {processes} processes",
            rank.origin,
        )


def _read_too_early(w: Workload, rank: Text) -> str | None:
    """Return the variable of one task that the batch script itself puts into the rank, or None.

    It does in a line before srun, and in the double quotes of `srun bash -c "..."`.
    """
    if w.step is None or w.step.program != SRUN:
        return None
    raw = "".join(piece.raw for piece in rank.pieces)
    named = next((name for name in _OF_ONE_TASK if name in raw), None)
    if named is None or w.step.environment.get(_RANK) == rank:
        return named
    for word in w.step.words:
        before = ""
        for piece in word.pieces:
            if (
                MARK in piece.text
                and named in piece.raw
                and before.rstrip("\"'").endswith(f"{_RANK}=")
            ):
                return named
            before = piece.text
    return None


@RULES.rule(
    "RUN207",
    "no coordinator",
    reason="With hardware=gpu and JAX_COORDINATOR_IP unset nothing connects the processes: each "
    "trains the whole model alone and writes over the others' output.",
    remedy="export JAX_COORDINATOR_IP (the first host of `scontrol show hostnames`), "
    "JAX_COORDINATOR_PORT, NNODES and NODE_RANK, or use hardware=gpu_multiprocess",
    source=_MAXTEXT,
    stage="silent",
)
def no_coordinator(w: Workload) -> Iterator[Fault]:
    """Find several processes that nobody connects."""
    if mode(w) != PROCESS_PER_NODE or _COORDINATOR in w.environment or not _is_own_environment(w):
        return
    processes = whole(w.layout.processes)
    if processes is None or processes < 2:
        return
    yield Fault(
        _COORDINATOR,
        f"nobody sets {_COORDINATOR}, so each of the {processes} processes trains alone",
        w.where("hardware"),
        # a script that is no batch job runs in somebody's shell, which may set it
        severity="error" if w.batch is not None and w.batch.scheduled else "warning",
    )


@RULES.rule(
    "RUN209",
    "processes not started by srun",
    reason="JAX finds its peers through the variables srun gives each task; without them a "
    "process finds nobody, or dies for the one that is missing.",
    remedy="start it with srun",
    source=f"{_JAX}; public report jax-ml/jax issue 30073",
)
def not_in_srun(w: Workload) -> Iterator[Fault]:
    """Find MaxText started beside srun, or variables of a task written out in a file."""
    if w.kind == "variables":
        yield from _task_by_hand(w)
        return
    if not mode(w) or w.batch is None or w.step is None:
        return
    if mode(w) == PROCESS_PER_NODE:
        yield from _idle_nodes(w)
        return
    if (container := closed_container(w)) is not None and not w.alone:
        yield from _not_handed_on(w, container)
        return
    if not (w.alone or (w.step.program in _PYTHON and w.step in w.batch.steps)):
        return
    by_hand = [name for name in _TASK_VARIABLES if known(w.environment.get(name)) is not None]
    absent = [name for name in _TASK_VARIABLES if name not in w.environment]
    if by_hand and absent:
        yield Fault(
            by_hand[0],
            f"{by_hand[0]} is set by hand and {', '.join(absent)} {_is(absent)} not: this is no "
            "task of srun, and JAX takes it for none",
            w.environment[by_hand[0]].origin,
            "srun --jobid=<id> ...",
            severity="warning",
        )
    elif w.batch.scheduled and absent:
        yield Fault(
            SRUN,
            "the batch script itself is no task: without srun one process starts, on the first "
            "node, and JAX finds no number of processes for it",
            w.step.origin,
            "srun in front of the command",
        )


def _not_handed_on(w: Workload, container: Step) -> Iterator[Fault]:
    """Find a container in a task of srun that does not get the variables of the task."""
    if w.step is None or w.step.program != SRUN:
        return
    names = set(w.environment)
    for option in container.options:
        if option.name == "--env-file" or (option.name in _HANDS_ON and option.value is None):
            return  # what it hands on is not known
        if option.name in _HANDS_ON and option.value is not None:
            name = option.value.text.partition("=")[0]
            if MARK in name:
                return
            names.add(name)
    absent = [name for name in _TASK_VARIABLES if name not in names]
    if absent and not any(MARK in option.name for option in container.options):
        yield Fault(
            SRUN,
            f"{container.program} hands on only the variables it is told to: JAX does not "
            f"find {', '.join(absent)}, and takes the process for no task",
            container.origin,
            " ".join(f"-e {name}" for name in absent),
        )


def _idle_nodes(w: Workload) -> Iterator[Fault]:
    """Find one process a node that starts on the first of several nodes only."""
    if not w.alone or w.batch is None or w.step is None:
        return
    nodes = whole(script_layout(w.batch, None).nodes)
    if nodes is not None and nodes > 1:
        yield Fault(
            SRUN,
            f"without srun it starts on the first of the {nodes} nodes only; the others stay idle",
            w.step.origin,
            "srun --ntasks-per-node=1 in front of the command, or --nodes=1",
        )


def _task_by_hand(w: Workload) -> Iterator[Fault]:
    """Judge a file of variables that says what only srun can say of each task."""
    by_hand = [name for name in _TASK_VARIABLES if name in w.environment]
    absent = [name for name in _TASK_VARIABLES if name not in w.environment]
    if not by_hand:
        return
    first = by_hand[0]
    yield Fault(
        first,
        f"{', '.join(by_hand)} {_is(by_hand)} set by hand"
        + (
            f" and {', '.join(absent)} {_is(absent)} not: in a shell that is no task of srun, JAX "
            "does not find Slurm, or dies of the one that is missing"
            if absent
            else ": every process then takes the same rank"
        ),
        w.environment[first].origin,
        "leave SLURM_* out: srun sets them in each task",
        severity="warning",
    )


@RULES.rule(
    "RUN213",
    "slice of a process",
    reason="JAX_PARTITION_INDEX is the slice a process belongs to; the mesh needs as many slices "
    "as the DCN degrees say.",
    remedy="export JAX_PARTITION_INDEX as node // nodes a slice, inside the task",
    source="JAX 0.12.0.1 _src/distributed.py:216-229; MaxText 0.2.5 utils/max_utils.py:462-485",
)
def partition(w: Workload) -> Iterator[Fault]:
    """Find a slice index that is no number, or the same for all where slices are several."""
    text = known(w.environment.get(_PARTITION))
    processes = whole(w.layout.processes)
    if not mode(w) or text is None:
        return
    if number(text.strip()) is None:
        yield Fault(_PARTITION, f"{shown(text)} is no number of a slice", w.where(_PARTITION))
        return
    slices = _dcn(w)
    if slices is not None and slices > 1 and processes is not None and processes > 1:
        yield Fault(
            _PARTITION,
            f"{_PARTITION} is {text.strip()} in each of the {processes} processes, which makes one "
            f"slice; the DCN degrees want {slices}",
            w.where(_PARTITION),
        )


def _dcn(w: Workload) -> int | None:
    """Return the product of the DCN degrees; None when one is not known."""
    product = 1
    for key, degree in w.effective.items():
        if key.startswith("dcn_") and key.endswith("_parallelism"):
            if not isinstance(degree, int) or degree < 1:
                return None
            product *= degree
    return product


def _is_own_environment(w: Workload) -> bool:
    """Whether the script is seen to set the variables of its processes itself."""
    return w.batch is not None and environment_is_closed(w.batch)


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
