"""Readers of somebody's files: what each says, as settings with their places."""

from __future__ import annotations

from moectl.settings.sources.detect import KINDS, detect
from moectl.settings.sources.read import read_source
from moectl.settings.sources.source import Open, Part, Source, Written

__all__ = ["KINDS", "Open", "Part", "Source", "Written", "detect", "read_source"]
