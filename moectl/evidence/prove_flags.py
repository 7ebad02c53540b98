"""Sorts a job's XLA flags for a compile: passed on, withheld, refused, added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from moectl.errors import BackendError
from moectl.evidence.prove_dump import differs, shown
from moectl.evidence.xla_parser import XlaVerdict, judge
from moectl.xla_text import FlagToken, parse

Outcome: TypeAlias = Literal["taken", "changed", "refused", "withheld", "added"]


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag and what became of it.

    Attributes:
        name: without dashes.
        said: the text of its value, as given.
        outcome: "taken" as said; "changed": the compiler holds another value; "refused" by the
            parser of that jaxlib; "withheld" from the compile; "added" by moectl.
        held: the value in the options of the compiler, "" where none shows it.
        why: the parser's words, or moectl's reason.
    """

    name: str
    said: str
    outcome: Outcome
    held: str = ""
    why: str = ""


def sort_flags(text: str, python: Path, facts: Mapping[str, Any]) -> tuple[str, list[Flag]]:
    """Return the flags to compile with, and what became of every one.

    Args:
        text: the job's XLA_FLAGS.
        python: the interpreter whose jaxlib judges; the compiler is of the same release.
        facts: `withheld_flags` and `own_flags` of the fact file.

    Raises:
        BackendError: that jaxlib cannot be asked, or dies of what is left.
    """
    tokens = parse(text).kept
    withheld = {token: why for token in tokens if (why := _withheld(token, facts))}
    given = [token for token in tokens if token not in withheld]
    refused: dict[FlagToken, str] = {}
    verdict = judge(" ".join(token.source for token in given), str(python))
    if not verdict.accepted:
        refused = {token: why for token in given if (why := _refused(token, verdict))}
        given = [token for token in given if token not in refused]
        verdict = judge(" ".join(token.source for token in given), str(python))
        if not verdict.accepted:
            raise BackendError(verdict.sentence)
    added = {row["flag"]: row for row in facts["own_flags"]}
    # The last of several counts, so what is added stands at the end.
    words = [token.source for token in given]
    words += [f"--{name}={shown(row['value'])}" for name, row in added.items()]
    flags = [
        Flag(
            token.name,
            "true" if token.value is None else token.value,
            "refused" if token in refused else "withheld" if token in withheld else "taken",
            why=refused.get(token) or withheld.get(token) or "",
        )
        for token in tokens
    ]
    flags += [
        Flag(name, shown(row["value"]), "added", why=row["why"]) for name, row in added.items()
    ]
    return " ".join(words), flags


def read_back(
    flags: list[Flag], options: Mapping[str, Any], fields: Mapping[str, str]
) -> list[Flag]:
    """Return the flags with the values that the compiler held.

    Args:
        flags: as `sort_flags` gave them.
        options: the DebugOptions of the compile.
        fields: flag to the option it writes, for those whose option has another name.
    """
    added = {flag.name for flag in flags if flag.outcome == "added"}
    found = []
    for flag in flags:
        held = options.get(fields.get(flag.name, flag.name))
        if flag.outcome in {"refused", "withheld"}:
            found.append(flag)
            continue
        outcome = flag.outcome
        # An option of another name may hold the opposite, and what is added here wins.
        if outcome == "taken" and flag.name not in {*fields, *added} and differs(flag.said, held):
            outcome = "changed"
        found.append(Flag(flag.name, flag.said, outcome, shown(held), flag.why))
    return found


def _withheld(token: FlagToken, facts: Mapping[str, Any]) -> str:
    rows = facts["withheld_flags"]
    return next((str(row["why"]) for row in rows if token.name.startswith(row["begins"])), "")


def _refused(token: FlagToken, verdict: XlaVerdict) -> str:
    return next(
        (
            f"jaxlib {verdict.jaxlib} {fault.sentence}"
            for fault in verdict.faults
            if fault.flag == token.name and fault.value == token.value
        ),
        "",
    )
