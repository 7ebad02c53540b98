"""Merges settings by force: the strongest wins, the weaker ones are remembered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from moectl.settings.setting import Layer, Setting
from moectl.spec.table import table
from moectl.values import Origin, Value


@dataclass(frozen=True, slots=True)
class Effective:
    """The effective settings.

    Attributes:
        values: path to value, in the order in which paths were first said.
        layers: path to the layer that decided it.
    """

    values: dict[str, Value]
    layers: dict[str, Layer]

    def get(self, path: str) -> Any:
        """Return the effective value, or the default of the field."""
        found = self.values.get(path)
        if found is not None:
            return found.value
        field = table().fields.get(path)
        return field.default if field else None

    def section(self, path: str) -> dict[str, Value]:
        """Return the entries under `path`, their names without it."""
        prefix = f"{path}."
        return {
            name.removeprefix(prefix): value
            for name, value in self.values.items()
            if name.startswith(prefix)
        }

    def said_by_person(self, path: str) -> bool:
        """Whether a run file or an option decided it, rather than a preset or a default."""
        return self.layers.get(path, Layer.DEFAULT) >= Layer.RUN_FILE

    def origin(self, path: str) -> Origin:
        """Return where the effective value was said."""
        found = self.values.get(path)
        return found.origin if found else Origin("moectl default")


def merge(settings: Iterable[Setting]) -> Effective:
    """Merge settings; among equals the later one wins."""
    said = list(settings)
    values: dict[str, Value] = {}
    layers: dict[str, Layer] = {}
    for setting in sorted(said, key=lambda s: s.layer):
        weaker = values.get(setting.path)
        overrode = ((weaker.value, weaker.origin), *weaker.overrode) if weaker else ()
        values[setting.path] = Value(setting.value, setting.origin, overrode)
        layers[setting.path] = setting.layer
    return Effective(values, layers)
