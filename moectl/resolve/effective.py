"""The values MaxText ends up with, from what YAML, model file and command line say.

The order is that of MaxText 0.2.5 configs/pyconfig.py `_initialize_pydantic`: base.yml (when the
YAML is based on it), the YAML, the model's own file, the command line. Values come out as
pydantic makes them ('6' is 6); what cannot be told, or MaxText would refuse, is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moectl.facts.maxtext import Catalogue
from moectl.resolve.coercion import coerce
from moectl.resolve.interpolation import START, Absent, InterpolationError, Look, resolved
from moectl.values import Value
from moectl.workload import UNKNOWN

BASE = "base.yml"
BASE_CONFIG = "base_config"
MODEL = "model_name"
OVERRIDE = "override_model_config"
OUTPUT = "base_output_directory"
OUTPUT_DEFAULT = "maxtext_output"  # configs/pyconfig.py:104, in the working directory
AXIS_RULES = "logical_axis_rules"
REPLACES_RULES = "override_logical_axis_rules"
NO_MODEL = "default"
MISSING = "???"  # OmegaConf: somebody else gives the value


@dataclass(frozen=True, slots=True)
class Lost:
    """A key of the YAML, or of the command line, that the model file sets as well.

    Attributes:
        key: its name.
        said: what the file or the command line says.
        model: what the model file says.
        differs: whether the two values differ.
    """

    key: str
    said: Value
    model: Any
    differs: bool


def effective(
    config: Mapping[str, Value], arguments: Mapping[str, Value], catalogue: Catalogue
) -> dict[str, Any]:
    """Return every key of the release with the value that counts.

    Args:
        config: what the YAML says, its `base_config` chain included; `base_config` itself
            names what the chain ends at.
        arguments: what the command line says, nested keys as `parent.name`.
        catalogue: keys of the release.

    Returns:
        Key to value. A value nobody can tell is UNKNOWN; a key that the release does not have
        is not there.
    """
    base = based_on(config)
    values = dict(_defaults(catalogue, all_of_them=base is None))
    if base is UNKNOWN:
        values |= dict.fromkeys(catalogue.base, UNKNOWN)
    elif base is not None:
        values |= catalogue.base
    values |= _coerced(config, catalogue)
    model = model_file(config, arguments, catalogue)
    if model is UNKNOWN:
        values |= dict.fromkeys(_any_model(catalogue), UNKNOWN)
    else:
        values |= {key: _taken(key, value, catalogue) for key, value in model.items()}
    values |= _coerced(arguments, catalogue)
    values[AXIS_RULES] = _axis_rules(config, arguments, catalogue, model)
    known = {} if model is UNKNOWN else model
    _interpolate(values, looked_up(config, arguments, catalogue, known), catalogue)
    if not values.get(OUTPUT):
        values[OUTPUT] = OUTPUT_DEFAULT
    return values


def based_on(config: Mapping[str, Value]) -> Any:
    """Return the name of MaxText's file that a YAML builds on, None without one.

    UNKNOWN for a file of MaxText's own other than base.yml, whose values are not known here.
    """
    said = config.get(BASE_CONFIG)
    if said is None or said.value is None:
        return None
    if not isinstance(said.value, str) or START in said.value:
        return UNKNOWN
    return BASE if said.value.rpartition("/")[2] == BASE else UNKNOWN


def model_name(config: Mapping[str, Value], arguments: Mapping[str, Value]) -> Any:
    """Return the model name that decides which model file is read."""
    said = arguments.get(MODEL) or config.get(MODEL)
    if said is None:
        return NO_MODEL
    return UNKNOWN if isinstance(said.value, str) and START in said.value else said.value


def model_file(
    config: Mapping[str, Value], arguments: Mapping[str, Value], catalogue: Catalogue
) -> Any:
    """Return what the model file sets; empty without one, UNKNOWN with an unknown name."""
    name = model_name(config, arguments)
    if name is UNKNOWN:
        return UNKNOWN
    if name == NO_MODEL or not isinstance(name, str):
        return {}
    return catalogue.model(name) or {}


def lost(
    config: Mapping[str, Value], arguments: Mapping[str, Value], catalogue: Catalogue
) -> Iterator[Lost]:
    """Yield the keys of the YAML that the model file overrules without a word.

    The command line overrules both, so a key that it sets too is not lost to the model.
    """
    model = model_file(config, arguments, catalogue)
    if model is UNKNOWN:
        return
    for key, said in config.items():
        if key in model and key not in arguments and key != AXIS_RULES:
            yield _compared(key, said, model[key], catalogue)


def clashes(
    config: Mapping[str, Value], arguments: Mapping[str, Value], catalogue: Catalogue
) -> Iterator[Lost]:
    """Yield the arguments that contradict the model file; MaxText refuses them.

    It compares raw values (configs/pyconfig.py validate_no_keys_overridden_twice), and lets
    the command line win when override_model_config is said.
    """
    model = model_file(config, arguments, catalogue)
    if model is UNKNOWN or overrides_model(config, arguments) is not False:
        return
    for key, said in arguments.items():
        if key in model and said.value is not UNKNOWN and not _same(model[key], said.value):
            yield Lost(key, said, model[key], differs=True)


def overrides_model(config: Mapping[str, Value], arguments: Mapping[str, Value]) -> Any:
    """Return whether the command line wins over the model file; UNKNOWN if that is open.

    MaxText looks at the raw value, so the text "false" is true.
    """
    said = arguments.get(OVERRIDE) or config.get(OVERRIDE)
    if said is None:
        return False
    return UNKNOWN if said.value is UNKNOWN else bool(said.value)


def _taken(name: str, value: Any, catalogue: Catalogue) -> Any:
    key = catalogue.key(name)
    return UNKNOWN if key is None else coerce(key, value)


def _coerced(said: Mapping[str, Value], catalogue: Catalogue) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in said.items():
        key = catalogue.key(name)
        if key is not None and not key.parent and value.value != MISSING:
            found[name] = coerce(key, value.value)
    return found


# Per catalogue: the defaults of the source, and those of keys that base.yml does not set.
_DEFAULTS: dict[int, tuple[Catalogue, dict[str, Any]]] = {}


def _defaults(catalogue: Catalogue, *, all_of_them: bool) -> Mapping[str, Any]:
    """Return the defaults of the source; those that base.yml hides cost more, and few ask."""
    held = _DEFAULTS.get(id(catalogue))
    if held is not None and held[0] is catalogue and not all_of_them:
        return held[1]
    found = {
        name: UNKNOWN if key.computed else key.default
        for name in catalogue.keys()  # noqa: SIM118 - a catalogue is no mapping
        if (all_of_them or name not in catalogue.base) and (key := catalogue.key(name))
    }
    if not all_of_them:
        _DEFAULTS[id(catalogue)] = (catalogue, found)
    return found


def _any_model(catalogue: Catalogue) -> set[str]:
    """Return the keys that some model file sets."""
    return {key for name in catalogue.models() for key in catalogue.model(name) or {}}


def _axis_rules(
    config: Mapping[str, Value],
    arguments: Mapping[str, Value],
    catalogue: Catalogue,
    model: Any,
) -> Any:
    """Return the logical axis rules: those of the model and the command line replace by name.

    MaxText 0.2.5 configs/pyconfig.py `_apply_rules`; a list in the YAML replaces base.yml's.
    """
    said = config.get(AXIS_RULES)
    rules: Any = said.value if said else catalogue.base.get(AXIS_RULES) if based_on(config) else []
    if model is UNKNOWN or based_on(config) is UNKNOWN:
        return UNKNOWN
    layers: list[Mapping[str, Any]] = [
        model,
        {key: value.value for key, value in arguments.items()},
    ]
    for layer in layers:
        new = layer.get(AXIS_RULES) or []
        if not (_are_rules(rules) and _are_rules(new)):
            return UNKNOWN
        if layer.get(REPLACES_RULES):
            rules = new
        elif new:
            named = {rule[0] for rule in new}
            rules = [*(rule for rule in rules if rule[0] not in named), *new]
    return rules


def _are_rules(rules: Any) -> bool:
    """Whether MaxText can look at the first of every rule; a text counts by its first letter."""
    return isinstance(rules, list) and all(
        isinstance(rule, list | str) and rule and not isinstance(rule[0], list | dict)
        for rule in rules
    )


def looked_up(
    config: Mapping[str, Value],
    arguments: Mapping[str, Value],
    catalogue: Catalogue,
    model: Mapping[str, Any],
) -> Look:
    """Return a function that gives the raw value of a key, or raises Absent."""
    based = based_on(config)

    def look(key: str) -> Any:
        if key in arguments:
            return arguments[key].value
        if key in model:
            return model[key]
        if key in config:
            return config[key].value
        if based is UNKNOWN:
            return UNKNOWN
        if based is not None and key in catalogue.base:
            return catalogue.base[key]
        raise Absent

    return look


def _interpolate(values: dict[str, Any], look: Look, catalogue: Catalogue) -> None:
    """Resolve what refers to other keys; what cannot be told is UNKNOWN."""
    for name, value in values.items():
        if isinstance(value, str) and START in value:
            try:
                values[name] = _taken(name, resolved(value, look), catalogue)
            except InterpolationError:
                values[name] = UNKNOWN


def _compared(key: str, said: Value, model: Any, catalogue: Catalogue) -> Lost:
    raw = said.value
    if raw is UNKNOWN or (isinstance(raw, str) and START in raw):
        return Lost(key, said, model, differs=False)
    ours, theirs = _taken(key, raw, catalogue), _taken(key, model, catalogue)
    return Lost(key, said, model, differs=not _same(ours, theirs))


def _same(one: Any, other: Any) -> bool:
    """Compare as MaxText does: true is 1, and 1 is 1.0."""
    return bool(one == other)
