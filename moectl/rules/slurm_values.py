"""What the values of Slurm's options look like (facts/data/slurm_values.tsv)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from moectl.resources import fact

# A list of generic resources (gres) is "name[:type][:count],..." in every release. From 23.11 on
# Slurm also reads "name=count" and "gres/name:count" (slurm_get_next_tres of
# src/common/slurm_protocol_defs.c).
_GRES = "--gres"
_GRES_LEGAL = "name, name:count or name:type:count, e.g. gpu:8"
_GRES_SINCE = "23.11"
_GPU = "gpu"
# What people write for it; no plugin and no site has resources of these names.
_NOT_GPU = frozenset({"gpus", "GPU", "GPUS", "Gpu", "Gpus", "gpu_count", "cuda"})
_SUFFIXES = "kKmMgGtTpP"


@dataclass(frozen=True, slots=True)
class Grammar:
    """What the values of an option look like.

    Attributes:
        pattern: a regular expression for the whole value, letter case aside.
        newer: another one, for what only newer releases take; may be empty.
        since: the first of these releases.
        reader: the program that refuses other values.
        legal: the grammar in words.
    """

    pattern: str
    newer: str
    since: str
    reader: str
    legal: str


@dataclass(frozen=True, slots=True)
class ValueFault:
    """Why a value is refused.

    Attributes:
        legal: what would be taken.
        since: the release from which on this value is taken too; empty if none takes it.
        instead: what was meant; empty if that cannot be told.
        reader: the program that refuses it.
    """

    legal: str
    since: str = ""
    instead: str = ""
    reader: str = "sbatch"


@cache
def grammars() -> Mapping[str, Grammar]:
    """Return the grammar of the values of each option, by its long name."""
    found: dict[str, Grammar] = {}
    for line in fact("slurm_values.tsv").read_text("utf-8").splitlines()[2:]:
        options, pattern, newer, since, reader, legal = line.split("\t")
        grammar = Grammar(pattern, newer, since, reader, legal)
        found.update({f"--{name}": grammar for name in options.split(",")})
    return found


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.ASCII | re.DOTALL)


def value_fault(name: str, text: str) -> ValueFault | None:
    """Return what is wrong with a value; None when nothing is, or nobody says.

    Args:
        name: the option's long name, e.g. "--time".
        text: its value, quotes and backslashes taken away.
    """
    if name == _GRES:
        return _gres_fault(text)
    grammar = grammars().get(name)
    if grammar is None or _compiled(grammar.pattern).fullmatch(text):
        return None
    if grammar.newer and _compiled(grammar.newer).fullmatch(text):
        return ValueFault(grammar.legal, grammar.since)
    return ValueFault(grammar.legal, reader=grammar.reader)


def _gres_fault(text: str) -> ValueFault | None:
    """Judge only what is surely wrong of a --gres list: sites give their resources any name."""
    entries = [entry for entry in text.split(",") if entry]
    plain = [entry.removeprefix("gres:").removeprefix("gres/") for entry in entries]
    renamed = [_renamed(entry) for entry in plain]
    if renamed != plain:
        return ValueFault(_GRES_LEGAL, instead=",".join(_with_colon(entry) for entry in renamed))
    for entry in plain:
        parts = _with_colon(entry).split(":")
        number = parts[-1].rstrip(_SUFFIXES)
        if (
            parts[0].isdigit()
            or "" in parts
            or len(parts) > 3
            or (len(parts) == 3 and not number.isdigit())
        ):
            return ValueFault(_GRES_LEGAL)
    if any(entry.startswith("gres/") or _equals(entry) for entry in entries):
        instead = ",".join(_with_colon(entry) for entry in plain)
        return ValueFault(_GRES_LEGAL, _GRES_SINCE, instead)
    return None


def _renamed(entry: str) -> str:
    """Return an entry with the name that is meant, where that is no name of a resource."""
    name = re.split("[:=]", entry, maxsplit=1)[0]
    return _GPU + entry[len(name) :] if name in _NOT_GPU else entry


def _equals(entry: str) -> bool:
    """Whether the name is followed by =; Slurm 22.05 takes it after a type."""
    return "=" in entry.partition(":")[0]


def _with_colon(entry: str) -> str:
    return entry.replace("=", ":")
