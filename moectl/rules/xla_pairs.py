"""Combinations of XLA flags with each other, with variables, MaxText keys and hardware.

Each flag by itself is legal; together they hang, run out of memory or do nothing. All of them
are rows of `facts/data/xla/combinations.txt`, with their sources.
"""

from __future__ import annotations

from moectl.rules.rule import Rules
from moectl.rules.xla_combinations import combinations

RULES = Rules(combinations("xla", "combinations.txt"))
