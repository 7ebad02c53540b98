"""Rules on the options of sbatch and srun: what Slurm refuses, ignores, or reads otherwise.

What sbatch does with a directive was tried on Slurm 22.05.8; the tests try it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from moectl.errors import shown
from moectl.facts.slurm_options import SlurmOption
from moectl.facts.slurm_options import load as slurm
from moectl.rules import slurm_directives, slurm_environment, slurm_requests
from moectl.rules.launching import (
    SBATCH,
    SLURM_PROGRAMS,
    line_origin,
    option_text,
    place,
    slurm_options,
    steps,
)
from moectl.rules.rule import Fault, rules
from moectl.rules.slurm_values import ValueFault, value_fault
from moectl.settings.layout import is_heterogeneous
from moectl.workload import MARK, Option, Workload

RULES = rules()

_SLURM = "sbatch(1) and srun(1); tried on Slurm 22.05.8"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_ONE_DASH_WORD = re.compile(r"-([A-Za-z][A-Za-z-]+)(?:[= \t].*)?", re.DOTALL)
_EXPANSION = re.compile(r"\$(?:[A-Za-z_{(]|[0-9])|`|^~")
# Text that is only shown; the job runs all the same.
_ONLY_SHOWN = frozenset({"--job-name", "--comment", "--wckey", "--mail-user"})
_SHEBANG = "#!"
# Options that took no value before a release (slurm_opt.c, tags 22.05.11 to 26.05.3).
_BARE_BEFORE = {"--requeue": "25.11"}
_LONGEST_NAME = 40


@RULES.rule(
    "SLURM101",
    "unknown option",
    reason="sbatch and srun refuse the job at once when they do not know an option.",
    remedy="use an option of `man sbatch` or `man srun`",
    source=f"{_SLURM}; SchedMD/slurm src/common/slurm_opt.c",
)
def unknown_option(w: Workload) -> Iterator[Fault]:
    """Find names that no option has, or that several begin with."""
    for program, option in slurm_options(w):
        name = option.name
        if not name.startswith("--") or MARK in name or _malformed(option):
            continue
        if slurm().long(program, name) is not None:
            continue
        begun = _begun(name, program)
        if begun:
            text = f"{shown(name)} may be {', '.join(begun[:4])}: {program} calls it ambiguous"
            yield Fault(name, text, option.origin, " or ".join(begun[:3]))
            continue
        other = slurm().option(name)
        near = [] if other else _near(program, name)
        if other is not None:
            text = f"{program} has no {name}; it is an option of {_listed(other.programs)}"
        else:
            text = f"{program} has no option {shown(name)}"
        yield Fault(
            name,
            text if near or other else f"{text}, unless a plugin of the site adds it",
            option.origin,
            " or ".join(near),
            severity="error" if near or other else "warning",
        )


@lru_cache(maxsize=256)
def _near(program: str, name: str) -> list[str]:
    """Return names like this one; cached, for a file may repeat a fault a thousand times."""
    return slurm().nearest(program, name) if len(name) <= _LONGEST_NAME else []


def _begun(name: str, program: str) -> list[str]:
    """Return the options that a name may be short for."""
    known = slurm().options.items() if len(name) > 2 else ()
    return [long for long, option in known if long.startswith(name) and program in option.programs]


def _own(option: Option, program: str) -> SlurmOption | None:
    """Return what is known of an option of a program, if it is Slurm's own."""
    found = slurm().variants.get((program, option.name)) or slurm().option(option.name)
    return found if found and not found.plugin and program in found.programs else None


def _listed(programs: frozenset[str]) -> str:
    return " and ".join(sorted(programs))


