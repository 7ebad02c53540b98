"""Rules on what srun hands on to the tasks: variables and CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from moectl.errors import shown
from moectl.rules.launching import SBATCH, SRUN, known, option_text, place, steps
from moectl.rules.rule import Fault, rules
from moectl.settings.layout import is_heterogeneous
from moectl.workload import MARK, Option, Step, Workload

RULES = rules()

_SLURM = "sbatch(1) and srun(1), --export; tried on Slurm 22.05.8"
_ALL = "ALL"
_NOTHING = frozenset({"NONE", "NIL"})
# Decides --export for every srun of the script when it is set.
_EXPORT_VARIABLE = "SLURM_EXPORT_ENV"
_CPUS = "--cpus-per-task"
# Any of these tells srun its CPUs a task.
_CPU_VARIABLE = "SRUN_CPUS_PER_TASK"
_CPU_OPTIONS = (_CPUS, "--exclusive", "--exact", "--cpus-per-gpu", "--tres-per-task")


@RULES.rule(
    "SLURM105",
    "--export without ALL",
    reason="A list of names is all that the tasks get beside SLURM_*: PATH, HOME and everything "
    "the script exported are gone, so the command is not even found.",
    remedy="--export=ALL,NAME=value",
    source=f"{_SLURM}; public report az-hop issue 1119",
)
def export_list(w: Workload) -> Iterator[Fault]:
    """Find --export lists that leave ALL out, in srun and in directives."""
    for step in steps(w):
        option = step.option("--export")
        inherited = known(step.environment.get(_EXPORT_VARIABLE))
        heir = step.program == SRUN and not _says_export(step) and inherited is not None
        if heir and inherited and _drops(inherited):
            yield Fault(
                _EXPORT_VARIABLE,
                f"srun{place(step.origin)} takes {_EXPORT_VARIABLE}={shown(inherited)[1:-1]} "
                "for --export: its tasks get only these and SLURM_*",
                step.environment[_EXPORT_VARIABLE].origin,
                f"export {_EXPORT_VARIABLE}={_ALL}",
            )
        if option is None or step.program not in {SRUN, SBATCH} or _is_job_of_its_own(step):
            continue
        text = _list_of(option)
        if text is None or not _drops(text):
            continue
        lost = (
            "the tasks get no variable of the script"
            if text.upper() in _NOTHING
            else "the tasks get only these and SLURM_*, no PATH"
        )
        if step.program == SBATCH:
            lost = "srun inside the job hands only these on, unless it says otherwise"
        yield Fault(
            "--export",
            f"--export={shown(text)[1:-1]}: {lost}",
            option.origin,
            _with_all(text),
            severity=None if step.program == SRUN else "warning",
        )
    yield from _directive(w)


def _is_job_of_its_own(step: Step) -> bool:
    """Whether sbatch is given a job that is judged with these options as its directives."""
    if step.program != SBATCH or not step.inside:
        return False
    from moectl.settings.shell import maxtext_commands  # noqa: PLC0415 - it is there by now

    return any(True for inside in step.inside for _ in maxtext_commands(inside))


def _directive(w: Workload) -> Iterator[Fault]:
    """Judge #SBATCH --export, which srun takes over unless it is told otherwise."""
    option = w.batch.directive("--export") if w.batch is not None else None
    text = _list_of(option)
    if option is None or text is None or w.batch is None or not _drops(text):
        return
    if _EXPORT_VARIABLE in w.batch.text:
        return
    heirs = [step for step in steps(w) if step.program == SRUN and not _says_export(step)]
    if not heirs:
        return
    nothing = text.upper() in _NOTHING
    if nothing and not any(step.environment for step in heirs):
        return
    yield Fault(
        "--export",
        f"--export={shown(text)[1:-1]} holds for srun{place(heirs[0].origin)} too: its tasks get "
        + ("no variable the script exports" if nothing else "only these and SLURM_*, no PATH"),
        option.origin,
        "srun --export=ALL, or export SLURM_EXPORT_ENV=ALL" if nothing else _with_all(text),
    )


def _says_export(step: Step) -> bool:
    return any(option.name == "--export" or MARK in option.name for option in step.options)


def _list_of(option: Option | None) -> str | None:
    """Return a list of variables whose names are known; a value that is not is left open."""
    if option is None or option.value is None:
        return None
    text = option.value.text
    if any(MARK in item.partition("=")[0] for item in text.split(",")):
        return None
    return text.replace(MARK, "…")


def _drops(text: str) -> bool:
    """Whether a value of --export leaves the variables of the caller out."""
    return bool(text) and _ALL not in [part.strip().upper() for part in text.split(",")]


def _with_all(text: str) -> str:
    return f"--export={_ALL}" if text.upper() in _NOTHING else f"--export={_ALL},{text}"


@RULES.rule(
    "SLURM106",
    "CPUs of a task",
    reason="From Slurm 22.05 on srun does not take over --cpus-per-task of sbatch: every task is "
    "bound to one core, and data loading and compilation crawl.",
    remedy='srun --cpus-per-task="$SLURM_CPUS_PER_TASK", or export '
    'SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
    source="release notes of Slurm 22.05; public report reframe issue 2655",
    severity="warning",
    stage="silent",
)
def task_cpus(w: Workload) -> Iterator[Fault]:
    """Find srun without the CPUs a task that the directives ask for."""
    asked = w.batch.directive(_CPUS) if w.batch is not None else None
    text = option_text(asked)
    if asked is None or text is None or text == "1" or w.batch is None:
        return
    if is_heterogeneous(w.batch):
        return  # which component a directive is of is not told
    for step in steps(w):
        if step.program != SRUN or _CPU_VARIABLE in step.environment:
            continue
        if step.option(*_CPU_OPTIONS) is not None or _whole_cores(step) or _hidden(step.options):
            continue
        if not _is_main(w, step):
            continue
        yield Fault(
            _CPUS,
            f"srun does not take over --cpus-per-task={text}{place(asked.origin)}: its tasks get "
            "one core each",
            step.origin,
        )


def _whole_cores(step: Step) -> bool:
    """Whether srun is told to leave tasks unbound."""
    option = step.option("--cpu-bind")
    return option_text(option) in {"none", "no", "verbose,none", "quiet,none"}


def _hidden(options: tuple[Option, ...]) -> bool:
    return any(MARK in option.name for option in options)


def _is_main(w: Workload, step: Step) -> bool:
    """Whether a step is the one that starts MaxText, or nobody knows which does."""
    return w.step is None or not w.is_maxtext or step == w.step
