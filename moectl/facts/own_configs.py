"""The configs that MaxText ships besides base.yml, as bases of somebody's file.

MaxText looks for a base beside the file that names it, then in its own folder of configs
(0.2.5 configs/pyconfig.py:182-197); mappings are merged, everything else is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from posixpath import dirname, join, normpath
from typing import Any, Final

from moectl.facts.maxtext import Catalogue
from moectl.resources import fact
from moectl.values import Origin

BASE: Final = "base.yml"
BASE_KEY: Final = "base_config"
_LAYER: Final = "MaxText's own "
_MODELS: Final = "models/"
_LONGEST: Final = 32


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(fact("maxtext_own_configs.json").read_text("utf-8"))
    return document


def release() -> str:
    """Return the release whose configs are known."""
    return str(_document()["release"])


def content(name: str, catalogue: Catalogue) -> Mapping[str, Any] | None:
    """Return what a config of MaxText's own says, by its path in the folder of configs."""
    path = normpath(name)
    if path.startswith(_MODELS) and path.endswith(".yml"):
        return catalogue.model(path[len(_MODELS) : -len(".yml")])
    held: Mapping[str, Any] | None = _document()["configs"].get(path)
    return held


def chain(name: Any, catalogue: Catalogue) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and content of each config of MaxText's own, from one to the last it stands on.

    Args:
        name: path in the folder of configs.
        catalogue: keys of the release.

    Yields:
        The nearest first; base.yml with nothing in it ends a chain that stands on it.

    Raises:
        LookupError: a base is no file of MaxText's.
    """
    folder = ""
    for _ in range(_LONGEST):
        if not isinstance(name, str) or not name:
            break
        if normpath(name) == BASE:
            yield BASE, {}
            return
        beside = normpath(join(folder, name))
        path = beside if content(beside, catalogue) is not None else normpath(name)
        held = content(path, catalogue)
        if held is None:
            break
        yield path, held
        if BASE_KEY not in held:
            return
        name, folder = held[BASE_KEY], dirname(path)
    raise LookupError(name)


def own_origin(path: str, place: Origin) -> Origin:
    """Return the origin of a value that MaxText's own config says, at the place that names it."""
    return Origin(f"{_LAYER}{path}", place.file, place.line, place.column)


def is_own(origin: Origin) -> bool:
    """Whether MaxText's own config says a value, and not the person's file."""
    return origin.layer.startswith(_LAYER)