@RULES.rule(
    "SLURM102",
    "malformed option",
    reason="One dash too few or too many, or a dash of a word processor, makes another option or "
    "none of it, and sbatch refuses the job.",
    remedy="--name=value for a long name, -n value for a letter",
    source=f"{_SLURM}; getopt_long(3); public report brainiak-tutorials pull request 14",
)
def malformed_option(w: Workload) -> Iterator[Fault]:
    """Find options whose dashes, or whose argument, are wrong."""
    for program, option in slurm_options(w):
        if fault := _malformed(option):
            message, hint = fault
            first = option.raw.split(maxsplit=1)[0] if option.raw.strip() else ""
            word = hint.split(maxsplit=1)[0] if hint else ""
            safe = first.startswith("-") and word.startswith("-") and "=" not in first[2:3]
            fix = (first, word) if safe and first[-1:] == word[-1:] else None
            yield Fault(option.name, message, option.origin, hint, fix=fix)
            continue
        found = _own(option, program)
        if found is None:
            continue
        if found.note:  # it says that releases differ
            if option.value is not None and option.name in _BARE_BEFORE:
                yield Fault(
                    option.name,
                    f"{option.name} takes no value in Slurm before {_BARE_BEFORE[option.name]}",
                    option.origin,
                    option.name,
                    severity="warning",
                )
            continue
        if found.argument == "yes" and option.value is None:
            yield Fault(
                option.name, f"{option.name} wants a value", option.origin, f"{option.name}=..."
            )
        elif found.argument == "no" and option.value is not None:
            yield Fault(option.name, f"{option.name} takes no value", option.origin, option.name)


def _malformed(option: Option) -> tuple[str, str] | None:
    """Return what is wrong with the dashes of an option, and what to type; None if nothing."""
    raw = option.raw.strip() or option.name.strip()
    if MARK in raw or MARK in option.name or not raw.strip("\"' \t"):
        return None
    first = raw.split(maxsplit=1)[0]
    rest = raw[len(first) :].strip()
    if first[0] in _DASHES:
        plain = "--" + first.lstrip(_DASHES + "-")
        return f"{shown(first)} begins with a dash that is no ASCII hyphen", plain
    if not first.startswith("-"):
        name = first.partition("=")[0]
        if f"--{name}" in slurm().options:
            return f"{shown(first)} has no dashes, and sbatch refuses the line", f"--{first}"
        return f"{shown(first)} is no option, and sbatch refuses the line", ""
    if first.startswith("---"):
        return f"{shown(first)} has {_dashes(first)} dashes; two are meant", _two(first)
    if first.startswith("--"):
        letter = first[2:].partition("=")[0]
        if len(letter) == 1 and f"--{letter}" not in slurm().options:
            value = first[3:].removeprefix("=") or rest or option_text(option) or ""
            hint = f"-{letter} {value}".rstrip()
            return f"{shown(first)}: a letter takes one dash", hint
        return None
    word = _ONE_DASH_WORD.fullmatch(first)
    if word is not None and f"--{word[1]}" in slurm().options:
        return (
            f"{shown(first)} has one dash, so it is read as -{first[1]} with the value "
            f"{shown(first[2:])}",
            f"-{first}",
        )
    if len(first) > 2 and first[1].isalpha() and first[2] == "=" and _counts(option.name):
        return f"{shown(first)}: a letter takes its value without =", f"-{first[1]} {first[3:]}"
    return None


def _counts(name: str) -> bool:
    """Whether "=4" is no value of this option."""
    return bool(value_fault(name, "=4"))


def _dashes(text: str) -> int:
    return len(text) - len(text.lstrip("-"))


def _two(text: str) -> str:
    return "--" + text.lstrip("-")


@RULES.rule(
    "SLURM103",
    "value of an option",
    reason="sbatch refuses the job when it cannot read a count, a size or a time.",
    remedy="write the value as `man sbatch` says",
    source=_SLURM,
)
def option_value(w: Workload) -> Iterator[Fault]:
    """Find values that are not what the option takes."""
    for _, option in slurm_options(w):
        text = option_text(option)
        if text is None or _malformed(option) or _EXPANSION.search(text):
            continue
        if fault := value_fault(option.name, text):
            yield _value_fault(option, text, fault)
            continue
        low, dash, high = text.partition("-")
        if option.name != "--nodes" or not dash or not (low.isdigit() and high.isdigit()):
            continue
        if int(low) > int(high):
            yield Fault(
                option.name,
                f"--nodes={text} asks for at least {low} and at most {high} nodes",
                option.origin,
                f"--nodes={high}-{low}",
            )


