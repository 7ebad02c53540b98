"""Reads the fact files that people edit by hand."""

from __future__ import annotations

from functools import cache
from typing import Any

from moectl.resources import fact


@cache
def read(name: str) -> dict[str, Any]:
    """Return the fact file `name`, e.g. "hardware.yaml", as plain data."""
    import yaml  # noqa: PLC0415

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = yaml.load(fact(name).read_text("utf-8"), Loader=loader)  # noqa: S506 - a safe loader
    assert isinstance(found, dict)  # noqa: S101 - the file is ours
    return found
