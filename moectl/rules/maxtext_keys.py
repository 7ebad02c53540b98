"""Rules on the values of single MaxText keys: whether MaxText takes them, whether they count."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import isfinite
from typing import Any

from moectl.errors import nearest, shown
from moectl.facts.maxtext import Catalogue, Key
from moectl.facts.yaml_facts import read
from moectl.resolve.effective import (
    BASE_CONFIG,
    MISSING,
    based_on,
    looked_up,
    model_file,
)
from moectl.resolve.interpolation import InterpolationError, resolved
from moectl.rules import maxtext_model_file, maxtext_names
from moectl.rules.maxtext_names import announced
from moectl.rules.maxtext_words import (
    RUN_FILE,
    all_said,
    catalogue,
    exists,
    write,
)
from moectl.rules.rule import Fault, rules
from moectl.rules.yaml_traps import word_read_as_boolean
from moectl.settings.sources.written import Written
from moectl.values import Origin
from moectl.workload import UNKNOWN, Workload

RULES = rules()
RULES.all.extend(maxtext_names.RULES.all)
RULES.all.extend(maxtext_model_file.RULES.all)
# Letters from which on the start of a name tells which one is meant.
_LEAST_START = 3
_OUTPUT = "base_output_directory"


@RULES.rule(
    "KEY102",
    "value that MaxText does not take",
    reason="pydantic refuses it when the job starts, on every rank.",
    remedy="write a value of the key's type and range",
    source="MaxText 0.2.5 configs/types.py (the key's field)",
    stage="config",
)
def wrong_value(w: Workload) -> Iterator[Fault]:
    """Find values of the wrong type, outside bounds, or not among the names of an enum."""
    keys = catalogue(w)
    if keys is None:
        return
    overruled = model_file(w.config, w.arguments, keys)
    if overruled is UNKNOWN:
        overruled = {}
    for name, value, argument in all_said(w):
        key = keys.key(name) if exists(keys, name, argument=argument) else None
        if key is None or (key.parent and "." not in name) or value.value is UNKNOWN:
            continue
        if not argument and (name in w.arguments or name in overruled):
            continue  # it does not count, so MaxText never looks at it
        if value.value == MISSING:
            if based_on(w.config) is not None and name in keys.base:
                continue  # OmegaConf's word for a value that somebody else gives
            sentence = f"{name} is ???, OmegaConf's word for a value that is still to come"
            yield Fault(name, sentence, value.origin, "write the value")
            continue
        if name == _OUTPUT and not value.value:
            continue  # MaxText writes beside the program then
        if isinstance(value, Written) and value.spot and word_read_as_boolean(key, value):
            continue  # YAML121 says it, with the word as it stands there
        if name == "tokenizer_type" and _chosen_tokenizer(w):
            continue
        taken = _resolved(w, keys, value.value, argument=argument)
        if key.nested and not key.closed and isinstance(taken, Mapping):
            taken = {inner: v for inner, v in taken.items() if keys.key(f"{name}.{inner}")}
        clause = None if taken is UNKNOWN else keys.check(name, taken)
        if clause is None:
            continue
        secret = name in _secrets()
        hint = "" if secret else _legal(w, keys, key, name, value.value)
        if isinstance(value.value, bool) and not {"bool", "any"} & set(key.type.split("|")):
            hint = f"{hint}; a bare on, off, yes or no is a boolean in YAML"
        elif isinstance(value.value, str) and (feature := announced(f"{name} {value.value}")):
            clause += f"; {feature['feature']} is announced, and not in this release yet"
            hint = feature["instead"]
        raw = "that" if secret else shown(value.value)
        sentence = f"{name} cannot be {raw}: MaxText {keys.release} takes {clause}"
        yield Fault(name, sentence, value.origin, hint)


def _legal(w: Workload, keys: Catalogue, key: Key, name: str, value: Any) -> str:
    """Say what to type in place of a value: the nearest legal one, else what base.yml says."""
    choices = [choice for choice in key.choices if str(choice).lower() != "none"]
    if isinstance(value, str) and choices:
        near = _starting(value, choices) or nearest(value, map(str, choices), 1)
        if near:
            return write(w, **{name: near[0]})
    if isinstance(value, int | float) and not isinstance(value, bool):
        for bound, limit in key.bounds.items():
            if (
                bound in {"ge", "le"}
                and keys.check(name, value)
                and not _within(bound, value, limit)
            ):
                return write(w, **{name: limit})
        if keys.check(name, str(value)) is None:
            return write(w, **{name: f'"{value}"'})
        if isfinite(value) and keys.check(name, round(value)) is None:
            return write(w, **{name: round(value)})
    default = keys.default(name) if "." not in name else key.default
    if (
        not key.computed
        and not isinstance(default, list | dict)
        and keys.check(name, default) is None
    ):
        return f"{write(w, **{name: default})}, as MaxText has it, or leave it out"
    return "leave it out"


def _starting(value: str, choices: Collection[Any]) -> list[str]:
    """Return the choices that a value begins with, or that begin with it, the longest first."""
    text = value.casefold()
    if len(text) < _LEAST_START:
        return []
    known = [str(choice) for choice in choices if str(choice)]
    found = [c for c in known if text.startswith(c.casefold()) or c.startswith(text)]
    return sorted(found, key=len, reverse=True)


def _within(bound: str, value: float, limit: float) -> bool:
    return value >= limit if bound == "ge" else value <= limit


def _secrets() -> Collection[str]:
    """Return the keys whose value is nobody's business."""
    names: Mapping[str, str] = read("launch.yaml")["secret_keys"]
    return names