def _value_fault(option: Option, text: str, fault: ValueFault) -> Fault:
    """Return what is to be said of a value that Slurm refuses, or that only old Slurm does."""
    message = f"{option.name} cannot be {shown(text)}"
    if fault.since:
        message = f"{option.name}={shown(text)[1:-1]} is refused by Slurm before {fault.since}"
    elif fault.reader != SBATCH:
        message += f": {fault.reader} refuses the job"
    instead = f"{option.name}={fault.instead}" if fault.instead else ""
    fix = (text, fault.instead) if fault.instead and text in option.raw else None
    return Fault(
        option.name,
        message,
        option.value.origin if fix and option.value is not None else option.origin,
        instead or fault.legal,
        severity="warning" if fault.since else None,
        fix=fix,
    )


@RULES.rule(
    "SLURM107",
    "nothing is expanded in a directive",
    reason="sbatch reads #SBATCH lines before any shell does: $NAME, `command` and ~ stay as they "
    "stand.",
    remedy="write the value out, use %j, %x and %u in file names, or give the option to sbatch or "
    "srun on a command line",
    source=f"{_SLURM}; public report NVIDIA/pyxis issue 162",
    stage="later",
)
def expansion(w: Workload) -> Iterator[Fault]:
    """Find shell expansions in directives."""
    for option in w.batch.directives if w.batch is not None else ():
        text = option_text(option)
        if text is None or not (found := _EXPANSION.search(text)):
            continue
        what = "~" if found[0] == "~" else "`" if found[0] == "`" else "$"
        severity = "warning" if option.name in _ONLY_SHOWN else None
        yield Fault(
            option.name,
            f"{option.name} is {shown(text)}: {what} is not expanded in a #SBATCH line",
            option.origin,
            _instead(option.name, text),
            severity="warning" if severity else None,
        )


_PATTERNS = {
    "SLURM_JOB_ID": "%j", "SLURM_JOBID": "%j", "SLURM_ARRAY_JOB_ID": "%A", "USER": "%u",
    "SLURM_ARRAY_TASK_ID": "%a", "SLURM_JOB_NAME": "%x",
}  # fmt: skip
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def _instead(name: str, text: str) -> str:
    """Return a file name with Slurm's own patterns, where they say the same."""
    if name not in {"--output", "--error", "--input"}:
        return ""
    said = {found[1] or found[2] for found in _VARIABLE.finditer(text)}
    if not said or not said <= set(_PATTERNS):
        return ""
    new = _VARIABLE.sub(lambda found: _PATTERNS[found[1] or found[2]], text)
    return f"{name}={new}"


@RULES.rule(
    "SLURM111",
    "an option said twice",
    reason="The last of two equal directives counts, and the first is dropped without a word.",
    remedy="keep one of them",
    source=_SLURM,
    severity="warning",
    stage="silent",
)
def said_twice(w: Workload) -> Iterator[Fault]:
    """Find options that a later one of the same command replaces."""
    if w.batch is None:
        return
    if not is_heterogeneous(w.batch):
        yield from _repeated(SBATCH, w.batch.directives)
    for step in steps(w):
        if step.program in SLURM_PROGRAMS:
            yield from _repeated(step.program, step.options)


def _repeated(program: str, options: tuple[Option, ...]) -> Iterator[Fault]:
    first: dict[str, Option] = {}
    for option in options:
        earlier = first.get(option.name)
        first[option.name] = option
        known = _own(option, program)
        if earlier is None or known is None or known.argument == "no":
            continue
        mine, theirs = option_text(option), option_text(earlier)
        if mine is None or theirs is None:
            continue
        lost = f"; {shown(mine)} counts, and {shown(theirs)}{place(earlier.origin)} is lost"
        yield Fault(
            option.name,
            f"{option.name} is said twice" + ("" if mine == theirs else lost),
            option.origin,
            severity="note" if mine == theirs else None,
        )


@RULES.rule(
    "SLURM116",
    "first line of a batch script",
    reason="sbatch refuses a script whose first line does not name an interpreter.",
    remedy="#!/bin/bash as the first line",
    source=_SLURM,
    severity="note",
    stage="reads",
)
def first_line(w: Workload) -> Iterator[Fault]:
    """Find a batch script without an interpreter."""
    if w.batch is not None and w.batch.scheduled and not w.batch.text.startswith(_SHEBANG):
        yield Fault(
            "#!", "no #! in the first line; sbatch refuses such a script", line_origin(w, 1)
        )


RULES.all.extend(slurm_requests.RULES.all)
RULES.all.extend(slurm_environment.RULES.all)
RULES.all.extend(slurm_directives.RULES.all)
