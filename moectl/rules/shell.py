"""Rules on the language of scripts: commands that a shell refuses, or that lose a setting.

A shell goes on behind such a command, so that the job runs without the setting. Every fault
was tried on bash 5.2; the tests try it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from moectl.errors import shown
from moectl.rules.launching import SRUN, steps
from moectl.rules.rule import Fault, rules
from moectl.settings.sources.manifest import is_template
from moectl.workload import MARK, Step, Text, Workload

if TYPE_CHECKING:
    from moectl.settings.shell import ShellFault

RULES = rules()

_BASH = "bash 5.2, tried"
# One address for all processes of a job: who listens there is process 0.
_SHARED = ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_IP", "MASTER_ADDR")
# Commands that answer with the address or the name of the node they run on.
_OWN_ADDRESS = ("hostname", "ifconfig", "ip addr", "ip -", "curl -s ifconfig")
_CHOOSES = ("SLURM_", "scontrol", "head -n")


def _found(w: Workload, *kinds: str) -> Iterator[ShellFault]:
    """Yield the faults of some kinds in the script a workload stands in."""
    from moectl.settings.shell import Script  # noqa: PLC0415 - only scripts pay

    if w.manifest is not None and is_template(w.manifest):
        return  # lines of the template's own stand between the script's, and go
    if isinstance(w.batch, Script):
        yield from (fault for fault in w.batch.faults if fault.kind in kinds)


def _faults(
    w: Workload, messages: dict[str, Callable[[ShellFault], tuple[str, str]]]
) -> Iterator[Fault]:
    for fault in _found(w, *messages):
        message, hint = messages[fault.kind](fault)
        yield Fault(
            fault.subject,
            message,
            fault.origin,
            hint,
            severity="warning" if fault.conditional else None,
        )


@RULES.rule(
    "SH101",
    "words of export that name no variable",
    reason="`export` takes names and NAME=value; it complains about any other word, the shell "
    "goes on, and what the word should have set is lost.",
    remedy='quote the whole value: export NAME="a b", without blanks around =',
    source=_BASH,
    stage="silent",
)
def no_name(w: Workload) -> Iterator[Fault]:
    """Find words of export and the like that are no name: the rest of a value not quoted."""
    yield from _faults(w, {"no name": _no_name, "expanded name": _expanded_name})


def _no_name(fault: ShellFault) -> tuple[str, str]:
    command, _, count = fault.detail.partition("\0")
    more = f" (and {int(count) - 1} more)" if int(count) > 1 else ""
    word = shown(fault.subject)
    if fault.subject.startswith(("=", "+=")):
        return (
            f"{command} has blanks around the =: {word}{more} is not a valid identifier, and the "
            "variable gets no value.",
            f'{command} NAME="value", without blanks around =',
        )
    return (
        f"{command} takes {word}{more} for the name of a variable: not a valid identifier; it "
        "is no part of the value before it, and is lost.",
        f'{command} NAME="all of the value", in quotes',
    )


def _expanded_name(fault: ShellFault) -> tuple[str, str]:
    name = fault.subject
    command = f"{fault.detail} " if fault.detail else ""
    return (
        f"{command}${name}=...: the $ puts the value of {name} in place of its name, so that "
        f"{name} is not set.",
        f"{command}{name}=...",
    )


@RULES.rule(
    "SH102",
    "a setting in the place of a command",
    reason="The first word of a command that is no assignment is the program: the shell looks "
    "for one of that name, finds none, and neither the setting nor what follows it happens.",
    remedy="quote the whole value, and leave no blanks around =",
    source=_BASH,
)
def no_command(w: Workload) -> Iterator[Fault]:
    """Find commands whose name is an option, or a variable with blanks around its =."""
    yield from _faults(w, {"option as a command": _option, "blanks around =": _blanks})


def _option(fault: ShellFault) -> tuple[str, str]:
    word = shown(fault.subject)
    if fault.detail:
        return (
            f"{word} stands where the program should: its blank ends the value of "
            f"{fault.detail}, and the shell says command not found.",
            f'{fault.detail}="all of the value", in quotes',
        )
    return (
        f"{word} begins a command of its own: command not found. It is lost where it was meant "
        "to go on.",
        "end the line before it with a backslash, and nothing behind that",
    )


def _blanks(fault: ShellFault) -> tuple[str, str]:
    return (
        f"{fault.subject} {shown(fault.detail)}: with a blank before the = it is a command of that "
        "name, which is not found, and the variable keeps what it was.",
        f'export {fault.subject}="...", without blanks around =',
    )


@RULES.rule(
    "SH103",
    "a continued line that ends",
    reason="A backslash continues a line only as its last character; a comment or an empty line "
    "ends the command. What follows is another command, and its settings are lost.",
    remedy="end every line of the command but the last with a backslash, and move comments above "
    "the command",
    source=_BASH,
    stage="silent",
)
def lost_rest(w: Workload) -> Iterator[Fault]:
    """Find commands whose last lines are not theirs."""
    yield from _faults(
        w,
        {
            "blank behind a backslash": _blank,
            "rest of a command": _rest,
            "argument behind a command": _argument,
        },
    )


def _blank(fault: ShellFault) -> tuple[str, str]:  # noqa: ARG001 - all are alike
    return (
        "a blank stands behind the backslash, so that the line is not continued: the command ends "
        "here, with one word more, and the next line is another command.",
        "delete the blanks at the end of the line",
    )


def _rest(fault: ShellFault) -> tuple[str, str]:
    line = f" in line {fault.detail}" if fault.detail else ""
    return (
        f"the comment or empty line{line} ends the command above: {shown(fault.subject)} and what "
        "follows is a command of its own.",
        "move the comment above the command, and leave no empty line in it",
    )


def _argument(fault: ShellFault) -> tuple[str, str]:
    return (
        f"{shown(fault.detail)} stands behind the end of the MaxText command: it sets a variable "
        "of the shell that nothing reads, and MaxText does not get it.",
        "end the line before it with a backslash (in YAML: no empty line and no line of another "
        "indentation in a folded text)",
    )


@RULES.rule(
    "SH104",
    "a setting that is not exported",
    reason="A program gets the variables that are exported. One that is only assigned stays with "
    "the shell, unless the caller of the script has exported it already.",
    remedy="export NAME=value",
    source=_BASH,
    severity="warning",
    stage="silent",
)
def not_exported(w: Workload) -> Iterator[Fault]:
    """Find variables of XLA, JAX, NCCL and the like that are set for nobody."""
    for fault in _found(w, "not exported"):
        yield Fault(
            fault.subject,
            f"{fault.subject} is set and not exported: {fault.detail} does not get it, unless the "
            "caller of the script exports it.",
            fault.origin,
            f"export {fault.subject}=...",
        )


@RULES.rule(
    "SH105",
    "a module that MaxText does not have",
    reason="python3 -m with a name that no module has ends every process at once: No module named.",
    remedy="write the name of the module as MaxText has it",
    source="module tree of MaxText 0.2.5 (the wheel)",
)
def no_module(w: Workload) -> Iterator[Fault]:
    """Find names behind python3 -m that are no module of MaxText."""
    for fault in _found(w, "no module", "old module", "package"):
        old = fault.kind == "old module"
        name = shown(fault.subject)[1:-1]
        if old:
            package = name.partition(".")[0]
            what = f"MaxText 0.2.5 has no package {package}, and no known release has {name}"
        elif fault.kind == "package":
            what = f"{name} is a folder of MaxText's modules, and cannot be directly executed"
        else:
            what = f"No module named {name} in MaxText 0.2.5"
        yield Fault(
            fault.subject,
            f"{what}.",
            fault.origin,
            f"python3 -m {fault.detail}" if fault.detail else "name a module of MaxText",
            severity="warning" if old or fault.conditional else None,
        )


@RULES.rule(
    "SH106",
    "an address that differs on every node",
    reason="Every task of srun runs the command itself: hostname and its like answer with the "
    "node's own address, so that each node waits for a coordinator of its own.",
    remedy="find the address once, outside srun: "
    'export JAX_COORDINATOR_IP="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)"',
    source="MaxText 0.2.5 utils/max_utils.py (JAX_COORDINATOR_IP); srun(1)",
    severity="warning",
)
def own_address(w: Workload) -> Iterator[Fault]:
    """Find coordinators that each task of srun makes out of its own node."""
    if w.batch is None or not any(name in w.batch.text for name in _SHARED):
        return
    if w.layout.nodes is not None and w.layout.nodes.value == 1:
        return
    for step in (w.step,) if w.step is not None else steps(w):
        if step.program == SRUN:
            yield from _of_task(step)


def _of_task(step: Step) -> Iterator[Fault]:
    waiting = list(step.inside)
    seen: set[str] = set()
    while waiting:
        inner = waiting.pop()
        waiting += inner.inside
        for name in _SHARED:
            text = inner.environment.get(name)
            if text is not None and name not in seen and _is_own(text, step.environment.get(name)):
                seen.add(name)
                yield Fault(
                    name,
                    f"{name} is set inside srun from {shown(_raw(text))}: every node gets its own "
                    "address for the coordinator's.",
                    text.origin,
                )


def _is_own(text: Text, outside: Text | None) -> bool:
    """Whether a value is a substitution that answers with the node's own name or address."""
    if outside is not None and outside.pieces == text.pieces:
        return False
    raw = _raw(text)
    is_own = raw.startswith(("$(", "`")) and any(word in raw for word in _OWN_ADDRESS)
    return is_own and not any(word in raw for word in _CHOOSES)


def _raw(text: Text) -> str:
    return "".join(piece.raw for piece in text.pieces if MARK in piece.text)[:80]
