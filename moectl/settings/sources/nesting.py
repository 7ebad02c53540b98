"""Recognises configs that put MaxText's keys into sections, as forks and wrappers have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moectl.facts.maxtext import Catalogue

_DEPTH: Final = 4
Keys = tuple[str | int, ...]


def sections(data: Mapping[str, Any], catalogue: Catalogue) -> list[str]:
    """Return the top-level keys that hold MaxText keys although MaxText nests nothing there.

    A mapping under a key that takes one (`lora`, `vllm_hf_overrides`) is none; neither is a
    mapping of which MaxText knows nothing, which is left to the rule on unknown keys.
    """
    return [
        key
        for key, value in data.items()
        if isinstance(value, Mapping | list)
        and not _takes_mapping(key, value, catalogue)
        and any(catalogue.key(str(keys[-1])) for keys, _ in flat_keys(value, catalogue))
    ]


def flat_keys(value: Any, catalogue: Catalogue) -> Iterator[tuple[Keys, Any]]:
    """Yield path and value of what stands in a section, sections inside it opened."""
    yield from _flat(value, catalogue, ())


def _flat(value: Any, catalogue: Catalogue, at: Keys) -> Iterator[tuple[Keys, Any]]:
    if isinstance(value, Mapping):
        entries: Iterator[tuple[str | int, Any]] = iter(value.items())
    elif isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value):
        entries = enumerate(value)
    else:
        return
    for key, inside in entries:
        opens = isinstance(inside, Mapping | list) and len(at) < _DEPTH
        if opens and not _takes_mapping(str(key), inside, catalogue):
            deeper = list(_flat(inside, catalogue, (*at, key)))
            if deeper:
                yield from deeper
                continue
        if isinstance(key, str):
            yield (*at, key), inside


def _takes_mapping(name: str, value: Any, catalogue: Catalogue) -> bool:
    key = catalogue.key(name)
    if key is None:
        return False
    if isinstance(value, list):
        return "list" in key.type or key.type == "any"
    return bool(key.nested) or "dict" in key.type or key.type == "any"
