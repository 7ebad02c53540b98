"""Every rule between MaxText's keys; most are rows of a table: when these keys, then those keys.

The table is `facts/data/requirements.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import gcd
from typing import Any

from moectl.errors import nearest
from moectl.facts.yaml_facts import read
from moectl.mesh import divisors
from moectl.rules import (
    maxtext_attention,
    maxtext_block,
    maxtext_checks,
    maxtext_later,
    maxtext_mesh,
    maxtext_pipeline,
    maxtext_slices,
    maxtext_topology,
)
from moectl.rules.maxtext_condition import Look, holds, legal, operand, subject
from moectl.rules.maxtext_trainer import PRE_TRAINING, program, trainer
from moectl.rules.maxtext_words import RUN_FILE, catalogue, field, real, typed, whole, write
from moectl.rules.rule import Check, Fault, rules
from moectl.values import Origin
from moectl.workload import UNKNOWN, Workload

__all__ = ["RULES", "holds", "rows"]

TABLE = "requirements.yaml"
FLAGS = "XLA_FLAGS"
_STAGES = {
    "config": "MaxText refuses it",
    "later": "MaxText's config check passes it, and the run dies after start-up",
    "silent": "it runs, and computes something else",
    "advice": "it runs",
}
RULES = rules()
# The rules that are arithmetic, and so stand in no table.
_ARITHMETIC = (
    maxtext_mesh,
    maxtext_slices,
    maxtext_topology,
    maxtext_pipeline,
    maxtext_attention,
    maxtext_block,
    maxtext_checks,
    maxtext_later,
)


def rows() -> list[dict[str, Any]]:
    """Return the rows of the table."""
    found: list[dict[str, Any]] = read(TABLE)["rules"]
    return found


def _faults(row: Mapping[str, Any], w: Workload) -> Iterator[Fault]:
    """Yield a fault for every requirement of a row that a workload does not meet."""
    if not w.is_maxtext or ("kinds" in row and w.kind not in row["kinds"]):
        return
    seen = _started(row, w)
    if seen is False:
        return
    look = partial(_look, w)
    for key, want in row["when"].items():
        if holds(subject(key, look), want, look) is not True:
            return
    for key, want in row.get("need", {}).items():
        if holds(subject(key, look), want, look) is False and not _by_variable(row, w):
            fault = _fault(row, w, key, want, look)
            yield fault if seen else replace(fault, severity="note")
    if "need_any" in row:
        yield from _none_of(row, w, look)


def _started(row: Mapping[str, Any], w: Workload) -> bool | None:
    """Whether the program is started that a row is about; None where no program is seen."""
    if "program" not in row or w.kind in {PRE_TRAINING, RUN_FILE}:
        return True
    module = program(w)
    return None if module is None else module.startswith(row["program"])


def _look(w: Workload, key: str) -> Any:
    """Return what counts for a key; UNKNOWN also for one that the release does not have."""
    derived = w.derived.get(key, w)
    if derived is not w:
        return derived
    if key == FLAGS:
        return w.flags.text.strip() if w.flags is not None and w.flags.known else UNKNOWN
    return w.effective.get(key, UNKNOWN)


def _by_variable(row: Mapping[str, Any], w: Workload) -> bool:
    """Whether a variable, or what may be one, does what the key would."""
    return row.get("or_variable", "") in w.environment


def _none_of(row: Mapping[str, Any], w: Workload, look: Look) -> Iterator[Fault]:
    answers = []
    for alternative in row["need_any"]:
        met = [holds(subject(key, look), want, look) for key, want in alternative.items()]
        answers.append(False if False in met else UNKNOWN if UNKNOWN in met else True)
    if all(answer is False for answer in answers):
        key, want = next(iter(row["need_any"][0].items()))
        yield _fault(row, w, key, want, look)


def _fault(row: Mapping[str, Any], w: Workload, key: str, want: Any, look: Look) -> Fault:
    names = _names(key, want)
    name = field(w, _owner(names[0]))
    value = subject(key, look)
    stated = f"{key.replace('*', ' x ')} is {_said(value)}"
    if not (_plain(want) or _forbidden(want)):
        stated += f", and must be {legal(want, look)}"
    message = f"{row['title']}: {stated}. {_sentence(row)}"
    return Fault(name, message, _origin(row, w, names), _hint(row, w, key, want, look))


def _owner(name: str) -> str:
    """Return the key to change for a name: itself, or the key that MaxText derives it from."""
    found: str = read(TABLE)["derived"].get(name, name)
    return found


def _names(key: str, want: Any) -> list[str]:
    """Return the keys that a requirement speaks of, the subject's first."""
    names = key.split("*")
    for bound in want.values() if isinstance(want, Mapping) else ():
        if isinstance(bound, Mapping):
            (_, inner), *_ = bound.items()
            names += [
                n for n in (inner if isinstance(inner, list) else [inner]) if isinstance(n, str)
            ]
    return names


def _plain(want: Any) -> bool:
    return not isinstance(want, Mapping | list)


def _forbidden(want: Any) -> bool:
    """Whether a requirement only forbids values, so that the message has said it already."""
    return isinstance(want, Mapping) and set(want) == {"not"}


def _said(value: Any) -> str:
    return "not set" if value in (None, "", []) else str(typed(value))


def _origin(row: Mapping[str, Any], w: Workload, names: list[str]) -> Origin:
    """Return where the fault is mended best: the key itself, else what brings it up."""
    others = [name for key in row["when"] for name in key.split("*")]
    for name in (*names, *map(_owner, names), *others):
        if (said := w.said(name)) is not None:
            return said.origin
    model = w.effective.get("model_name")
    if w.kind == RUN_FILE:
        return Origin(f"MaxText {w.maxtext}, model {model}")
    return w.where(*names, *others, "model_name")