def _resolved(w: Workload, keys: Catalogue, value: Any, *, argument: bool) -> Any:
    """Return a value with its interpolations resolved; UNKNOWN where that cannot be told."""
    look = looked_up({} if argument else w.config, w.arguments, keys, {})
    try:
        return resolved(value, look)
    except InterpolationError:
        return UNKNOWN


def _first(w: Workload) -> Origin:
    """Return where the first key of the file stands."""
    origins = [value.origin for value in w.config.values() if value.origin.line is not None]
    return min(origins, key=lambda o: (o.file, o.line or 0), default=w.origin)


def _chosen_tokenizer(w: Workload) -> bool:
    """Whether MaxText takes the model's tokenizer from Hugging Face, whatever its type says."""
    models = read("maxtext_code.yaml")["hugging_face"]
    if based_on(w.config) is None and w.said("tokenizer_path") is None:
        return False  # the key is not there, so MaxText does not look
    return w.effective.get("tokenizer_path") is None and w.effective.get("model_name") in models


@RULES.rule(
    "KEY107",
    "file without base_config",
    reason="MaxText then starts from the defaults of its source, not from base.yml: hundreds of "
    "values differ, and the run is not what its documentation says.",
    remedy="add base_config: base.yml",
    source="MaxText 0.2.5 configs/pyconfig.py:182",
    severity="note",
    stage="silent",
)
def without_base(w: Workload) -> Iterator[Fault]:
    """Find a MaxText file that builds on nothing."""
    keys = catalogue(w)
    if keys is None or w.kind == RUN_FILE or not w.config:
        return
    said = w.config.get(BASE_CONFIG)
    if said is None or said.value is None:
        sentence = "it names no base_config, so base.yml does not count: only defaults of the code"
        yield Fault(BASE_CONFIG, sentence, _first(w))


@RULES.rule(
    "KEY108",
    "computed value given as input",
    reason="MaxText takes the name, and computes the value anew whatever is said.",
    remedy="take it out; set what it is computed from",
    source="MaxText 0.2.5 configs/types.py:3450 (DerivedValues)",
    severity="warning",
    stage="silent",
)
def computed_value(w: Workload) -> Iterator[Fault]:
    """Find values that MaxText computes."""
    keys = catalogue(w)
    if keys is None:
        return
    for name, value, _ in all_said(w):
        key = keys.key(name)
        if key is not None and key.derived and not key.parent and value.value is not None:
            base = f"base_{name}"
            hint = f"set {base}" if keys.key(base) else ""
            sentence = f"{name} is computed by MaxText; {shown(value.value)} here is ignored"
            yield Fault(name, sentence, value.origin, hint)


@RULES.rule(
    "KEY111",
    "interpolation that leads nowhere",
    reason="${key} stands for another key of the file, and MaxText resolves it when it starts.",
    remedy="name a key of the file or of base.yml, or write the value itself",
    source="MaxText 0.2.5 configs/pyconfig.py:493, OmegaConf",
    stage="config",
)
def dangling_interpolation(w: Workload) -> Iterator[Fault]:
    """Find ${key} where nobody says the key."""
    keys = catalogue(w)
    if keys is None:
        return
    for name, value, argument in all_said(w):
        if (not argument and name in w.arguments) or value.value is UNKNOWN:
            continue
        # The command line is resolved by itself first, then with the file.
        look = looked_up({} if argument else w.config, w.arguments, keys, {})
        try:
            resolved(value.value, look)
        except InterpolationError as error:
            yield Fault(name, f"{name} {error}", value.origin)


@RULES.rule(
    "KEY112",
    "nested key that MaxText drops",
    reason="Under this key MaxText takes the names it knows and drops the rest without a word.",
    remedy="use one of the names that the message gives",
    source="MaxText 0.2.5 configs/types.py:2131",
    stage="silent",
)
def dropped_key(w: Workload) -> Iterator[Fault]:
    """Find names under a key that takes any and knows few."""
    keys = catalogue(w)
    if keys is None:
        return
    for name, value, argument in all_said(w):
        parent, dot, inner = name.partition(".")
        key = keys.key(parent)
        if key is None or not key.nested or key.closed or (dot and not argument):
            continue
        inside = [inner] if dot else value.value if isinstance(value.value, Mapping) else []
        for word in inside:
            if keys.key(f"{parent}.{word}") is None:
                sentence = f"{parent} has no key {shown(word)}, only {', '.join(key.nested)}"
                yield Fault(name, sentence, value.origin)
