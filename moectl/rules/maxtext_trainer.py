"""Which program of MaxText a workload starts, where its config is not pre-training's.

MaxText 0.2.5 gives each program a class of its config (configs/pyconfig.py:410
`config_class`); only pre-training's has the checks that `moectl.rules.requirements` knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from moectl.facts.yaml_facts import read
from moectl.rules.maxtext_words import RUN_FILE, all_said, catalogue
from moectl.workload import Workload

# The kind of a workload that says the pre-training program was started, whatever its keys.
PRE_TRAINING = "MaxText command"
_TABLE = "maxtext_trainers.yaml"
# The programs that every catalogue is of (MaxText 0.2.5 trainers/pre_train, and its older home).
_PROGRAMS = ("maxtext.trainers.pre_train.", "MaxText.train", "MaxText.elastic_train")


@dataclass(frozen=True, slots=True)
class Trainer:
    """A class of configs other than pre-training's.

    Attributes:
        name: the class, e.g. "RLConfig".
        program: the last part of its program's name.
        release: the release whose class is catalogued.
        names: keys that pre-training's class lacks, sections and what may stand in them.
        sections: names of the mappings.
        marks: keys that only a config of this class holds.
        open: whether its keys are not catalogued.
    """

    name: str
    program: str
    release: str
    names: frozenset[str]
    sections: frozenset[str]
    marks: frozenset[str]
    open: bool

    def has(self, name: str, *, argument: bool) -> bool:
        """Whether it knows a name beyond those of pre-training; a dot nests in arguments only.

        What it does not know in a section it drops without a word; names under a key that
        is no section are a fault of its value, not of its name.
        """
        section, dot, _ = name.partition(".")
        return argument and section in self.names if dot else name in self.names


@cache
def trainers() -> Mapping[str, Trainer]:
    """Return the catalogued classes by their programs."""
    table = read(_TABLE)
    found: dict[str, Trainer] = {}
    for name, row in table["classes"].items():
        sections: Mapping[str, list[str]] = row["sections"]
        inside = {word for words in sections.values() for word in words}
        made = Trainer(
            name=name,
            program=row["modules"][0].rpartition(".")[2],
            release=str(table["release"]),
            names=frozenset({*row["marks"], *row["keys"], *sections, *inside}),
            sections=frozenset(sections),
            marks=frozenset(row["marks"]),
            open=row.get("open", False),
        )
        found |= dict.fromkeys(row["modules"], made)
    return found


# The workload asked for last, as dozens of rules ask for the same one.
_LAST: list[tuple[Workload, Trainer | None]] = []


def trainer(w: Workload) -> Trainer | None:
    """Return the class of a workload's config; None for pre-training's, or where nothing tells.

    The program that is started tells it, else keys that no other class has.
    """
    if _LAST and _LAST[0][0] is w:
        return _LAST[0][1]
    found = _trainer(w)
    _LAST[:] = [(w, found)]
    return found


def program(w: Workload) -> str | None:
    """Return the module that a workload starts; None for a file that starts nothing."""
    if w.step is None:
        return None
    from moectl.settings.shell import maxtext_commands  # noqa: PLC0415 - it is there by now

    started = list(maxtext_commands(w.step))
    return next(
        (start.module for start in started if start.origin == w.origin),
        started[0].module if started else None,
    )


def _trainer(w: Workload) -> Trainer | None:
    if not w.is_maxtext or w.kind == RUN_FILE:
        return None
    module = program(w)
    if module is not None:
        return None if module.startswith(_PROGRAMS) else trainers().get(module)
    if w.kind == PRE_TRAINING:
        return None
    unknown = set(_unknown(w))
    if not unknown:
        return None
    return next((row for row in trainers().values() if unknown & row.marks), None)


def _unknown(w: Workload) -> Iterator[str]:
    """Yield the names that pre-training's class does not have."""
    keys = catalogue(w)
    if keys is not None:
        yield from (name for name, _, _ in all_said(w) if keys.key(name) is None)


def elsewhere(name: str) -> Any:
    """Return a class that knows a name which pre-training's does not, or None."""
    known = trainers().values()
    return next((row for row in known if row.has(name, argument=True)), None)
