"""Rules on what a script asks Slurm for: requests that exclude, repeat or contradict each other.

Refusals were seen on Slurm 22.05.8 with pretend GPU nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from moectl.resources import fact
from moectl.rules.launching import SBATCH, SRUN, mode, option_text, place, spoken, steps
from moectl.rules.rule import Fault, rules
from moectl.settings.layout import count, gpu_count, gres_gpus, is_heterogeneous
from moectl.values import Origin
from moectl.workload import Option, Workload, last

RULES = rules()

_SLURM = "sbatch(1) and srun(1); tried on Slurm 22.05.8"
_MEMORY = ("--mem", "--mem-per-cpu", "--mem-per-gpu")
_OTHER_GPUS = ("--gpus", "--gpus-per-task", "--gpus-per-socket")
_MPI = frozenset({"mpirun", "mpiexec", "orterun", "mpiexec.hydra", "mpirun_rsh"})


def _groups(w: Workload) -> Iterator[tuple[str, tuple[Option, ...]]]:
    """Yield the options that one program reads together, with the program."""
    if w.batch is None:
        return
    if w.batch.directives and not is_heterogeneous(w.batch):
        yield SBATCH, w.batch.directives
    for step in steps(w):
        if step.program in {SBATCH, SRUN, "salloc"} and step.options:
            yield step.program, step.options


@RULES.rule(
    "SLURM104",
    "two kinds of memory request",
    reason="--mem, --mem-per-cpu and --mem-per-gpu exclude each other; sbatch stops at two.",
    remedy="keep one of them; --mem=0 is all memory of the node",
    source=f"{_SLURM}; public report f3dasm issue 352",
)
def memory(w: Workload) -> Iterator[Fault]:
    """Find two of the exclusive memory options in one request."""
    for program, options in _groups(w):
        said = [found for name in _MEMORY if (found := last(options, (name,)))]
        if len(said) > 1:
            said.sort(key=lambda option: _position(option.origin))
            names = " and ".join(option.name for option in said)
            yield Fault(
                said[-1].name,
                f"{program} is given {names}{place(said[0].origin)}, which exclude each other",
                said[-1].origin,
            )


@cache
def _excluding() -> tuple[tuple[str, str, str, str], ...]:
    """Return the pairs that exclude each other: two names, the first release, the remedy."""
    rows = fact("slurm_exclusive.tsv").read_text("utf-8").splitlines()[2:]
    cells = (row.split("\t") for row in rows)
    return tuple((f"--{one}", f"--{other}", since, remedy) for one, other, since, remedy in cells)


@RULES.rule(
    "SLURM114",
    "options that exclude each other",
    reason="sbatch and srun end at once when both are given.",
    remedy="keep one of them",
    source=f"{_SLURM}; SchedMD/slurm src/common/slurm_opt.c (facts/data/slurm_exclusive.tsv)",
)
def exclusive(w: Workload) -> Iterator[Fault]:
    """Find two options of one request that Slurm does not take together."""
    for program, options in _groups(w):
        names = {option.name for option in options}
        for one, other, since, remedy in _excluding():
            if one not in names or other not in names:
                continue
            pair = [found for name in (one, other) if (found := last(options, (name,)))]
            first, second = sorted(pair, key=lambda option: _position(option.origin))
            yield Fault(
                second.name,
                f"{first.name}{place(first.origin)} and {second.name} exclude each other: "
                + (f"{program} from Slurm {since} on" if since else program)
                + " refuses the two",
                second.origin,
                remedy,
                severity="warning" if since else None,
            )


@RULES.rule(
    "SLURM109",
    "GPUs asked for twice",
    reason="Two requests for the same GPUs are a repetition at best; where they differ, Slurm "
    "refuses the job or its steps.",
    remedy="keep --gpus-per-node and drop the other",
    source=f"{_SLURM}; NVIDIA/cloudai tests/ref_data/grok-no-hook.sbatch",
    severity="warning",
)
def gpus_twice(w: Workload) -> Iterator[Fault]:
    """Find two requests for GPUs a node, or a total that contradicts them."""
    for _, options in _groups(w):
        per_node, gres = last(options, ("--gpus-per-node",)), last(options, ("--gres",))
        mine, theirs = gpu_count(option_text(per_node)), gres_gpus(option_text(gres))
        if per_node is not None and gres is not None and theirs is not None:
            later = max(per_node, gres, key=lambda option: _position(option.origin))
            differ = mine is not None and mine != theirs
            yield Fault(
                later.name,
                f"GPUs are asked for twice: {_said(per_node)} and {_said(gres)}"
                + (f", and {mine} is not {theirs}" if differ else ""),
                later.origin,
                severity="error" if differ else None,
            )
        elif gres is not None and theirs is not None and (other := last(options, _OTHER_GPUS)):
            later = max(other, gres, key=lambda option: _position(option.origin))
            yield Fault(
                later.name,
                f"GPUs are asked for twice: {_said(other)} and {_said(gres)}",
                later.origin,
            )
        each = mine if mine is not None else theirs
        total, nodes = last(options, ("--gpus",)), last(options, ("--nodes",))
        amount, number = gpu_count(option_text(total)), count(option_text(nodes))
        if total is None or amount is None or not number:
            continue
        if each is not None and each * number != amount:
            yield Fault(
                total.name,
                f"{_said(total)} is not {number} nodes x {each} GPUs = {each * number}",
                total.origin,
                f"--gpus={each * number}, or leave it out",
                severity="error",
            )
        elif each is None and amount % number and w.is_maxtext and mode(w):
            yield Fault(
                total.name,
                f"{amount} GPUs over {number} nodes is not the same number on each",
                total.origin,
                "--gpus-per-node, the same on every node",
            )


def _position(origin: Origin) -> tuple[int, int]:
    return origin.line or 0, origin.column or 0


def _said(option: Option) -> str:
    text = option_text(option)
    return option.name if text is None else f"{option.name}={text}"


@RULES.rule(
    "SLURM110",
    "nodes, tasks and tasks a node",
    reason="Slurm starts --ntasks tasks; --ntasks-per-node is then only an upper limit, and a job "
    "whose tasks do not fit is refused.",
    remedy="keep --nodes and --ntasks-per-node, and leave --ntasks out",
    source=_SLURM,
)
def task_arithmetic(w: Workload) -> Iterator[Fault]:
    """Compare --ntasks with --nodes x --ntasks-per-node."""
    for _, options in _groups(w):
        total, per_node = last(options, ("--ntasks",)), last(options, ("--ntasks-per-node",))
        nodes = last(options, ("--nodes",))
        tasks, each = count(option_text(total)), count(option_text(per_node))
        number = count(option_text(nodes))
        if total is None or not tasks or not number:
            continue
        if each and tasks > each * number:
            yield Fault(
                total.name,
                f"{tasks} tasks do not fit {number} nodes x {each} tasks a node = {each * number}",
                total.origin,
                f"--ntasks={each * number}",
            )
        elif each and tasks < each * number:
            yield Fault(
                total.name,
                f"{tasks} tasks are asked for, and {number} nodes x {each} tasks a node are "
                f"{each * number}: {tasks} start",
                total.origin,
                f"--ntasks={each * number}, or leave it out",
                severity="warning",
            )
        elif not each and tasks < number:
            yield Fault(
                total.name,
                f"{tasks} task{'' if tasks == 1 else 's'} cannot use {number} nodes; Slurm takes "
                f"{tasks}",
                total.origin,
                f"--nodes={tasks}, or more tasks",
                severity="warning",
            )


@RULES.rule(
    "SLURM112",
    "a launcher inside a launcher",
    reason="srun starts a launcher once a task, and each starts all processes again; under mpirun "
    "some releases count the tasks of a node wrongly (Slurm 23.02, bug 16426).",
    remedy="srun python3 -m ..., without mpirun",
    source="public report aws-parallelcluster pull request 5229",
    severity="note",
    stage="advice",
)
def nested_launchers(w: Workload) -> Iterator[Fault]:
    """Find mpirun in a batch script; inside srun it is a warning."""
    for step in steps(w):
        started = step.words[0].text.rpartition("/")[2] if step.words else ""
        inner = [inside for inside in step.inside if inside.program in _MPI]
        if step.program == SRUN and (started in _MPI or inner):
            name = inner[0].program if inner else started
            yield Fault(
                name,
                f"srun starts {name} once for every task, and each {name} starts all processes",
                inner[0].origin if inner else step.origin,
                severity="warning",
            )
        elif step.program in _MPI and w.batch is not None and w.batch.scheduled:
            yield Fault(
                step.program,
                f"{step.program} starts the processes, and JAX then takes Open MPI's variables "
                "before Slurm's",
                step.origin,
            )


@RULES.rule(
    "SLURM113",
    "a range of nodes",
    reason="A mesh is made for one number of GPUs; with a range of nodes Slurm decides how many "
    "there are.",
    remedy="--nodes=<one number>",
    source=_SLURM,
    severity="warning",
)
def node_range(w: Workload) -> Iterator[Fault]:
    """Find a range of nodes where MaxText is started."""
    nodes = spoken(w, "--nodes")
    text = option_text(nodes)
    if nodes is None or text is None or not w.is_maxtext:
        return
    low, dash, high = text.partition("-")
    if dash and low.isdigit() and high.isdigit() and int(low) < int(high):
        yield Fault(
            nodes.name,
            f"--nodes={text} may give {low} to {high} nodes, and the mesh fits one number",
            nodes.origin,
            f"--nodes={high}",
        )


@RULES.rule(
    "SLURM108",
    "directives that are ignored",
    reason="sbatch reads #SBATCH lines up to the first command, in this very spelling; all others "
    "are comments to it.",
    remedy="move the line above the first command and begin it with #SBATCH, in capitals and "
    "without a blank; ##SBATCH switches one off",
    source=_SLURM,
    severity="warning",
    stage="silent",
)
def ignored(w: Workload) -> Iterator[Fault]:
    """Find lines that look like directives and are none."""
    if w.batch is None or "SBATCH" not in w.batch.text.upper():
        return
    from moectl.settings.shell import stray_directives  # noqa: PLC0415 - only scripts pay

    lines = w.batch.text.split("\n")
    for option in stray_directives(w.batch.text, w.origin.file):
        line = option.origin.line or 0
        late = 0 < line <= len(lines) and lines[line - 1].startswith("#SBATCH")
        yield Fault(
            option.name,
            f"{_said(option)} is ignored: "
            + ("a command stands above it" if late else "the line does not begin with #SBATCH"),
            option.origin,
        )
