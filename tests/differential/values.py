"""The text of values for keys: those a key most likely takes, and odd ones."""

from __future__ import annotations

import random

from moectl.facts.maxtext_key import Key
from tests.differential.draft import fragment

ODD = (
    *("true", "false", "yes", "off", "y", "n", "t", "on", '"true"', '"False"', '"yes"', "1", "0"),
    *("2", "1.0", "0.0", "2.5", '"2"', '"2.0"', '" 3 "', "-1", "-0", "+4", "007", "0x10", "0b11"),
    *("1_000", "1e3", "1E3", "3e-4", "1.e2", ".5", "5.", "1:30", "1,000", "4k", "1e400", ".inf"),
    *(".nan", "nan", "inf", "null", "~", "None", "none", "NONE", "Null", '""', "''", '" "', "abc"),
    *("[]", "[1]", "[1, 2]", "[a, b]", "[[a], b]", "{}", "{a: 1}", '"[1, 2]"', "(1, 2)", "[1.5]"),
    *("2024-01-01", "12345678901234567890123", "!!str 5", '"5"', "é", "-", "a b", "=", "<<"),
)
INTS = ("1", "2", "4", "8", "3", "16", "128", "0", "-1", "2.0", '"4"', "1e1", "64", "1_0")
FLOATS = ("0.0", "1.0", "0.5", "1", "2", "1e-5", "1e-05", "3.e-5", '"0.1"', "0.1", "1e2", "100")
BOOLS = ("true", "false", "True", "FALSE", "yes", "no", "on", "off", "1", "0", '"true"', "1.0")
STRINGS = ("abc", '"a b"', '""', "a/b", "gs://a/b", "null", "none", '"1"', "'x'", "a-b_c.d")


def value_of(key: Key, rng: random.Random) -> str:
    """Return the text of a value that the key most likely takes."""
    if key.choices:
        word = rng.choice(key.choices)
        if isinstance(word, str) and rng.random() < 0.12:
            return rng.choice((word.upper(), word.title(), f'"{word} "', f"{word}s", f"'{word}'"))
        return fragment(word)
    if key.type.startswith("list"):
        inner = {"list[int]": INTS, "list[float]": FLOATS}.get(key.type, STRINGS)
        return f"[{', '.join(rng.choices(inner, k=rng.randint(0, 3)))}]"
    pool = {"bool": BOOLS, "int": INTS, "float": FLOATS, "str": STRINGS, "int|float": FLOATS}
    return rng.choice(pool.get(key.type, ODD))
