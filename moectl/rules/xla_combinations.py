"""Turns a fact file of combinations into rules; see `moectl.rules.xla_conditions` for `when`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from moectl.errors import shown
from moectl.findings import Severity
from moectl.resources import fact
from moectl.rules.rule import Check, Fault, Rule, Stage
from moectl.rules.xla_conditions import View, holds
from moectl.workload import UNKNOWN, Workload

RUN_FILE: Final = "run file"
_LONGEST: Final = 60  # of a value inside a message


@dataclass(frozen=True, slots=True)
class Case:
    """One combination.

    Attributes:
        when: conditions that must all hold.
        at: names the finding points to, the first that is said.
        message: what is wrong; {NAME} stands for a value.
        remedy: what to do, where it differs from the rule's.
        severity: where it differs from the rule's.
        in_run_file: what to type where a run file says it.
    """

    when: tuple[str, ...]
    at: tuple[str, ...]
    message: str
    remedy: str
    severity: Severity | None
    in_run_file: str


def combinations(*path: str) -> list[Rule]:
    """Return the rules of a fact file, e.g. ("xla", "combinations.txt")."""
    stanzas = _stanzas(fact(*path).read_text("utf-8"))
    cases: dict[str, list[Case]] = {}
    for stanza in stanzas:
        cases.setdefault(stanza["code"], []).append(_case(stanza))
    return [
        Rule(
            stanza["code"],
            stanza["title"],
            stanza["reason"],
            stanza["remedy"],
            stanza["source"],
            cast(Severity, stanza["severity"]),
            cast(Stage, stanza["stage"]),
            _check(tuple(cases[stanza["code"]])),
        )
        for stanza in stanzas
        if "title" in stanza
    ]


def _stanzas(text: str) -> list[dict[str, str]]:
    """Read `name: value` lines; an empty line ends a stanza, repeats are joined by line breaks."""
    found: list[dict[str, str]] = [{}]
    for line in text.splitlines():
        if not line:
            found.append({})
        elif not line.startswith("#"):
            name, _, value = line.partition(": ")
            held = found[-1].get(name)
            found[-1][name] = value if held is None else f"{held}\n{value}"
    return [stanza for stanza in found if stanza]


def _case(stanza: dict[str, str]) -> Case:
    own = "title" not in stanza
    return Case(
        tuple(stanza["when"].split("\n")),
        tuple(stanza["at"].split()),
        stanza["message"],
        stanza.get("remedy", "") if own else "",
        cast(Severity, stanza["severity"]) if own else None,
        stanza.get("run file", ""),
    )


def _check(cases: tuple[Case, ...]) -> Check:
    def check(w: Workload) -> Iterator[Fault]:
        view = view_of(w)
        for case in cases:
            if all(holds(condition, view) for condition in case.when):
                yield _fault(case, view)
                return

    return check


_LAST: list[View] = []


def view_of(w: Workload) -> View:
    """Return the view of a workload; the rules of one workload share it."""
    if not _LAST or _LAST[0].workload is not w:
        _LAST[:] = [View(w)]
    return _LAST[0]


def _fault(case: Case, view: View) -> Fault:
    places = ((name, view.place(name)) for name in case.at)
    field, origin = next(
        ((name, origin) for name, origin in places if origin is not None),
        (case.at[0], view.workload.origin),
    )
    remedy = case.in_run_file if view.workload.kind == RUN_FILE else ""
    message = _filled(case.message, view)
    return Fault(field, message, origin, remedy or case.remedy, case.severity)


def _filled(message: str, view: View) -> str:
    parts = message.split("{")
    text = parts[0]
    for part in parts[1:]:
        name, _, rest = part.partition("}")
        text += _value(name, view) + rest
    return text


def _value(name: str, view: View) -> str:
    """Return a value as it stands in a message."""
    if name == "XLA_FLAGS_BAKED":
        image = view.workload.image
        lost = {} if image is None else image.baked_flags
        return " ".join(f"--{flag}" for flag in lost if flag not in view.flags.values)
    for single in name.split("|"):
        found: Any = view.flags.values.get(single)
        if found is None and single in view.workload.environment:
            found = view.value("var", single)
        if found is None:
            found = view.workload.value(single)
        if found is None and hasattr(view.workload.layout, single):
            found = view.value("layout", single)
        if found is None and single.startswith("xla_"):
            found = view.value("flag", single)
        if found is not None:
            return _plain(found)
    return "none"


def _plain(value: Any) -> str:
    if value is UNKNOWN:
        return "…"
    text = shown(value, _LONGEST)
    inner = text[1:-1] if text[:1] in {"'", '"'} and text[-1:] == text[:1] else text
    return inner or "nothing"