def _hint(row: Mapping[str, Any], w: Workload, key: str, want: Any, look: Look) -> str:
    suggested = row.get("suggest", {key: want})
    name, value = next(iter(suggested.items()))
    if key in suggested:
        name, value = key, suggested[key]
    elif name in row.get("need", {}):
        name, value = key, want  # it is about another requirement of the row
    if isinstance(value, Mapping) and set(value) == {"eq"}:
        value = operand(value["eq"], look)
    if not isinstance(value, Mapping | list) and "*" not in name and value is not UNKNOWN:
        return write(w, **{name: value})
    wish = f"{key.replace('*', ' x ')} must be {legal(want, look)}"
    if w.kind == RUN_FILE:
        return wish
    typed_ones = [
        write(w, **{factor: found})
        for factor in key.split("*")
        if (found := _legal_value(w, key, factor, want, look)) is not UNKNOWN
    ]
    return f"{' or '.join(typed_ones)} ({wish})" if typed_ones else wish


def _legal_value(w: Workload, key: str, factor: str, want: Any, look: Look) -> Any:
    """Return the legal value of a factor that is nearest to what it is; UNKNOWN if none is told."""
    now = look(factor)
    names = key.split("*")
    others = subject("*".join(n for n in names if n != factor), look) if names[1:] else 1
    if not real(others) or others <= 0:
        return UNKNOWN
    legal_ones = [
        value
        for value in _candidates(w, factor, want, look, now, others)
        if value != now and _takes(w, factor, value) and _meets(value, others, want, look)
    ]
    if real(now) and all(real(value) for value in legal_ones):
        return min(legal_ones, key=lambda value: abs(value - now), default=UNKNOWN)
    if isinstance(now, str) and now:
        near = nearest(now, [value for value in legal_ones if isinstance(value, str)], 1)
        legal_ones = [*near, *legal_ones]
    return next(iter(legal_ones), UNKNOWN)


def _meets(value: Any, others: Any, want: Any, look: Look) -> bool:
    product = value * others if others != 1 and real(value) else value
    return holds(product, want, look) is True


def _candidates(
    w: Workload, factor: str, want: Any, look: Look, now: Any, others: Any
) -> Iterator[Any]:
    """Yield values that a condition may want, the likeliest first."""
    if isinstance(want, list):
        yield from (value for value in want if value not in (None, ""))
        return
    keys = catalogue(w)
    if keys is not None and keys.key(factor) is not None:
        yield keys.default(factor)
    if want == {"set": False}:
        yield from (False, None, "", 0, -1)
        return
    for name, bound in want.items() if isinstance(want, Mapping) else ():
        limit: Any = operand(bound, look) if not isinstance(bound, list) else UNKNOWN
        if not real(limit):
            continue
        if name in {"le", "ge"} and others == 1:
            yield limit
        if whole(limit, others):
            whole_now = now if whole(now) else 1
            yield from _near(whole_now, others, name, limit)


def _near(now: int, others: int, name: str, limit: int) -> list[int]:
    """Return whole values near `now` whose product with `others` may meet a comparison."""
    match name:
        case "le":
            return [limit // others]
        case "lt":
            return [(limit - 1) // others]
        case "ge":
            return [-(-limit // others)]
        case "gt":
            return [limit // others + 1]
        case "multiple_of" if limit > 0:
            step = limit // gcd(limit, others)
            return [v for v in (-(-now // step) * step, now // step * step, step) if v > 0]
        case "divides" if limit > 0:
            return [*divisors(limit)]
        case _:
            return []


def _takes(w: Workload, key: str, value: Any) -> bool:
    """Whether a key takes a value, so that it can be proposed; what MaxText derives is no key."""
    keys = catalogue(w)
    known = keys.key(key) if keys is not None else None
    return (
        keys is not None
        and known is not None
        and not known.derived
        and keys.check(key, value) is None
    )


def _sentence(row: Mapping[str, Any]) -> str:
    reason = row["reason"]
    return f"{reason[0].upper()}{reason[1:]}; {_STAGES[row['stage']]} ({row['source']})."


def _of_pre_training(check: Check | None, w: Workload) -> Iterator[Fault]:
    """Yield what a check finds, unless another program's config has other checks."""
    if check is not None and trainer(w) is None:
        yield from check(w)


def _remedy(row: Mapping[str, Any]) -> str:
    """Say what a row wants where it is no single value."""
    wants = [row["need"]] if "need" in row else row["need_any"]
    said = [
        " and ".join(
            f"{key.replace('*', ' x ')} {legal(want, _unknown)}" for key, want in one.items()
        )
        for one in wants
    ]
    return "; or ".join(said)


def _unknown(key: str) -> Any:
    del key
    return UNKNOWN


def _declare() -> None:
    for row in rows():
        name, value = next(iter(row.get("suggest", row.get("need") or {"": ""}).items()))
        plain = isinstance(value, str | int | float | bool)
        RULES.rule(
            row["code"],
            row["title"],
            reason=row["reason"],
            remedy=f"e.g. {name}: {typed(value)}" if name and plain else _remedy(row),
            source=row["source"],
            severity=row.get("severity", "error"),
            stage=row["stage"],
        )(partial(_faults, row))


_declare()
RULES.all.extend(rule for module in _ARITHMETIC for rule in module.RULES.all)
RULES.all[:] = [replace(rule, check=partial(_of_pre_training, rule.check)) for rule in RULES.all]
