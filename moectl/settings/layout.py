"""The process layout a batch script asks Slurm for: nodes, tasks and GPUs as far as certain.

Sources: sbatch(1) and srun(1) of Slurm 22.05.8. Options of srun count before the directives of
the script it stands in. What Slurm fills in is filled in only where the manual leaves no
choice; whatever depends on the site, on the command line of sbatch, or on a shell variable is
unknown (said, and not to be told) or None (not said).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from moectl.facts.slurm_options import load as slurm
from moectl.values import Origin, Value
from moectl.workload import MARK, UNKNOWN, Batch, Layout, Option, Step, Text

LAUNCHER: Final = "srun"
"""The program whose options lay out processes."""

_SEPARATOR: Final = re.compile(r"^#SBATCH[ \t]+(?:het|pack)job\b", re.MULTILINE | re.IGNORECASE)
_HET_OPTIONS: Final = ("--het-group", "--pack-group")
_SUFFIXES: Final = {"k": 1024, "m": 1024**2}
_PLAIN: Final = frozenset({"python", "python3"})
_GPU_OPTIONS: Final = (
    "--gpus",
    "--gpus-per-node",
    "--gpus-per-task",
    "--gpus-per-socket",
    "--gres",
    "--tres-per-task",
)
_TASK_COUNTS: Final = ("--ntasks", "--ntasks-per-node")
_DASHES: Final = "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
# Options of numbers, whose value never begins with =.
_COUNTED: Final = frozenset({
    "--nodes", "--ntasks", "--ntasks-per-node", "--gpus", "--gpus-per-node", "--gpus-per-task",
    "--cpus-per-task",
})  # fmt: skip
# Options that let Slurm choose another number of tasks than one a node.
_TASK_OPTIONS: Final = (
    "--ntasks",
    "--ntasks-per-node",
    "--ntasks-per-gpu",
    "--ntasks-per-socket",
    "--ntasks-per-core",
    "--ntasks-per-tres",
    "--cpus-per-task",
    "--gpus-per-task",
    "--tres-per-task",
    "--multi-prog",
    "--overcommit",
)


def script_layout(
    batch: Batch, step: Step | None, *, alone: bool | None = None, again: bool = False
) -> Layout:
    """Return the layout of the processes that a step starts.

    Args:
        batch: the script; its directives hold for every step.
        step: the command that starts the processes; None for the allocation alone.
        alone: whether the batch script runs the step itself, on its own node; None when that
            is to be told from the step.
        again: whether it may run it several times at once, as a loop does.

    Returns:
        Nodes, processes, GPUs (all) and GPUs and CPUs a process; None where nobody said
        anything, UNKNOWN where it is said but not to be told from the file.
    """
    launched = step is not None and step.program == LAUNCHER
    own = step.options if step is not None and launched else ()
    if _not_told(batch, own):
        first = next((option.origin for option in (*own, *batch.directives)), Origin("script"))
        unknown = Value(UNKNOWN, first)
        return Layout(*[unknown] * 7)
    said = _Said(own, batch.directives)
    nodes = said.number("--nodes")
    gpus, per_node, per_process = _gpus(said)
    processes, processes_per_node = _processes(said, nodes, gpus, per_process, launched)
    if step is not None and not launched:
        if alone is None:
            alone = step.program in _PLAIN and step in batch.steps
        unknown = Value(UNKNOWN, step.origin)
        processes = processes_per_node = unknown if again else None
        if alone and (batch.scheduled or nodes is not None or again):
            one = Value(1, step.origin)
            if gpus is not None and (nodes is None or nodes.value != 1):
                # How Slurm spreads them over the nodes is not said.
                gpus = _divided(gpus, nodes) or Value(UNKNOWN, gpus.origin)
            nodes = one
            processes = processes_per_node = unknown if again else one
    processes_per_node = processes_per_node or _divided(processes, nodes)
    if per_node is None and per_process is not None:
        per_node = _product(per_process, processes_per_node)
    if per_node is None and gpus is not None and nodes is not None and nodes.value == 1:
        per_node = gpus
    return Layout(
        nodes=nodes,
        processes=processes,
        processes_per_node=processes_per_node,
        gpus=gpus or _product(nodes, per_node) or _product(processes, per_process),
        gpus_per_node=per_node,
        gpus_per_process=per_process,
        cpus_per_process=said.number("--cpus-per-task"),
    )


class _Said:
    """The options of a step before the directives of its script."""

    def __init__(self, own: tuple[Option, ...], directives: tuple[Option, ...]) -> None:
        # The last of a name counts, and srun's before sbatch's.
        self._own: Mapping[str, Option] = {option.name: option for option in map(meant, own)}
        self._batch: Mapping[str, Option] = {
            option.name: option for option in map(meant, directives)
        }

    def option(self, *names: str) -> Option | None:
        for options in (self._own, self._batch):
            for name in names:
                if found := options.get(name):
                    return found
        return None

    def number(self, name: str) -> Value | None:
        option = self.option(name)
        return None if option is None else _value(option, count(_text(option)))

    def group(self, names: Iterable[str]) -> Mapping[str, Option]:
        """Return the options of these names: srun's if it says any, else sbatch's."""
        for options in (self._own, self._batch):
            if found := {name: options[name] for name in names if name in options}:
                return found
        return {}

    def overrides_nodes(self) -> bool:
        """Whether srun says other nodes than the directives and leaves tasks to them.

        Slurm 22.05.8 then keeps the job's number of tasks, and mostly cannot place it.
        """
        nodes = self._own.get("--nodes")
        if nodes is None or any(name in self._own for name in _TASK_COUNTS):
            return False
        allocated = self._batch.get("--nodes")
        same = allocated is not None and _text(allocated) == _text(nodes)
        return not same and any(name in self._batch for name in _TASK_COUNTS)


def meant(option: Option) -> Option:
    """Return the option that one with wrong dashes or a wrong = is meant to be, else itself.

    Slurm refuses "-nodes=2", "---nodes=2", "--N 2", "-N=2" and dashes of word processors. That
    is a finding of its own; what else is wrong with the script is judged as it is meant.
    """
    name, text = option.name, _text(option)
    if text is not None and text.startswith("=") and name in _COUNTED:
        return _with_value(option, name, text[1:])
    word = name.lstrip(_DASHES)
    if word == name or MARK in name or name in slurm().options:
        return option
    word, equals, value = word.partition("=")
    long = f"--{word}"
    if len(word) == 1:
        long = next((o.name for o in slurm().options.values() if o.short == f"-{word}"), "")
    if long not in slurm().options:
        return option
    return _with_value(option, long, value) if equals else replace(option, name=long)


def _with_value(option: Option, name: str, value: str) -> Option:
    return replace(option, name=name, value=Text.of(value, option.origin))


def count(text: str | None) -> int | None:
    """Return a count as Slurm reads it ("8", "1k", "4-4"); None for a range or anything else."""
    if text is None:
        return None
    low, dash, high = text.partition("-")
    number = _number(low)
    return number if not dash or number == _number(high) else None


def gpu_count(text: str | None) -> int | None:
    """Return the GPUs of "[type:]number[,...]", the form of --gpus and its relatives."""
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) > 1 and any(":" not in part for part in parts):
        return None
    counts = [_typed_count(part) for part in parts]
    return None if None in counts else sum(number for number in counts if number is not None)


def _typed_count(part: str) -> int | None:
    kind, colon, amount = part.rpartition(":")
    number = _number(amount)
    if number is None and not colon and amount and not amount[0].isdigit():
        return 1  # a type without a count
    return number if ":" not in kind else None


def gres_gpus(text: str | None) -> int | None:
    """Return the GPUs a node in a --gres list; None when it names none, or cannot be told."""
    if text is None:
        return None
    found: int | None = None
    for entry in text.split(","):
        parts = entry.removeprefix("gres:").removeprefix("gres/").replace("=", ":").split(":")
        if parts[0] != "gpu":
            continue
        number = _number(parts[-1]) if len(parts) > 1 else 1
        if number is None:
            if len(parts) != 2:
                return None
            number = 1  # a type without a count
        found = (found or 0) + number
    return found


def _number(text: str) -> int | None:
    digits = text[:-1] if text[-1:].lower() in _SUFFIXES else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        return None
    return int(digits) * _SUFFIXES.get(text[-1:].lower(), 1)


def _text(option: Option) -> str | None:
    return option.value.text if option.value is not None and option.value.known else None


def _value(option: Option, number: int | None) -> Value:
    return Value(UNKNOWN if number is None else number, option.origin)


def is_heterogeneous(batch: Batch) -> bool:
    """Return whether a script asks for several allocations of different shape at once."""
    return _SEPARATOR.search(batch.text) is not None


def _not_told(batch: Batch, own: tuple[Option, ...]) -> bool:
    """Whether options are there that nobody can read, or several allocations."""
    return is_heterogeneous(batch) or any(
        option.name in _HET_OPTIONS or MARK in option.name for option in own
    )


def _gpus(said: _Said) -> tuple[Value | None, Value | None, Value | None]:
    """Return all GPUs, GPUs a node and GPUs a process, as said."""
    options = said.group(_GPU_OPTIONS)
    total = per_node = per_process = None
    for name, option in options.items():
        text = _text(option)
        match name:
            case "--gpus":
                total = _value(option, gpu_count(text))
            case "--gpus-per-node":
                per_node = _value(option, gpu_count(text))
            case "--gres" if per_node is None:
                number = gres_gpus(text)
                if text is None or number is not None or "gpu" in text:
                    per_node = _value(option, number)
            case "--gpus-per-task":
                per_process = _value(option, gpu_count(text))
            case "--tres-per-task" if per_process is None:
                number = gres_gpus(text)
                if text is None or number is not None:
                    per_process = _value(option, number)
            case "--gpus-per-socket" if per_node is None:
                per_node = Value(UNKNOWN, option.origin)
            case _:
                pass
    return total, per_node, per_process


def _processes(
    said: _Said,
    nodes: Value | None,
    gpus: Value | None,
    gpus_per_process: Value | None,
    launched: bool,
) -> tuple[Value | None, Value | None]:
    """Return the processes, and the processes a node, of a step of srun or of an allocation."""
    total, per_node = said.number("--ntasks"), said.number("--ntasks-per-node")
    if said.overrides_nodes():
        return _known_or_unknown(total or per_node), _known_or_unknown(per_node)
    if total is not None:
        if nodes is None or per_node is None or _matches(total, nodes, per_node):
            return total, per_node
        return total, Value(UNKNOWN, per_node.origin)  # with --ntasks it is an upper limit
    if per_node is not None:
        return _product(nodes, per_node), per_node
    if (per_gpu := said.number("--ntasks-per-gpu")) is not None:
        return _product(gpus, per_gpu) or Value(UNKNOWN, per_gpu.origin), None
    if gpus_per_process is not None and gpus is not None:
        return _divided(gpus, gpus_per_process), None
    if other := said.option(*_TASK_OPTIONS):
        return (Value(UNKNOWN, other.origin), None) if nodes is not None else (None, None)
    if launched and nodes is not None:
        return nodes, Value(1, nodes.origin)  # srun's default is one task a node
    return None, None


def _known_or_unknown(value: Value | None) -> Value | None:
    return None if value is None else Value(UNKNOWN, value.origin)


def _matches(total: Value, nodes: Value, per_node: Value) -> bool:
    product = _product(nodes, per_node)
    return product is not None and product.value in {UNKNOWN, total.value}


def _product(left: Value | None, right: Value | None) -> Value | None:
    if left is None or right is None:
        return None
    known = isinstance(left.value, int) and isinstance(right.value, int)
    return Value(left.value * right.value if known else UNKNOWN, right.origin)


def _divided(total: Value | None, parts: Value | None) -> Value | None:
    """Return the share of each part, unknown where it is not the same for all."""
    if total is None or parts is None:
        return None
    if not isinstance(total.value, int) or not isinstance(parts.value, int) or parts.value < 1:
        return Value(UNKNOWN, total.origin)
    whole = total.value % parts.value == 0
    return Value(total.value // parts.value if whole else UNKNOWN, total.origin)
