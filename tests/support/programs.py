"""The programs of a bundle as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

TEMPLATES = Path(__file__).parent.parent.parent / "templates"


def load(name: str) -> ModuleType:
    """Return `templates/<name>.py` as a module."""
    spec = importlib.util.spec_from_file_location(name, TEMPLATES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
