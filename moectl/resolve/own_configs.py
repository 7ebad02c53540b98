"""The configs that MaxText ships besides base.yml, as bases of somebody's file.

MaxText looks for a base beside the file that names it, then in its own folder of configs
(0.2.5 configs/pyconfig.py:182-197); mappings are merged, everything else is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from posixpath import dirname, join, normpath
from typing import Any

from moectl.facts.maxtext import Catalogue
from moectl.resolve.effective import BASE, BASE_CONFIG
from moectl.resources import fact
from moectl.values import Origin, Value

_MODELS = "models/"
_LONGEST = 32


@cache
def _shipped() -> dict[str, dict[str, Any]]:
    document = json.loads(fact("maxtext_own_configs.json").read_text("utf-8"))
    configs: dict[str, dict[str, Any]] = document["configs"]
    return configs


def content(name: str, catalogue: Catalogue) -> Mapping[str, Any] | None:
    """Return what a config of MaxText's own says, by its path in the folder of configs."""
    path = normpath(name)
    if path.startswith(_MODELS) and path.endswith(".yml"):
        return catalogue.model(path[len(_MODELS) : -len(".yml")])
    return _shipped().get(path)


def on_own(config: Mapping[str, Value], catalogue: Catalogue) -> dict[str, Value] | None:
    """Return a file's values on top of the chain of MaxText's own configs it names.

    Args:
        config: what the file says; its `base_config` may name a config of MaxText's own.
        catalogue: keys of the release.

    Returns:
        The values, with `base_config` naming what the chain ends at: base.yml, or None. None
        when a base is no file of MaxText's.
    """
    values = dict(config)
    said = config.get(BASE_CONFIG)
    if said is None:
        return values
    name, folder = said.value, ""
    for _ in range(_LONGEST):
        if not isinstance(name, str) or not name:
            return None
        if normpath(name) == BASE:
            return {**values, BASE_CONFIG: Value(BASE, said.origin)}
        beside = normpath(join(folder, name))
        path = beside if content(beside, catalogue) is not None else normpath(name)
        held = content(path, catalogue)
        if held is None:
            return None
        origin = Origin(f"MaxText {catalogue.release} {path}")
        for key, value in held.items():
            values[key] = _over(values.get(key), Value(value, origin))
        if BASE_CONFIG not in held:
            return {**values, BASE_CONFIG: Value(None, said.origin)}
        name, folder = held[BASE_CONFIG], dirname(path)
    return None


def _over(strong: Value | None, weak: Value) -> Value:
    if strong is None:
        return weak
    if isinstance(strong.value, Mapping) and isinstance(weak.value, Mapping):
        return Value({**weak.value, **strong.value}, strong.origin)
    return strong
