"""A file on top of the configs that MaxText ships; see `moectl.facts.own_configs`."""

from __future__ import annotations

from collections.abc import Mapping

from moectl.facts.maxtext import Catalogue
from moectl.facts.own_configs import chain, own_origin
from moectl.resolve.effective import BASE, BASE_CONFIG
from moectl.values import Value


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
    end: str | None = None
    try:
        for path, held in chain(said.value, catalogue):
            end = BASE if path == BASE else None
            origin = own_origin(path, said.origin)
            for key, value in held.items():
                values[key] = _over(values.get(key), Value(value, origin))
    except LookupError:
        return None
    return {**values, BASE_CONFIG: Value(end, said.origin)}


def _over(strong: Value | None, weak: Value) -> Value:
    if strong is None:
        return weak
    if isinstance(strong.value, Mapping) and isinstance(weak.value, Mapping):
        return Value({**weak.value, **strong.value}, strong.origin)
    return strong
