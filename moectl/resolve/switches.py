"""Expands the named switches into flags, variables and remat keys of the chosen release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from moectl.errors import UsageError, shown
from moectl.facts.xla import XlaCatalogue, in_releases
from moectl.facts.yaml_facts import read
from moectl.settings.flatten import place, raise_all
from moectl.settings.setting import Setting
from moectl.values import Origin


def expand(settings: Iterable[Setting], xla: XlaCatalogue) -> list[Setting]:
    """Return `settings` with what the switches in it become, at the switch's own force.

    The effects stand before everything else, so that an explicit flag or variable of the same
    force wins only by being equal: a different one is refused, because nobody could tell which
    was meant.

    Raises:
        UsageError: a switch the jaxlib release has no flag for, or a contradiction.
    """
    said = list(settings)
    effects: list[Setting] = []
    faults: list[UsageError] = []
    for setting in _switches(said):
        name = setting.path.split(".")[1]
        row: dict[str, Any] = read("switches.yaml")["switches"][name]
        words = _words(setting.value)
        if words is None:
            continue
        missing = [flag for flag in row.get("flags", {}) if not xla.has(flag)]
        faults.extend(_refusal(setting, name, flag, xla) for flag in missing)
        effects += _effects(setting, name, row, words)
    faults += _contradictions(effects, said)
    raise_all(faults)
    return [*effects, *said]


def _switches(said: list[Setting]) -> list[Setting]:
    """Return one setting a switch, the strongest; the parts of a section are gathered."""
    paths = {
        setting.path: setting
        for setting in sorted(said, key=lambda s: s.layer)
        if setting.path.startswith("switches.")
    }
    found: dict[str, Setting] = {}
    parts: dict[str, dict[str, Any]] = {}
    for path, setting in paths.items():
        _, name, *part = path.split(".")
        if part:
            parts.setdefault(name, {})[part[0]] = setting.value
            setting = replace(setting, path=f"switches.{name}", value=parts[name])  # noqa: PLW2901
        if name not in found or found[name].layer <= setting.layer:
            found[name] = setting
    return list(found.values())


def _words(value: Any) -> dict[str, Any] | None:
    """Return what `{...}` in an effect may name; None for a switch that is off."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        defaults = {"runs": 3, "percentile": 90}
        return {**defaults, **value} if value.get("enabled") else None
    if isinstance(value, list):
        return {"joined": ",".join(map(str, value)), "items": value}
    return {"value": value, "several": not isinstance(value, bool) and value > 1}


def _effects(
    setting: Setting, name: str, row: Mapping[str, Any], words: Mapping[str, Any]
) -> list[Setting]:
    source = setting.origin
    origin = Origin(f"switch {name} ({source.layer})", source.file, source.line, source.column)

    def effect(path: str, value: Any) -> Setting:
        return Setting(path, value, setting.layer, origin)

    found = [
        effect(f"xla_flags.{flag}", _filled(value, words))
        for flag, value in row.get("flags", {}).items()
    ]
    found += [
        effect(f"environment.{variable}", str(_filled(value, words)))
        for variable, value in row.get("environment", {}).items()
    ]
    found += [effect(path, value) for path, value in row.get("settings", {}).items()]
    for path, value in row.get("each", {}).items():
        found += [effect(path.format(item=item), value) for item in words["items"]]
    return found


def _filled(template: Any, words: Mapping[str, Any]) -> Any:
    """Return the word a template names, keeping its type."""
    if isinstance(template, str) and template.startswith("{") and template.endswith("}"):
        return words[template[1:-1]]
    return template


def _refusal(setting: Setting, name: str, flag: str, xla: XlaCatalogue) -> UsageError:
    known = ", ".join(in_releases(flag)) or "none catalogued"
    return UsageError(
        f"{place(setting.origin)}: switches.{name} needs {flag}, which jaxlib {xla.release} "
        f"does not have (known to: {known}); leave the switch out for this image"
    )


def _contradictions(effects: list[Setting], said: list[Setting]) -> list[UsageError]:
    made = {(effect.path, effect.layer): effect for effect in effects}
    faults = []
    for setting in said:
        effect = made.get((setting.path, setting.layer))
        if effect is not None and str(effect.value) != str(setting.value):
            faults.append(
                UsageError(
                    f"{place(setting.origin)}: {setting.path} is {shown(setting.value)}, but "
                    f"{effect.origin.layer} makes it {shown(effect.value)}; say one of them"
                )
            )
    return faults
