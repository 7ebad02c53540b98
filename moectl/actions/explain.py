"""Explains a name: the code of a finding, a MaxText key, an XLA flag, a variable, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from moectl.errors import UnknownNameError, ValueUsageError
from moectl.facts import environment, hardware, xla_lore
from moectl.facts import maxtext as maxtext_facts
from moectl.facts import xla as xla_facts
from moectl.facts.xla_flag import XlaFlag
from moectl.facts.yaml_facts import read
from moectl.findings import SEVERITIES
from moectl.rules.rule import STAGES, Rule
from moectl.settings.files import preset_names
from moectl.settings.options import owning_path
from moectl.spec.table import Field, table

# `Key.legal` names that many choices itself.
SHOWN_CHOICES = 20

Answer: TypeAlias = dict[str, Any]
"""What is known of a name: `name`, `kind`, and what that kind has to say, empty things left out."""


def explain(name: str) -> list[Answer]:
    """Return everything that a name may stand for.

    Args:
        name: a code ("XLA101"), a family or beginning of codes ("XLA", "XLA1"), a MaxText key,
            a path of the run file, an XLA flag with or without dashes, an environment
            variable, a preset, a platform. "=value" behind a name is left out.

    Raises:
        UnknownNameError: it stands for nothing; the nearest names of all kinds are given.
        ValueUsageError: it is empty.
    """
    bare = name.strip().lstrip("-").partition("=")[0].strip()
    if not bare:
        raise ValueUsageError("a name", name, "a code, MaxText key, XLA flag or variable")
    found = [answer for known in _KINDS for answer in known(bare)]
    if not found:
        raise UnknownNameError("name", bare, _all_names())
    return [{key: value for key, value in one.items() if _says(key, value)} for one in found]


def families() -> list[Answer]:
    """Return every family of codes, with how many of each severity it has."""
    grouped: dict[str, list[Rule]] = {}
    for code, rule in rules().items():
        grouped.setdefault(_family(code), []).append(rule)
    return [
        {
            "name": family,
            "codes": len(members),
            **{
                f"{severity}s": sum(rule.severity == severity for rule in members)
                for severity in SEVERITIES
            },
            "first": members[0].title,
        }
        for family, members in sorted(grouped.items())
    ]


def rules() -> dict[str, Rule]:
    """Return every rule by code, those about suppressions included."""
    from moectl.actions.prove_rules import RULES as PROOFS  # noqa: PLC0415
    from moectl.rules.registry import all_rules  # noqa: PLC0415 - imports every rule
    from moectl.suppress import RULES  # noqa: PLC0415

    return {**all_rules(), **{rule.code: rule for rule in (*RULES.all, *PROOFS.all)}}


def _codes(name: str) -> Iterator[Answer]:
    from moectl.suppress import covers  # noqa: PLC0415

    code = name.upper()
    known = rules()
    if code in known:
        rule = known[code]
        yield {
            "name": code,
            "kind": "rule",
            "title": rule.title,
            "severity": rule.severity,
            "stage": rule.stage,
            "means": STAGES[rule.stage],
            "reason": rule.reason,
            "remedy": rule.remedy,
            "source": rule.source,
            "suppress": f"# moectl: ignore[{code}]",
        }
        return
    members = [rule for one, rule in known.items() if covers(code, one)]
    if members:
        yield {
            "name": code,
            "kind": "family of rules",
            "codes": [
                {"code": rule.code, "severity": rule.severity, "title": rule.title}
                for rule in members
            ],
        }


def _maxtext_keys(name: str) -> Iterator[Answer]:
    knowing = {
        release: catalogue
        for release in maxtext_facts.releases()
        if (catalogue := maxtext_facts.load(release)).key(name) is not None
    }
    if not knowing:
        yield from _foreign_keys(name)
        return
    newest = list(knowing.values())[-1]
    key = newest.key(name)
    assert key is not None  # noqa: S101 - just asked
    owner = "" if key.parent else owning_path(key.name, newest)
    field = table().field(owner) if owner else None
    models = [
        model for model in newest.models() if key.name in (newest.model(model) or {})
    ]  # a model file wins over a YAML file
    yield {
        "name": key.path,
        "kind": "MaxText key",
        "about": field.doc if field is not None and field.maxtext else "",
        "type": key.type,
        "legal": key.legal,
        "values": [] if len(key.choices) <= SHOWN_CHOICES else list(map(str, key.choices)),
        "default": None if key.parent else newest.default(key.name),
        "computed": key.computed,
        "under": key.parent,
        "run file": owner,
        "declared": f"maxtext/{key.where}" if key.where else "",
        "releases": list(knowing),
        "unknown to": [r for r in maxtext_facts.releases() if r not in knowing],
        "set by model files": models,
    }


def _foreign_keys(name: str) -> Iterator[Answer]:
    """Yield what stands in MaxText for a name that it does not have."""
    for section, rows in read("maxtext_names.yaml").items():
        if isinstance(rows, Mapping) and isinstance(instead := rows.get(name), str):
            kind = "former MaxText key" if section == "renamed" else "not a MaxText key"
            yield {"name": name, "kind": kind, "instead": instead}


def _run_file_paths(name: str) -> Iterator[Answer]:
    field = table().fields.get(name)
    if field is not None:
        yield {
            "name": name,
            "kind": "run-file path",
            "about": field.doc,
            "type": field.kind,
            "legal": _legal(field),
            "default": field.default,
            "MaxText key": field.maxtext,
        }


def _legal(field: Field) -> str:
    if field.choices:
        said = ", ".join(map(str, field.choices))
    else:
        low = "" if field.minimum is None else f"{'above' if field.exclusive else 'from'} "
        low += "" if field.minimum is None else f"{field.minimum:g}"
        high = "" if field.maximum is None else f"to {field.maximum:g}"
        said = " ".join(filter(None, (low, high))) or field.pattern
    return f"{said or 'anything'}, or null" if field.nullable else said


def _xla_flags(name: str) -> Iterator[Answer]:
    knowing = xla_facts.in_releases(name)
    gone = xla_lore.gone(name)
    if not knowing and gone is None:
        return
    flags = {release: _flag(release, name) for release in knowing}
    newest = flags[knowing[-1]] if knowing else None
    yield {
        "name": name,
        "kind": "XLA flag",
        "type": _flag_type(newest) if newest else "",
        "values": list(newest.accepts) if newest else [],
        "default": {r: _default(flag) for r, flag in flags.items()} or None,
        "releases": list(knowing),
        "unknown to": [release for release in xla_facts.releases() if release not in knowing],
        "sane": _sane(name),
        "last known to": f"jaxlib {gone.last}" if gone is not None and gone.last else "",
        "advice": gone.advice if gone is not None else "",
        "source": gone.source if gone is not None else "",
    }


def _flag(release: str, name: str) -> XlaFlag:
    flag = xla_facts.load(release).flag(name)
    assert flag is not None  # noqa: S101 - the release was found by the name
    return flag


def _sane(name: str) -> str:
    """Return the numbers of a flag that can be meant; its parser takes more."""
    sane = xla_lore.sane_range(name)
    return "" if sane is None else f"{sane.low} to {sane.high}: {sane.meaning}"


def _flag_type(flag: XlaFlag) -> str:
    if flag.list_of:
        return f"list of {flag.list_of}" + (", or edits (+X, -X)" if flag.edits else "")
    return "enum" if flag.accepts else flag.parser_type


def _default(flag: XlaFlag) -> object:
    if flag.unset:
        return "left to XLA's code"
    return "not known" if flag.default is None else flag.default


def _variables(name: str) -> Iterator[Answer]:
    catalogue = environment.load()
    found = catalogue.variable(name)
    if found is None:
        return
    known = catalogue.exists(name) or name == found.name
    slip = catalogue.misspelt(name)
    yield {
        "name": name,
        "kind": "environment variable",
        "about": found.note,
        "read by": found.owner,
        "type": found.kind,
        "legal": found.says or found.legal,
        "default": found.default or None,
        "anything else": found.otherwise,
        "status": "" if found.status == "active" else found.status,
        "instead": found.instead,
        "secret": found.secret,
        "since": {choice: f"jaxlib {release}" for choice, release in found.since.items()},
        "known as": "" if known else f"one of {found.name}, not by itself",
        "near": [slip] if slip else [] if known else catalogue.nearest(name),
        "source": found.source,
    }


def _shows(name: str) -> Iterator[Answer]:
    """Yield the command that shows a preset or a platform."""
    if name in preset_names():
        yield {"name": name, "kind": "preset", "command": f"moectl presets show {name}"}
    try:
        platform = hardware.platform(name)
    except UnknownNameError:
        return
    yield {
        "name": platform.name,
        "kind": "hardware",
        "about": platform.title,
        "command": f"moectl hardware show {platform.name}",
    }


_KINDS: tuple[Callable[[str], Iterator[Answer]], ...] = (
    _codes,
    _maxtext_keys,
    _run_file_paths,
    _xla_flags,
    _variables,
    _shows,
)


def _all_names() -> Iterable[str]:
    yield from rules()
    yield from dict.fromkeys(map(_family, rules()))
    for release in maxtext_facts.releases():
        yield from maxtext_facts.load(release).keys()
    yield from table().fields
    for release in xla_facts.releases():
        yield from xla_facts.load(release).names()
    yield from environment.load().names()
    yield from preset_names()
    yield from hardware.names()


def _family(code: str) -> str:
    return code.rstrip("0123456789")


def _says(label: str, value: object) -> bool:
    """Whether a row has anything to say; a default of false or "" does."""
    if value is None or label == "default":
        return value is not None
    return value is not False and value not in ("", [], {})
